// Package source finds plugins. Today they are the files of one directory: the
// package yields a [Snapshot] of every plugin in it whenever that changes.
//
// No single notification is trusted. Any notification leads to a scan of the
// whole directory, and a periodic scan finds what a file system without
// notifications does not report. Plugins are compared by the digest of their
// module and by their policy: touching or copying a file without changing its
// content yields nothing.
//
// The files of a plugin are read once they have been unchanged for a short
// time, because most tools write in place and a file is visible before it is
// complete. Until then the snapshot holds the plugin as it was read last, or
// leaves it out if it was never read. RATIONALE.md has the reasons and the
// limits of this rule.
package source
