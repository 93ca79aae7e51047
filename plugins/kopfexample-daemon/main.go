// Command kopfexample-daemon is a plugin: a KopfExample keeps as many Pods as its spec states.
//
// It is the second variant of the example of the document kopf-reconciliation, for immediate
// reaction instead of polling: the timer of the plugin kopfexample is a daemon here, which a change
// of the index wakes.
package main

import (
	"time"

	"github.com/thole-dev/thole/plugins/kopfexample/kex"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
)

func init() {
	sdk.Plugin("kopfexample-daemon", "0.1.0")
	sdk.Managed() // follow the Pods of this plugin, and no others
	var h handlers.Handlers[kex.Spec, kex.Status]
	h.OnEvent("react-on-state-changes", reactOnStateChanges)
	sdk.Register(h.Controller(sdk.Controller[kex.Spec, kex.Status]{
		Name:    "kopfexample",
		For:     kex.Kind,
		Owns:    []sdk.Kind{kex.PodKind},
		Indexes: []sdk.Index{kexPods},
		Changes: sdk.ChangesMemory, // no handler needs what was handled
		Warm:    []sdk.Value{kex.Pod{}},
		Daemon:  sdk.Daemon(calculateActualState),
	}))
}

// kexPods keeps the names of the Pods by their parents, and wakes who has read them.
var kexPods = sdk.IndexBy("kex-pods", kex.PodKind, func(x *sdk.Indexing) error {
	var pod kex.Pod
	if err := x.Object(&pod); err != nil {
		return err
	}
	if parent := pod.Metadata.Labels[kex.ParentLabel]; parent != "" && !pod.Metadata.Deleting() {
		x.Add(parent, nil)
	}
	return nil
})

// recount is when the Pods are counted although no Pod has changed: somebody may have edited the
// status.
const recount = 10 * time.Minute

// calculateActualState signals the actual state whenever the index has changed. It keeps nothing
// between its steps: what it has signalled may be lost when the host ends, and the first step after
// that signals again.
func calculateActualState(d *sdk.DaemonStep[kex.Spec, kex.Status], _ *struct{}) error {
	if d.Stopping() {
		return nil
	}
	d.Wait(sdk.ReadChange(), sdk.After(recount))
	pods, err := d.Lookup(sdk.IndexQuery{Index: kexPods.Name, Key: d.Name})
	if err == nil {
		d.Signal(len(pods))
	}
	return err
}

// reactOnStateChanges saves the actual state, which the daemon has signalled, and reacts to it or to
// a change of the desired state. It waits for the daemon while the index has what the status does
// not show yet: the difference would be made up for twice.
func reactOnStateChanges(c *kex.Call) error {
	if n := len(c.Signals); n > 0 {
		if err := sdk.Decode(c.Signals[n-1], &c.Status.Replicas); err != nil {
			return err
		}
	}
	items, err := c.Lookup(sdk.IndexQuery{Index: kexPods.Name, Key: c.Name})
	if err != nil || len(items) != c.Status.Replicas {
		return err
	}
	if delta := c.Spec.Desired() - c.Status.Replicas; delta > 0 {
		kex.Spawn(c, delta, kex.Names(items))
	} else if delta < 0 {
		kex.Terminate(c, -delta, kex.Names(items))
	}
	return nil
}

func main() {}
