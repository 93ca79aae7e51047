package effect

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// late is a write that a replica was about to send when it was suspended.
type late struct {
	object object.Resource
	name   string
	before func(*world, *Target) // what the replica has written earlier
	write  func(*world, Target) *Failure
}

func lateIntents(r object.Resource, name string, result func() *abi.Result) late {
	return late{
		object: r, name: name,
		before: func(w *world, t *Target) {
			w.intents(*t, apply(configObject, "before"))
		},
		write: func(w *world, t Target) *Failure {
			_, failure := w.PerformIntents(w.Context(), t, result())
			return failure
		},
	}
}

func lateAdoption(result func() *abi.Result) late {
	c := lateIntents(configMap, "c", result)
	c.before = func(w *world, _ *Target) {
		w.create(configMap, `{"metadata":{"name":"c"}}`)
	}
	return c
}

func lateFinalizer(add bool) late {
	return late{
		object: widget, name: "w",
		before: func(w *world, t *Target) {
			if report, _ := w.EnsureFinalizer(w.Context(), *t); !add {
				t.Object = report.Primary
			} else if _, failure := w.RemoveFinalizer(w.Context(), Target{Controller: t.Controller, Object: report.Primary}); failure != nil {
				w.Fatal(failure)
			}
		},
		write: func(w *world, t Target) (failure *Failure) {
			if add {
				_, failure = w.EnsureFinalizer(w.Context(), t)
			} else {
				_, failure = w.RemoveFinalizer(w.Context(), t)
			}
			return failure
		},
	}
}

// A replica is suspended between the check and the request, and goes on when another replica leads
// and has written: its request changes nothing.
func TestAWriteOfAReplicaThatWasSuspendedChangesNothingNewer(t *testing.T) {
	for name, c := range map[string]late{
		"apply": lateIntents(configMap, "c", func() *abi.Result { return apply(configObject, "suspended") }),
		"delete": lateIntents(configMap, "c", func() *abi.Result {
			return &abi.Result{Delete: []abi.Delete{{Ref: configMap.Kind.Ref("", "c")}}}
		}),
		"delete in the foreground": lateIntents(configMap, "c", func() *abi.Result {
			return removeOf(configMap, func(d *abi.Delete) { d.Propagation = abi.PropagationForeground })
		}),
		"replace": {
			object: configMap, name: "c",
			before: func(w *world, t *Target) { w.intents(*t, immutable("before")) },
			write: func(w *world, t Target) *Failure {
				_, failure := w.PerformIntents(w.Context(), t, immutable("suspended"))
				return failure
			},
		},
		"patch": lateIntents(widget, "w", func() *abi.Result {
			return &abi.Result{Patch: []byte(`{"metadata":{"labels":{"by":"suspended"}}}`)}
		}),
		"release of a child":   lateIntents(configMap, "c", func() *abi.Result { return releasing("c") }),
		"adoption":             lateAdoption(func() *abi.Result { return adopting("c") }),
		"adoption with fields": lateAdoption(func() *abi.Result { return adopt(apply(configObject, "suspended")) }),
		"finalizer":            lateFinalizer(true),
		"finalizer removal":    lateFinalizer(false),
		"release": {
			object: secret, name: "s",
			before: func(w *world, t *Target) {
				w.create(secret, `{"metadata":{"name":"s"},"stringData":{"theirs":"x"}}`)
				w.intents(*t, apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","labels":{"by":"us"}}}`))
			},
			write: func(w *world, t Target) *Failure {
				if _, failure := w.PerformIntents(w.Context(), t, &abi.Result{}); failure != nil {
					return failure
				}
				_, failure := w.Release(w.Context(), t, false)
				return failure
			},
		},
		"label": {
			object: configMap, name: "c",
			before: func(w *world, t *Target) { w.intents(*t, apply(configObject, "before")) },
			write: func(w *world, t Target) *Failure {
				w.Namespaces = []string{w.ns}
				_, err := w.LabelChildren(w.Context(), []abi.Controller{*t.Controller})
				if err == nil {
					return nil
				}
				return classify(err)
			},
		},
	} {
		t.Run(name, func(t *testing.T) { testLate(t, c) })
	}
}

func testLate(t *testing.T, c late) {
	w := newCluster(t)
	target := w.owner(list(configMap), list(secret))
	var refuse atomic.Bool
	w.start(until(&refuse))
	c.before(w, &target)
	if c.object == configMap {
		w.seen(configMap, "c")
	}
	target.Object = w.seen(widget, "w")
	var newer *object.Object
	var suspended func(request)
	suspended = func(r request) {
		if r.method == http.MethodGet {
			w.wire.before = suspended
			return
		}
		newer = w.edit(c.object, c.name, "", `{"metadata":{"annotations":{"by":"another replica"}}}`)
		refuse.Store(true)
	}
	w.wire.before = suspended
	if failure := c.write(w, target); failure == nil || !failure.Conflict && failure.Later == 0 {
		t.Errorf("failed with %+v, want a conflict", failure)
	}
	if now := w.live(c.object, c.name); newer == nil || now == nil || now.ResourceVersion != newer.ResourceVersion {
		t.Errorf("got %v, want it as the other replica has left it", now)
	}
	refuse.Store(false)
	if c.object == configMap {
		w.seen(configMap, "c")
	}
	target.Object = w.seen(widget, "w")
	if failure := c.write(w, target); failure != nil {
		t.Errorf("the next run fails with %v", failure)
	}
	if now := w.live(c.object, c.name); now != nil && now.ResourceVersion == newer.ResourceVersion {
		t.Error("the next run writes nothing")
	}
}
