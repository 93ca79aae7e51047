// Package catalog decides which revision of each plugin runs: it loads a new one
// beside the running one, checks it against the other plugins, has it started,
// and closes the one that it replaces.
//
// # Guarantees
//
//   - A module that cannot be used changes nothing: the running revision keeps
//     running, and the reason is in the plugin's [Status].
//   - A plugin that waits (for a kind that is not served yet) or fails never
//     delays another one: every plugin has a goroutine of its own, its
//     supervisor. The loader limits how many modules are compiled at a time.
//   - No two plugins write the same condition of a kind. Of those that would, the
//     first one by name runs, in whatever order they come.
//   - New code that fails for more objects than the code before it is rolled
//     back. A policy never is.
//   - No code of a plugin runs that its policy does not pin, except for ten seconds
//     while the pinned code takes its place.
//   - A module that one replica of the host has rolled back runs in none of them, until an
//     administrator wants it to.
//   - A replaced revision is closed once it neither runs nor can be rolled back
//     to. Calls in progress are waited for, but delay nothing.
//
// # Files
//
//	catalog.go     Catalog: the plugins of a snapshot, and what others ask
//	revision.go    Module, Revision, what loads and runs them, errors
//	supervisor.go  one plugin: load, start, replace, stop
//	overlap.go     which of two plugins runs that write the same condition
//	probation.go   new code on probation, and rolling it back when
//	               host/dispatch/comparison.go finds that it fails more
//	replicas.go    what replicas of the host record of modules for one another
//	lastgood.go    the module that runs if the newest one cannot, and nothing runs
//	pin.go         policies that pin a digest
//	state.go       in which state a plugin is
//	status.go      what people see of it
package catalog
