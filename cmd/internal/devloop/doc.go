// Package devloop is the logic of `thole dev`: it builds a plugin from its
// source, runs it, and does both again when the source changes.
//
// Three things happen at once, each in a goroutine of its own. The workshop
// (workshop.go) looks at the source and builds; a build that is under way when
// something changes is given up. The host runs, in this process, on a plugin
// directory that only this package writes to. The session (session.go) takes
// what comes of builds and what the host logs (record.go), puts builds into
// the plugin directory, and tells all of it in the order in which it happens.
package devloop
