// Package devloop is the logic of `thole dev`: it builds a plugin from its source
// and runs it, and does both again whenever the source changes.
//
// Three things run at the same time. The builder (builder.go) watches the source
// and builds; a build in progress is cancelled when the source changes. The host
// runs in this process, on a plugin directory that only this package writes to.
// The session (session.go) receives what becomes of builds, the events of the
// host and the changes of objects (objects.go), puts builds into the plugin
// directory, and prints all of it in the order of its arrival (printer.go).
//
// # Files
//
//	devloop.go    Config and Run: what a session needs, its start and its end
//	session.go    the session's loop
//	builder.go    builds after each change of the source
//	sources.go    the files that a plugin is built from, and their changes
//	cluster.go    the embedded control plane, and the manifests beside the source
//	objects.go    the changes of the plugin's objects
//	sample.go     when the sample is applied
//	ready.go      whether the sample is Ready, and if not, why
//	printer.go    lines for people
//	process.go    a program as a child process
package devloop
