package effect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func managed(c *Config) { c.Managed = true }

// followManaged lets the store have only the objects of these kinds that carry the
// label of the plugin.
func (s *store) followManaged(kinds ...object.Resource) {
	s.selected = map[abi.Kind]bool{}
	for _, r := range kinds {
		s.selected[r.Kind] = true
	}
	s.selects = func(o *object.Object) bool { return o.Labels[abi.LabelManagedBy] == "demo" }
}

const labelledObject = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"app":"x","thole.dev/managed-by":"theirs"}},"data":{"k":"v"}}`

func TestWhatAManagedPluginOwnsIsLabelled(t *testing.T) {
	for name, c := range map[string]struct {
		managed bool
		owned   bool
		want    string
	}{
		"owned by a managed plugin":   {true, true, "map[app:x thole.dev/managed-by:demo]"},
		"written by a managed plugin": {true, false, "map[app:x]"},
		"owned by another plugin":     {false, true, "map[app:x]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, func(config *Config) { config.Managed = c.managed })
			target := w.owner(list(configMap), nil)
			if !c.owned {
				target.Controller = controller(nil, list(configMap))
			}
			w.intents(target, apply(labelledObject))
			got := w.seen(configMap, "c")
			if fmt.Sprint(got.Labels) != c.want {
				t.Errorf("labels are %v", got.Labels)
			}
			// A guest returns the object as it has read it.
			w.intents(target, &abi.Result{Apply: []abi.Apply{{Object: got.Raw}}})
			w.seen(configMap, "c")
			w.wire.take()
			w.intents(target, &abi.Result{Apply: []abi.Apply{{Object: got.Raw}}})
			w.expectSent()
			if got := w.live(configMap, "c"); fmt.Sprint(got.Labels) != c.want {
				t.Errorf("then labels are %v", got.Labels)
			}
		})
	}
}

func TestALabelThatWasChangedIsSetAgain(t *testing.T) {
	for name, label := range map[string]string{"removed": `null`, "changed": `"theirs"`} {
		for _, restart := range []bool{false, true} {
			for _, metadataOnly := range []bool{false, true} {
				// An object that is not followed cannot be created, because it exists.
				for requests, follow := range map[string]func(*store, ...object.Resource){
					"PATCH GET PATCH": (*store).followManaged,
					"PATCH":           func(*store, ...object.Resource) {},
				} {
					t.Run(fmt.Sprintf("%s, restart %v, metadata only %v, %s", name, restart, metadataOnly, requests), func(t *testing.T) {
						w := newCluster(t, managed)
						follow(&w.store, configMap)
						w.store.metadata = map[abi.Kind]bool{configMap.Kind: metadataOnly}
						target := w.owner(list(configMap), nil)
						run := func(want string) {
							t.Helper()
							w.intents(target, apply(configObject, "v"))
							if got := w.wire.methods(); got != want {
								t.Errorf("sent %q, want %q", got, want)
							}
							w.seen(configMap, "c")
						}
						run("PATCH")
						w.edit(configMap, "c", "", `{"metadata":{"labels":{"thole.dev/managed-by":`+label+`}}}`)
						w.seen(configMap, "c")
						if restart {
							w.start(managed)
						}
						run(requests)
						if got := w.live(configMap, "c"); got.Labels[abi.LabelManagedBy] != "demo" {
							t.Errorf("labels are %v", got.Labels)
						}
						run("")
					})
				}
			}
		}
	}
}

func TestAdoptionNeedsTheKindAsAWhole(t *testing.T) {
	w := newCluster(t, managed)
	target := w.owner(list(configMap), nil)
	before := w.create(configMap, `{"metadata":{"name":"c"},"data":{"more":"theirs"}}`)
	w.seen(configMap, "c")
	w.store.followManaged(configMap)
	for _, in := range []*abi.Result{apply(configObject, "v"), adopt(apply(configObject, "v"))} {
		w.wire.take()
		_, failure := w.PerformIntents(t.Context(), target, in)
		if failure == nil || failure.Reason != reasonNotAdopted || !strings.Contains(failure.Message, "followed as a whole: name it in Reads") {
			t.Errorf("got %+v", failure)
		}
		if got := w.wire.methods(); got != "PATCH GET" {
			t.Errorf("sent %s", got)
		}
	}
	if got := w.live(configMap, "c"); got.ResourceVersion != before.ResourceVersion {
		t.Errorf("changed %s", got.Raw)
	}
	w.store.selected = nil
	w.intents(target, adopt(apply(configObject, "v")))
	if got := w.live(configMap, "c"); got.Controller() == nil || got.Labels[abi.LabelManagedBy] != "demo" || field(got, "data") != `{"k":"v","more":"theirs"}` {
		t.Errorf("got %s", got.Raw)
	}
}

// The cache may be behind, or the object may not be selected: the server decides.
func TestAnObjectThatMayBeUnselectedIsReadWhereItIsNotOwned(t *testing.T) {
	w := newCluster(t)
	w.store.followManaged(configMap)
	target := w.owner(nil, list(configMap))
	for run, want := range []string{"GET PATCH", "GET", "GET"} {
		w.intents(target, apply(configObject, "v"))
		if got := w.wire.methods(); got != want {
			t.Errorf("run %d sent %s, want %s", run, got, want)
		}
	}
}

func TestDeleteOfAnUnselectedObjectReadsOnceWhatIsOwned(t *testing.T) {
	ref := &abi.Result{Delete: []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}}}}
	for _, owned := range []bool{true, false} {
		t.Run(fmt.Sprintf("owned %v", owned), func(t *testing.T) {
			w := newCluster(t, managed)
			w.store.followManaged(configMap)
			target, second := w.owner(list(configMap), nil), "" // has no request
			w.intents(target, apply(configObject, "v"))
			if !owned {
				target.Controller, second = controller(nil, list(configMap)), "GET"
			}
			w.edit(configMap, "c", "", `{"metadata":{"labels":null}}`)
			w.seen(configMap, "c")
			w.wire.take()
			w.intents(target, ref)
			if got := w.wire.methods(); got != "GET DELETE" || w.live(configMap, "c") != nil {
				t.Errorf("sent %s", got)
			}
			w.intents(target, ref)
			if got := w.wire.methods(); got != second {
				t.Errorf("then sent %q", got)
			}
		})
	}
}

// upgrade makes the plugin a managed one: after a restart of the host, or by a swap of
// its code, which keeps the records.
func (w *world) upgrade(restart bool) {
	before := w.Performer
	w.start(managed, func(c *Config) { c.Namespaces = []string{w.ns} })
	if !restart {
		w.Inherit(before)
	}
}

func TestAPluginThatBecomesManagedWritesEachChildOnce(t *testing.T) {
	kinds := list(pod, configMap, service, deployment, secret, widget)
	for _, labelled := range []bool{true, false} {
		for _, metadataOnly := range []bool{true, false} {
			for _, restart := range []bool{true, false} {
				t.Run(fmt.Sprintf("labelled %v, metadata only %v, restart %v", labelled, metadataOnly, restart), func(t *testing.T) {
					w := newCluster(t)
					target := w.owner(kinds, nil)
					w.intents(target, allKinds)
					w.upgrade(restart)
					if labelled {
						w.label(target)
					}
					w.store.followManaged(kinds...)
					w.store.metadata = map[abi.Kind]bool{}
					for _, r := range kinds {
						w.store.metadata[r.Kind] = metadataOnly
					}
					want := 6
					if labelled {
						want = 0
					}
					for range 2 {
						seeAll(w)
						w.wire.take()
						report := w.intents(target, allKinds)
						sent := w.wire.take()
						if len(report.Writes) != want || want == 0 && len(sent) != 0 {
							t.Errorf("wrote %d, sent %v, want %d", len(report.Writes), sent, want)
						}
						want = 0
					}
					if got := w.live(pod, "web"); got.Labels[abi.LabelManagedBy] != "demo" {
						t.Errorf("labels are %v", got.Labels)
					}
				})
			}
		}
	}
}

// A merge patch, by whatever manager, belongs to an entry of its own in managedFields:
// the label is nothing that an apply has set. When the plugin is not managed any more,
// it stays there, and goes with the next change of children that were created with it.
func TestALabelOfExistingChildrenIsNoField(t *testing.T) {
	const newObject = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"},"data":{"k":%q}}`
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(configObject, "v"))
	w.upgrade(true)
	w.label(target)
	entries := func() (all []string) {
		meta, err := w.admin.metadata(t.Context(), configMap, w.key(configMap, "c"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range meta.ManagedFields {
			if strings.Contains(string(e.FieldsV1.GetRawBytes()), abi.LabelManagedBy) {
				all = append(all, e.Manager+" "+string(e.Operation))
			}
		}
		return all
	}
	if got := fmt.Sprint(entries()); got != "[thole/demo/main "+string(metav1.ManagedFieldsOperationUpdate)+"]" {
		t.Errorf("the label is a field of %s", got)
	}
	w.seen(configMap, "c")
	w.intents(target, apply(configObject, "v2"))
	if got := fmt.Sprint(entries()); got != "[thole/demo/main Apply thole/demo/main Update]" {
		t.Errorf("then the label is a field of %s", got)
	}
	w.intents(target, apply(newObject, "v2"))
	w.start()
	for name, c := range map[string]struct{ object, label string }{"c": {configObject, "demo"}, "new": {newObject, ""}} {
		w.seen(configMap, name)
		w.wire.take()
		w.intents(target, apply(c.object, "v2"))
		w.expectSent()
		w.intents(target, apply(c.object, "v3"))
		if got := w.live(configMap, name); got.Labels[abi.LabelManagedBy] != c.label || field(got, "data") != `{"k":"v3"}` {
			t.Errorf("%s: got %s", name, got.Raw)
		}
	}
}

// If the plugin writes the kind, the metadata shows it of what is not selected.
func TestAnUnselectedObjectOfAKindInWritesCostsNoRequest(t *testing.T) {
	w := newCluster(t)
	w.store.followManaged(configMap)
	w.store.written = true
	target := w.owner(nil, list(configMap))
	for run, want := range []string{"PATCH", "", ""} {
		w.intents(target, apply(configObject, "v"))
		if got := w.wire.methods(); got != want {
			t.Errorf("run %d sent %q, want %q", run, got, want)
		}
		w.seen(configMap, "c")
	}
	w.edit(configMap, "c", "somebody", `{"data":{"k":"theirs"}}`)
	w.seen(configMap, "c")
	w.wire.take()
	_, failure := w.PerformIntents(t.Context(), target, apply(configObject, "v"))
	if failure == nil || failure.Reason != reasonFieldConflict {
		t.Errorf("a change by somebody else: %+v", failure)
	}

	w.start()
	if got := w.FindShared(target.Controller); !slices.Equal(got, []object.Key{target.Object.Key()}) {
		t.Errorf("after a restart %v share the object", got)
	}
	w.edit(configMap, "c", "somebody", `{"metadata":{"labels":{"a":"b"}}}`)
	w.seen(configMap, "c")
	w.wire.take()
	gone := &abi.Result{Delete: []abi.Delete{{Ref: configMap.Kind.Ref("", "c")}}}
	for run, want := range []string{"DELETE", "", ""} {
		w.intents(target, gone)
		if got := w.wire.methods(); got != want {
			t.Errorf("run %d of a delete sent %q, want %q", run, got, want)
		}
		w.store.drop(configMap.Kind, w.key(configMap, "c"))
	}
}

// Adoption needs more than metadata that wakes nobody.
func TestAnUnselectedObjectOfAKindInWritesIsNotAdopted(t *testing.T) {
	w := newCluster(t, managed)
	w.store.followManaged(configMap)
	w.store.written = true
	target := w.owner(list(configMap), list(configMap))
	w.create(configMap, `{"metadata":{"name":"c"},"data":{"more":"theirs"}}`)
	w.seen(configMap, "c")
	_, failure := w.PerformIntents(t.Context(), target, adopt(apply(configObject, "v")))
	if failure == nil || failure.Reason != reasonNotAdopted {
		t.Errorf("got %+v", failure)
	}
}
