// Command mykind is a plugin: the information of a MyKind is sent to another system.
//
// It is the example of the document grafana-app-sdk-reconcilers, as a reconciler. The plugin
// mykind-watcher is the same as a watcher.
package main

import (
	"github.com/thole-dev/thole/plugins/mykind/info"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/operator"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate crd

func init() {
	sdk.Plugin("mykind", "0.1.0")
	sdk.Register(operator.Reconciler[info.Spec, info.Status]{
		Reconcile:   reconcile,
		Opinionated: true, // the other system must be told of each deletion
	}.Controller(info.Controller))
}

func reconcile(r *operator.Request[info.Spec, info.Status]) (operator.Result, error) {
	client, err := info.ClientOf(r.Run)
	if err != nil {
		return operator.Result{}, err
	}
	r.Log.Info("Reconcile request", "name", r.Name, "action", r.Action, "generation", r.Generation)
	// If the object is being deleted, tell the other system.
	if r.Action == operator.Deleted {
		return operator.Result{}, client.Delete(r.Namespace, r.Name)
	}
	// If the last applied generation is the current one, there is nothing to do.
	if r.Generation == r.Status.LastAppliedGeneration {
		return operator.Result{}, nil
	}
	if err := client.ApplyInfo(r.Namespace, r.Name, r.Spec.Info.Some, r.Spec.Info.Other); err != nil {
		// If the error may be over by then, try again in a bit.
		if info.IsRetryable(err) {
			r.Log.Warn("the other system does not answer", "error", err)
			return operator.Result{RequeueAfter: info.RetryAfter}, nil
		}
		// Otherwise the retry policy of the controller determines when it is tried again.
		return operator.Result{}, err
	}
	r.Status.LastAppliedGeneration = r.Generation
	return operator.Result{}, nil
}

func main() {}
