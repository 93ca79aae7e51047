// Command kopfexample is a plugin: a KopfExample keeps as many Pods as its spec states.
//
// It is the example of the document kopf-reconciliation, with its three functions under
// their names: an index of the Pods by their parent, a timer that writes the actual number
// of Pods into the status, and an event handler that compares the two. What the document
// leaves out, the creation and the termination of Pods, is in package kex.
package main

import (
	"time"

	"github.com/thole-dev/thole/plugins/kopfexample/kex"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate crd

func init() {
	sdk.Plugin("kopfexample", "0.1.0")
	sdk.Managed() // follow the Pods of this plugin, and no others
	var h handlers.Handlers[kex.Spec, kex.Status]
	h.Timer(sdk.Timer{Name: "calculate-actual-state", Interval: 10 * time.Second}, calculateActualState)
	h.OnEvent("react-on-state-changes", reactOnStateChanges)
	sdk.Register(h.Controller(sdk.Controller[kex.Spec, kex.Status]{
		Name:    "kopfexample",
		For:     kex.Kind,
		Owns:    []sdk.Kind{kex.PodKind},
		Indexes: []sdk.Index{kexPods},
		Changes: sdk.ChangesMemory, // no handler needs what was handled
		Warm:    []sdk.Value{kex.Pod{}},
	}))
}

// kexPods keeps the names of the Pods by their parents, so that no run lists Pods.
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

// podsOf returns the names of the running Pods of the object, in order.
func podsOf(c *kex.Call) ([]string, error) {
	items, err := c.Lookup(sdk.IndexQuery{Index: kexPods.Name, Key: c.Name})
	return kex.Names(items), err
}

// calculateActualState regularly saves the actual state from the index.
func calculateActualState(c *kex.Call) error {
	pods, err := podsOf(c)
	if err == nil {
		c.Status.Replicas = len(pods)
	}
	return err
}

// reactOnStateChanges reacts to changes of the desired or the actual state. It waits for the
// timer while the index has what the status does not show yet: the difference would be made
// up for twice.
func reactOnStateChanges(c *kex.Call) error {
	pods, err := podsOf(c)
	if err != nil || c.Deleting() || len(pods) != c.Status.Replicas {
		return err
	}
	if delta := c.Spec.Desired() - c.Status.Replicas; delta > 0 {
		kex.Spawn(c, delta, pods)
	} else if delta < 0 {
		kex.Terminate(c, -delta, pods)
	}
	return nil
}

func main() {}
