// Command operator is a plugin for tests that uses package operator.
package main

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/operator"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

// Spec is what the watcher reacts to.
type Spec struct {
	Title string `json:"title,omitempty"`
	Fail  bool   `json:"fail,omitempty"`
}

// Status has what the watcher has done.
type Status struct {
	Calls string `json:"calls,omitempty"`
}

// State is what a call gives to the next one.
//
//thole:generate
type State struct {
	Title string `json:"title"`
}

// patch is a patch of the spec.
type patch struct {
	Spec Spec `json:"spec"`
}

type (
	request = operator.Request[Spec, Status]
	object  = sdk.Request[Spec, Status]
)

func init() {
	sdk.Plugin("operator", "v1")
	kind := sdk.Kind{APIVersion: "example.com/v1", Kind: "Site"}
	retry := sdk.RetryPolicy{Initial: time.Minute, Factor: 1}
	r := operator.Reconciler[Spec, Status]{Reconcile: reconcile, Dequeue: func(*request, operator.Pending) bool { return false }}
	sdk.Register(r.Controller(sdk.Controller[Spec, Status]{Name: "reconciler", For: kind, Retry: retry}))
	w := operator.Watcher[Spec, Status]{Opinionated: true, Add: note("add"), Update: update, Delete: note("delete"), Sync: note("sync")}
	sdk.Register(w.Controller(sdk.Controller[Spec, Status]{
		Name: "watcher", For: kind, Retry: retry, Conditions: sdk.Conditions{Target: "Watched"},
	}))
}

// reconcile gives the title to the next call for the event.
func reconcile(r *request) (operator.Result, error) {
	var state State
	if _, err := r.State(&state); err != nil {
		return operator.Result{}, err
	}
	r.Log.Info("called", "action", string(r.Action), "title", r.Spec.Title, "state", state.Title)
	if r.Spec.Fail {
		return operator.Result{State: &State{Title: r.Spec.Title}}, errors.New("as the spec says")
	}
	return operator.Result{}, nil
}

// note returns a function that notes its name.
func note(name string) func(*object) error {
	return func(r *object) error {
		r.Status.Calls += name + " "
		if r.Spec.Fail {
			return errors.New("as the spec says")
		}
		return nil
	}
}

// update notes the titles, and changes its own object.
func update(old *sdk.Object[Spec, Status], r *object) error {
	r.Status.Calls += old.Spec.Title + ">" + r.Spec.Title + " "
	r.Patch(&patch{Spec: Spec{Title: r.Spec.Title + "!"}})
	return nil
}

func main() {}
