package effect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// pruning returns the target for a controller that prunes.
func pruning(t Target) Target {
	c := *t.Controller
	c.Prune = true
	t.Controller = &c
	return t
}

// naming returns a result that names ConfigMaps, and prunes the others.
func naming(names ...string) *abi.Result {
	r := &abi.Result{Prune: true}
	for _, name := range names {
		r.Apply = append(r.Apply, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"k":"v"}}`, name).Apply...)
	}
	return r
}

// The label says what is pruned: without prune in the manifest nothing has it.
func TestAControllerThatDoesNotPruneLabelsNothing(t *testing.T) {
	w := newCluster(t)
	w.intents(w.owner(list(configMap), nil), &abi.Result{Apply: naming("a").Apply})
	if o := w.seen(configMap, "a"); o.Labels[abi.LabelAppliedBy] != "" {
		t.Errorf("the labels are %v", o.Labels)
	}
}

func TestWhatIsNotNamedAnyMoreIsPruned(t *testing.T) {
	w := newCluster(t)
	target := pruning(w.owner(list(configMap), nil))
	w.intents(target, naming("a", "b", "c"))
	for _, name := range []string{"a", "b", "c"} {
		if o := w.seen(configMap, name); o.Labels[abi.LabelAppliedBy] != "demo.main" {
			t.Errorf("%s has the labels %v", name, o.Labels)
		}
	}
	w.start() // survives a restart
	w.wire.take()
	report := w.intents(target, naming("b"))
	path := "/api/v1/namespaces/" + w.ns + "/configmaps/"
	w.expectSent("GET "+path+"c", "DELETE "+path+"c", "GET "+path+"a", "DELETE "+path+"a") // the last one first
	if len(report.Writes) != 2 || !report.Writes[0].Gone() || report.Writes[0].Key.Name != "c" {
		t.Errorf("the report has %+v", report.Writes)
	}
	if w.seen(configMap, "a") != nil || w.seen(configMap, "b") == nil || w.seen(configMap, "c") != nil {
		t.Error("a and c are to be gone, and b to be there")
	}
	w.wire.take()
	w.intents(target, naming("b"))
	w.expectSent()
	w.intents(target, naming())
	if w.live(configMap, "b") != nil {
		t.Error("b is there after a result that names nothing")
	}
}

func TestResultWithoutPruneDeletesNothing(t *testing.T) {
	w := newCluster(t)
	target := pruning(w.owner(list(configMap), nil))
	w.intents(target, naming("a"))
	w.seen(configMap, "a")
	w.intents(target, &abi.Result{})
	if w.live(configMap, "a") == nil {
		t.Error("a is gone")
	}
}

// Each case changes an object that was created for the primary, or another one, and names nothing then.
func TestNothingForeignIsPruned(t *testing.T) {
	const owner = `{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"w","uid":%q,"controller":true}`
	for name, c := range map[string]struct {
		change func(w *world, target Target)
		stale  bool // the cache does not show the change
	}{
		"without the label": {change: func(w *world, _ Target) {
			w.edit(configMap, "c", "", `{"metadata":{"labels":{"thole.dev/applied-by":null}}}`)
		}},
		"of another controller": {change: func(w *world, _ Target) {
			w.edit(configMap, "c", "", `{"metadata":{"labels":{"thole.dev/applied-by":"demo.other"}}}`)
		}},
		"released":                     {change: func(w *world, _ Target) { w.edit(configMap, "c", "", `{"metadata":{"ownerReferences":null}}`) }},
		"released, with a stale cache": {stale: true, change: func(w *world, _ Target) { w.edit(configMap, "c", "", `{"metadata":{"ownerReferences":null}}`) }},
		"replaced, with a stale cache": {stale: true, change: func(w *world, t Target) {
			w.remove(configMap, "c")
			w.create(configMap, `{"metadata":{"name":"c"}}`)
		}},
		"made by hand with label and owner": {change: func(w *world, t Target) {
			w.remove(configMap, "c")
			w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"c","labels":{"thole.dev/applied-by":"demo.main"},"ownerReferences":[`+owner+`]}}`, t.Object.UID))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			target := pruning(w.owner(list(configMap), nil))
			w.intents(target, naming("c"))
			w.seen(configMap, "c")
			c.change(w, target)
			if !c.stale {
				w.seen(configMap, "c")
			}
			w.intents(target, naming())
			if w.live(configMap, "c") == nil {
				t.Error("it is gone")
			}
		})
	}
}

func TestAdoptedObjectIsNotPruned(t *testing.T) {
	w := newCluster(t)
	target := pruning(w.owner(list(configMap), nil))
	w.create(configMap, `{"metadata":{"name":"theirs"}}`)
	w.seen(configMap, "theirs")
	in := naming("theirs")
	in.Apply[0].Adopt = true
	w.intents(target, in)
	if o := w.seen(configMap, "theirs"); o.Controller() == nil || o.Labels[abi.LabelAppliedBy] != "" {
		t.Fatalf("adopted: %v %v", o.OwnerReferences, o.Labels)
	}
	w.intents(target, in) // nor labelled by a later apply
	w.intents(target, naming())
	if w.live(configMap, "theirs") == nil {
		t.Error("it is gone")
	}
}

func TestReleasedObjectIsNotPrunedOnceItIsAdoptedAgain(t *testing.T) {
	w := newCluster(t)
	target := pruning(w.owner(list(configMap), nil))
	w.intents(target, naming("c"))
	w.seen(configMap, "c")
	w.intents(target, &abi.Result{Release: []abi.Ref{configMap.Kind.Ref("", "c")}, Prune: true})
	if o := w.seen(configMap, "c"); o == nil || o.Controller() != nil || o.Labels[abi.LabelAppliedBy] != "" {
		t.Fatalf("released: %+v", o)
	}
	in := naming("c")
	in.Apply[0].Adopt = true
	w.intents(target, in)
	w.seen(configMap, "c")
	w.intents(target, naming())
	if w.live(configMap, "c") == nil {
		t.Error("it is gone")
	}
}

func TestPruneIsRefused(t *testing.T) {
	w := newCluster(t)
	target := pruning(w.owner(list(configMap), nil))
	w.intents(target, naming("c"))
	w.seen(configMap, "c")
	for name, c := range map[string]struct {
		change  func(*Target)
		class   abi.Class
		message string
	}{
		"before the cache has all": {func(*Target) { w.store.unsynced = map[abi.Kind]bool{configMap.Kind: true} }, abi.ClassRetry, "does not see all objects of the kind yet"},
		"in another namespace":     {func(*Target) { w.Namespaces = []string{"elsewhere"} }, abi.ClassDenied, "is not one of the policy namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			target := target
			c.change(&target)
			defer func() { w.store.unsynced, w.Namespaces = nil, nil }()
			in := naming()
			if name == "without owns" {
				in = naming("new")
			}
			_, failure := w.PerformIntents(t.Context(), target, in)
			if w.live(configMap, "new") != nil {
				t.Error("an object was applied")
			}
			if failure == nil || failure.Class != c.class || !strings.Contains(failure.Message, c.message) {
				t.Errorf("the failure is %+v", failure)
			}
		})
	}
	if w.live(configMap, "c") == nil {
		t.Error("it is gone")
	}
}

func TestNothingIsPrunedAfterAGroupHasFailed(t *testing.T) {
	w := newCluster(t)
	target := pruning(w.owner(list(configMap), nil))
	w.intents(target, naming("old"))
	w.seen(configMap, "old")
	w.create(configMap, `{"metadata":{"name":"theirs"}}`)
	w.seen(configMap, "theirs")
	in := naming("theirs") // without adopt
	in.Apply[0].Group = "a"
	report := w.intents(target, in)
	if len(report.Groups) != 1 || w.live(configMap, "old") == nil {
		t.Errorf("the groups that have failed are %v, and old is %v", report.Groups, w.live(configMap, "old"))
	}
}

func TestNothingIsPrunedWhileOthersHoldAPrimaryThatIsDeleted(t *testing.T) {
	w := newCluster(t)
	target := pruning(w.owner(list(configMap), nil))
	target.Controller.WhileDeleting = true
	w.intents(target, naming("c"))
	w.seen(configMap, "c")
	w.edit(widget, "w", "", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	w.remove(widget, "w")
	target.Object = w.live(widget, "w")
	w.intents(target, naming())
	if w.live(configMap, "c") == nil {
		t.Error("it is gone")
	}
}

func TestDryRunPrunesNothing(t *testing.T) {
	w := newCluster(t)
	target := pruning(w.owner(list(configMap), nil))
	w.intents(target, naming("c"))
	w.seen(configMap, "c")
	w.start(func(c *Config) { c.DryRun = true })
	w.intents(target, naming())
	if w.live(configMap, "c") == nil || !strings.Contains(fmt.Sprint(w.logs.All()), "dry run: would prune") {
		t.Error("a dry run has pruned, or has not told that it would")
	}
}

func TestLastCreatedIsPrunedFirst(t *testing.T) {
	w := newCluster(t)
	target := pruning(w.owner(list(configMap), nil))
	w.intents(target, naming("z", "a"))
	for i, name := range []string{"z", "a"} { // as if some time had passed
		o := *w.seen(configMap, name)
		o.CreationTimestamp.Time = o.CreationTimestamp.Add(time.Duration(i) * time.Minute)
		w.store.put(&o)
	}
	w.wire.take()
	report := w.intents(target, naming())
	if got := []object.Key{report.Writes[0].Key, report.Writes[1].Key}; got[0].Name != "a" || got[1].Name != "z" {
		t.Errorf("pruned %v, expected a before z", got)
	}
}
