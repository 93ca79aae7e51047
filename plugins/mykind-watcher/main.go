// Command mykind-watcher is a plugin: the information of a MyKind is sent to another system.
//
// It is the second variant of the example of the document grafana-app-sdk-reconcilers, as a watcher.
package main

import (
	"github.com/thole-dev/thole/plugins/mykind/info"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/operator"
)

type myKind = sdk.Request[info.Spec, info.Status]

func init() {
	sdk.Plugin("mykind-watcher", "0.1.0")
	base := info.Controller
	base.Retry = sdk.RetryPolicy{Cap: info.RetryAfter}
	sdk.Register(operator.Watcher[info.Spec, info.Status]{
		Add:         add,
		Update:      update,
		Delete:      remove,
		Sync:        add, // it may have changed while no host ran
		Opinionated: true,
	}.Controller(base))
}

func add(r *myKind) error {
	r.Log.Info("Add event", "name", r.Name, "action", "add", "generation", r.Generation)
	return apply(r)
}

func update(_ *sdk.Object[info.Spec, info.Status], r *myKind) error {
	r.Log.Info("Update event", "name", r.Name, "action", "update", "generation", r.Generation)
	return apply(r)
}

// apply sends the information unless the other system has that of this generation. An error is
// returned: the retry policy of the controller determines when it is tried again.
func apply(r *myKind) error {
	if r.Generation == r.Status.LastAppliedGeneration {
		return nil
	}
	client, err := info.ClientOf(r.Run)
	if err == nil {
		err = client.ApplyInfo(r.Namespace, r.Name, r.Spec.Info.Some, r.Spec.Info.Other)
	}
	if err == nil {
		r.Status.LastAppliedGeneration = r.Generation
	}
	return err
}

func remove(r *myKind) error {
	r.Log.Info("Delete event", "name", r.Name, "action", "delete", "generation", r.Generation)
	client, err := info.ClientOf(r.Run)
	if err != nil {
		return err
	}
	return client.Delete(r.Namespace, r.Name)
}

func main() {}
