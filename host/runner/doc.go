// Package runner runs the revisions that the catalog has loaded: it joins each
// controller of a plugin to its queue, its informers, its sandboxed guest and its
// effects, and starts, swaps and ends them for the catalog.
//
// # Files
//
//	runner.go              Runner: the plugins that run
//	start.go               starting a revision, as a list of steps
//	capability.go          what capabilities do with plugins and controllers
//	controller.go          one running controller, its handlers and its resync
//	performer.go           the performer of a plugin, which acts for it
//	starting.go            what capabilities learn before a start, and calls of a guest whose revision does not run yet
//	policycheck.go         whether the policy allows what a manifest needs, before the start
//	identity.go            the service account that a plugin acts as
//	rightsreview.go        whether it still has every right, while the plugin runs
//	written.go             the informers of kinds that a plugin writes and does not follow
//	informers.go           the informers that a revision reads, as dispatch and effect use them
//	fields.go              whether the kinds have the fields of a manifest
//	status.go              breakers, and what people see of a running plugin
//	pluginstatus.go        what /plugins has of a plugin
//	leaders.go             how the host asks which replica leads a plugin
//	unpruned.go            children that nobody prunes any more
//	leftoverfinalizers.go  finalizers that nobody removes any more
package runner
