// Package source is where plugins come from. Today that is a directory: it
// yields a [Snapshot] of every plugin in it whenever that changes.
//
// The directory is watched as a whole and no single notification is trusted:
// any of them means a full rescan after a short quiet time, and a periodic
// scan finds what a file system without notifications has not told. What
// counts is the content: a file that was touched or moved in place yields
// nothing new.
//
// A file is only read when it is settled, which means that nobody is writing
// it. Until then its plugin stays as it was seen last, or is left out if it
// was never seen. RATIONALE.md tells how that is found out.
package source
