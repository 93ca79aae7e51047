package edges

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// read is one read of the model.
type read struct {
	name      string // of one object; "" for a list
	namespace string
	selector  string
	fields    string // a field selector
	owner     string // the UID of the controller
	part      string // "" for whole objects
}

func (d read) do(t fatal, r *Run, k *Kind) {
	part := whole
	if d.part != "" {
		part = set(t, d.part)
	}
	if d.name != "" {
		r.Get(k, object.Key{Namespace: d.namespace, Name: d.name}, part)
		return
	}
	r.List(k, d.namespace, Selection{selector(t, d.selector), fields(t, d.fields), d.owner}, part)
}

func (d read) isAffected(t fatal, c Change) bool {
	before, after := d.concerns(t, c.Old), d.concerns(t, c.Updated)
	if before && after && d.part != "" && set(t, d.part).Same(c.Old.Raw, c.Updated.Raw) {
		return false
	}
	return before || after
}

func (d read) concerns(t fatal, o *object.Object) bool {
	switch {
	case o == nil:
		return false
	case d.name != "":
		return d.namespace == o.Namespace && d.name == o.Name
	}
	return (d.namespace == "" || d.namespace == o.Namespace) && (d.owner == "" || d.owner == o.ControllerUID()) && selector(t, d.selector).Matches(labels.Set(o.Labels)) && fields(t, d.fields).Matches(o.Raw)
}

// modelReader is an owner as the model knows it.
type modelReader struct {
	committed, seen map[read]bool
	abandoned       map[read]bool
}

func (m *modelReader) all() map[read]bool {
	all := map[read]bool{}
	maps.Copy(all, m.committed)
	maps.Copy(all, m.abandoned)
	maps.Copy(all, m.seen)
	return all
}

var selectors = []string{"", "a=x", "a=y,b=x", "b=x,a=y", "a in (x,y)", "!a", "a!=x", "a=x,b!=y", "a=x,!b", "a=x,a=x", "a=x,a=y", "b", "a=x,b=y,c=z"}

// inexact reports whether a reader has a list that counts as a larger one.
func inexact(m *modelReader) bool {
	for d := range m.all() {
		if strings.ContainsAny(d.fields, "!,") || strings.HasSuffix(d.fields, "=") || d.owner != "" && d.fields != "" {
			return true
		}
	}
	return false
}

// checkModel makes random reads and changes, and compares whom they wake with a plain
// model. With budgets that are too small nobody may be missing; with large ones
// nobody else may be woken.
func checkModel(t *rapid.T, pluginBytes int64, exact bool) {
	rec := &recorder{}
	config := rec.config()
	config.PluginBytes = pluginBytes
	x := New(config)
	defer x.Stop()
	kinds := []*Kind{x.Kind(widget), x.Kind(abi.Kind{Kind: "Gadget"})}
	readers := []map[string]*modelReader{{}, {}} // by kind
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	name := func() string { return pick("name", "p", "q", "r", "s") }
	namespace := func() string { return pick("namespace", "m", "n") }
	runs := map[string]*Run{}
	end := func(o string, commit bool) {
		run := runs[o]
		if run == nil {
			return
		}
		delete(runs, o)
		for _, of := range readers {
			m := of[o]
			if commit {
				m.committed, m.abandoned = m.seen, nil
			} else {
				m.abandoned = m.seen
			}
			m.seen = nil
		}
		if commit {
			run.Commit()
		}
		run.Abandon()
	}
	change := func(k int, c Change) {
		kinds[k].Changed(c)
		var want []string
		for o, m := range readers[k] {
			for d := range m.all() {
				if d.isAffected(t, c) {
					want = append(want, o)
					break
				}
			}
		}
		slices.Sort(want)
		got := rec.take()
		if exact && !slices.Equal(got, want) && !slices.ContainsFunc(got, func(o string) bool { return inexact(readers[k][o]) }) {
			t.Fatalf("woken: %v, want %v", got, want)
		}
		for _, o := range want {
			if !slices.Contains(got, o) {
				t.Fatalf("%s was not woken, but %v", o, got)
			}
		}
	}
	labelled := func() *object.Object {
		o := obj(namespace(), name(), pick("labels", "", "a=x", "a=y", "a=x,b=y", "a=y,b=x", "b=x", "a=x,b=y,c=z"))
		if uid := pick("owner", "", "u1", "u2"); uid != "" {
			o.OwnerReferences = []metav1.OwnerReference{{UID: "other"}, {UID: types.UID(uid), Controller: new(rapid.Bool().Draw(t, "controller"))}}
		}
		return o
	}
	t.Repeat(map[string]func(*rapid.T){
		"read": func(*rapid.T) {
			o, k := name(), rapid.IntRange(0, 1).Draw(t, "kind")
			if runs[o] == nil {
				runs[o] = x.Begin(owner(o))
			}
			for i := range readers {
				if readers[i][o] == nil {
					readers[i][o] = &modelReader{}
				}
			}
			d := read{namespace: pick("namespace", "m", "n", ""), selector: pick("selector", selectors...), fields: pick("fields", "", "", "spec.a=x", "spec.b=y", "spec.a!=x", "spec.a=", "spec.a=x,spec.b=y"), owner: pick("of", "", "", "u1", "u2")}
			if rapid.Bool().Draw(t, "one") {
				d = read{namespace: namespace(), name: name()}
			}
			d.part = pick("part", "", "/spec/a", "/spec/b")
			m := readers[k][o]
			if m.seen == nil {
				m.seen = map[read]bool{}
			}
			m.seen[d] = true
			d.do(t, runs[o], kinds[k])
		},
		"commit":  func(*rapid.T) { end(name(), true) },
		"abandon": func(*rapid.T) { end(name(), false) },
		"forget": func(*rapid.T) {
			o := name()
			end(o, true)
			x.Forget(owner(o))
			for _, of := range readers {
				delete(of, o)
			}
		},
		"create": func(*rapid.T) { change(rapid.IntRange(0, 1).Draw(t, "kind"), Change{Updated: labelled()}) },
		"change": func(*rapid.T) {
			old, updated := labelled(), labelled()
			updated.Namespace, updated.Name = old.Namespace, old.Name
			change(rapid.IntRange(0, 1).Draw(t, "kind"), Change{Old: old, Updated: updated})
		},
		"delete": func(*rapid.T) { change(rapid.IntRange(0, 1).Draw(t, "kind"), Change{Old: labelled()}) },
		"": func(*rapid.T) {
			// Each owner has a reader, one edge to each kind, and what is within the budget.
			if most := pluginBytes + 4*(readerBytes+2*edgeBytes); x.Bytes() > most {
				t.Fatalf("%d bytes are counted, the limit is %d", x.Bytes(), most)
			}
		},
	})
	for o := range runs {
		end(o, false)
	}
	x.ForgetController("plugin/widgets")
	expectEmpty(t, x, kinds...)
}

func expectEmpty(t interface{ Errorf(string, ...any) }, x *Index, kinds ...*Kind) {
	for _, k := range kinds {
		shapes := slices.DeleteFunc(slices.Clone(k.shapes), func(s *shape) bool { return s == nil })
		parts := slices.DeleteFunc(slices.Clone(k.parts), func(p *part) bool { return p == nil })
		if n := len(k.pending) + k.readers.edges() + len(shapes) + len(parts) + len(k.rests) + len(k.byParent) + len(k.made) + len(k.unsynced); n != 0 {
			t.Errorf("%s: %d things are left: %+v", k.kind, n, k)
		}
	}
	if x.Bytes() != 0 || len(x.controllers)+len(x.plugins) != 0 {
		t.Errorf("%d bytes of %d controllers of %d plugins are left", x.Bytes(), len(x.controllers), len(x.plugins))
	}
}

func TestChangesWakeExactlyTheReaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkModel(t, 1<<20, true) })
}

func TestNobodyIsMissedWhenEdgesAreBounded(t *testing.T) {
	for _, bytes := range []int64{1, 1000, 2500} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkModel(t, bytes, false) })
		})
	}
}
