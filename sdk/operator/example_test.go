package operator_test

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/operator"
)

type infoSpec struct {
	SomeInfo  string `json:"someInfo"`
	OtherInfo string `json:"otherInfo"`
}

type infoStatus struct {
	LastAppliedGeneration int64 `json:"lastAppliedGeneration,omitempty"`
}

type infoMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data"`
}

// applyInfo applies the information once for each generation, as soon as there is the
// namespace that it is for.
func applyInfo(r *operator.Request[infoSpec, infoStatus]) (operator.Result, error) {
	if r.Action == operator.Deleted || r.Generation == r.Status.LastAppliedGeneration {
		return operator.Result{}, nil // what it owns goes with it
	}
	var quota sdk.Raw
	err := r.Get(sdk.Kind{APIVersion: "v1", Kind: "ResourceQuota"}.Ref(r.Namespace, "info"), &quota)
	if errors.Is(err, sdk.ErrNotFound) {
		return operator.Result{RequeueAfter: time.Minute}, nil
	}
	if err != nil {
		return operator.Result{}, err // the policy decides whether and when there is another call
	}
	r.Apply(infoMap{
		TypeMeta: sdk.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		Metadata: sdk.ObjectMeta{Name: r.Name},
		Data:     map[string]string{"someInfo": r.Spec.SomeInfo, "otherInfo": r.Spec.OtherInfo},
	})
	r.Status.LastAppliedGeneration = r.Generation
	return operator.Result{}, nil
}

func ExampleReconciler() {
	r := operator.Reconciler[infoSpec, infoStatus]{Reconcile: applyInfo}
	sdk.Register(r.Controller(sdk.Controller[infoSpec, infoStatus]{
		Name:  "mykind",
		For:   sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "MyKind"},
		Owns:  []sdk.Kind{{APIVersion: "v1", Kind: "ConfigMap"}},
		Reads: []sdk.Kind{{APIVersion: "v1", Kind: "ResourceQuota"}},
		Retry: sdk.RetryPolicy{Initial: 5 * time.Second, Attempts: 5},
	}))
	// Output:
}

func ExampleWatcher() {
	w := operator.Watcher[infoSpec, infoStatus]{
		Opinionated: true,
		Add: func(r *sdk.Request[infoSpec, infoStatus]) error {
			r.Event(sdk.Normal, "Added", r.Spec.SomeInfo)
			return nil
		},
		Update: func(old *sdk.Object[infoSpec, infoStatus], r *sdk.Request[infoSpec, infoStatus]) error {
			if old != nil && old.Spec.SomeInfo == r.Spec.SomeInfo {
				return nil
			}
			r.Event(sdk.Normal, "Changed", r.Spec.SomeInfo)
			return nil
		},
		Dequeue: operator.DequeueOlder[infoSpec, infoStatus],
	}
	sdk.Register(w.Controller(sdk.Controller[infoSpec, infoStatus]{
		Name: "myevents",
		For:  sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "MyKind"},
	}))
	// Output:
}
