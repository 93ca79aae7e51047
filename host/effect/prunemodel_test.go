package effect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
)

// pruneModel knows who has created each ConfigMap: it looks at what is there before and after each run.
type pruneModel struct {
	*world
	t           *rapid.T
	controllers []*abi.Controller
	primaries   []string             // names
	creators    map[types.UID]string // of objects by their uid; "" for others
	disguised   map[types.UID]bool   // somebody has changed whose an object seems to be
}

var modelNames = []string{"a", "b", "c", "d"}

// Whatever objects there are, whoever owns and labels them, whatever the cache shows, whichever reply is lost
// and wherever the host ends: a controller deletes nothing but what it has created for the primary itself and
// does not name. And if nothing is in its way, all of that.
func TestPruningDeletesWhatWasCreatedForThePrimaryAndNothingElse(t *testing.T) {
	w := newCluster(t)
	main, other := controller(list(configMap), nil), controller(list(configMap), nil)
	main.Prune, other.Prune, other.Name = true, true, "other"
	for _, name := range []string{"p", "q"} {
		w.create(widget, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"size":1}}`, name))
	}
	rapid.Check(t, func(rt *rapid.T) {
		w.start()
		m := pruneModel{
			world: w, t: rt, controllers: []*abi.Controller{main, other}, primaries: []string{"p", "q"},
			creators: map[types.UID]string{}, disguised: map[types.UID]bool{},
		}
		for _, name := range modelNames {
			err := w.admin.rest.Delete().AbsPath(configMap.Path(w.key(configMap, name))...).Do(w.Context()).Error()
			if err != nil && !apierrors.IsNotFound(err) {
				rt.Fatal(err)
			}
		}
		m.see(modelNames...)
		for range rapid.IntRange(2, 10).Draw(rt, "steps") {
			m.step()
		}
	})
}

func (m *pruneModel) step() {
	name := rapid.SampledFrom(modelNames).Draw(m.t, "name")
	switch rapid.SampledFrom([]string{"run", "run", "run", "foreign", "disguise", "restart", "see", "recreate"}).Draw(m.t, "step") {
	case "run":
		m.run()
	case "foreign":
		if m.live(configMap, name) == nil {
			m.creators[m.create(configMap, `{"metadata":`+m.disguise(name)+`}`).UID] = ""
		}
	case "disguise":
		if o := m.live(configMap, name); o != nil {
			body := []byte(`{"metadata":` + m.disguise(name) + `}`)
			_, err := m.admin.patch(m.Context(), configMap, o.Key(), patch{patchType: types.MergePatchType, manager: "another", body: body})
			if err != nil && !apierrors.IsNotFound(err) { // else the garbage collector was faster
				m.t.Fatal(err)
			}
			m.disguised[o.UID] = true
		}
	case "restart":
		m.start()
	case "see":
		m.see(name)
	case "recreate":
		p := rapid.SampledFrom(m.primaries).Draw(m.t, "primary")
		m.remove(widget, p)
		m.until("the primary is gone", func() bool { return m.live(widget, p) == nil })
		m.create(widget, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"size":1}}`, p))
	}
}

// disguise returns metadata with the label and the owner of whoever it may be.
func (m *pruneModel) disguise(name string) string {
	metadata := map[string]any{"name": name}
	label := rapid.SampledFrom([]any{nil, "demo.main", "demo.other", "x"}).Draw(m.t, "label")
	metadata["labels"] = map[string]any{abi.LabelAppliedBy: label}
	owner := m.live(widget, rapid.SampledFrom(m.primaries).Draw(m.t, "owner"))
	reference := map[string]any{
		"apiVersion": "test.thole.dev/v1", "kind": "Widget", "name": owner.Name, "uid": owner.UID,
		"controller": rapid.Bool().Draw(m.t, "controller"),
	}
	metadata["ownerReferences"] = rapid.SampledFrom([]any{nil, []any{reference}}).Draw(m.t, "owners")
	text, _ := json.Marshal(metadata)
	return string(text)
}

// see makes the cache show objects as they are.
func (m *pruneModel) see(names ...string) {
	for _, name := range names {
		m.seen(configMap, name)
	}
}

// run performs a result of one controller for one primary.
func (m *pruneModel) run() {
	c := m.controllers[rapid.IntRange(0, len(m.controllers)-1).Draw(m.t, "controller")]
	target := Target{Controller: c, Object: m.live(widget, rapid.SampledFrom(m.primaries).Draw(m.t, "primary"))}
	names := slices.DeleteFunc(slices.Clone(modelNames), func(name string) bool { return rapid.Bool().Draw(m.t, name+" left out") })
	in := naming(names...)
	for i := range in.Apply {
		in.Apply[i].Adopt = rapid.Bool().Draw(m.t, "adopt")
	}
	m.wire.take()
	ctx, end := context.WithCancel(m.Context())
	defer end()
	fault := rapid.SampledFrom([]string{"", "", "crash", "lost"}).Draw(m.t, "fault")
	at := rapid.IntRange(0, 6).Draw(m.t, "at")
	m.wire.loses = func(request) bool {
		at--
		if at == -1 && fault == "crash" {
			end() // after the request was performed
		}
		return at == -1 && fault == "lost"
	}
	me := c.Name + " " + string(target.Object.UID)
	failure := m.perform(ctx, target, in, me)
	m.wire.loses = nil
	if fault == "crash" {
		m.start()
	}
	for _, r := range m.wire.take() {
		if r.method == "DELETE" {
			m.expectOwn(r, me, names)
		}
	}
	if failure == nil && rapid.Bool().Draw(m.t, "complete") {
		m.see(modelNames...)
		// What the cache still showed the first time is created now.
		if failure := m.perform(m.Context(), target, in, me); failure == nil {
			m.expectNoneLeft(me, names)
		}
	}
}

// perform performs a result, and notes whose the objects are that it creates: nobody else
// creates one at this time.
func (m *pruneModel) perform(ctx context.Context, target Target, in *abi.Result, me string) *Failure {
	before := m.uids()
	_, failure := m.PerformIntents(ctx, target, in)
	for uid := range m.uids() {
		if _, old := before[uid]; !old {
			m.creators[uid] = me
		}
	}
	return failure
}

// uids returns the names of the ConfigMaps that exist, by their uids.
func (m *pruneModel) uids() map[types.UID]string {
	all := map[types.UID]string{}
	for _, name := range modelNames {
		if o := m.live(configMap, name); o != nil {
			all[o.UID] = name
		}
	}
	return all
}

// expectOwn checks a request that deletes.
func (m *pruneModel) expectOwn(r request, me string, names []string) {
	var options struct{ Preconditions struct{ UID types.UID } }
	if err := json.Unmarshal([]byte(r.body), &options); err != nil {
		m.t.Fatal(err)
	}
	name := r.path[strings.LastIndexByte(r.path, '/')+1:]
	if uid := options.Preconditions.UID; m.creators[uid] != me || slices.Contains(names, name) {
		m.t.Fatalf("%q has deleted %s, created by %q, and names %q", me, name, m.creators[uid], names)
	}
}

// expectNoneLeft checks that nothing is left that was created for a primary and is not named.
func (m *pruneModel) expectNoneLeft(me string, names []string) {
	left := m.uids()
	maps.DeleteFunc(left, func(uid types.UID, name string) bool {
		return m.creators[uid] != me || m.disguised[uid] || slices.Contains(names, name)
	})
	if len(left) > 0 {
		m.t.Fatalf("%q names %q, and %v are left", me, names, left)
	}
}
