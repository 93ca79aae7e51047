package edges

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

type fatal interface{ Fatal(args ...any) }

var widget = abi.Kind{APIVersion: "example.dev/v1", Kind: "Widget"}

// recorder records the owners that are woken.
type recorder struct {
	woken   []string // of changes
	bulk    int
	limited []string
}

func (r *recorder) config() Config {
	return Config{
		Wake: func(o Owner, _ Change, bulk bool) {
			if r.woken = append(r.woken, o.Key.Name); bulk {
				r.bulk++
			}
		},
		Limited: func(o Owner, kind abi.Kind) { r.limited = append(r.limited, o.Key.Name+" "+kind.Kind) },
	}
}

func (r *recorder) take() []string {
	woken := r.woken
	r.woken = nil
	slices.Sort(woken)
	return woken
}

func owner(name string) Owner {
	return Owner{Controller: "plugin/widgets", Key: object.Key{Name: name}}
}

func selector(t fatal, text string) labels.Selector {
	sel, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return sel
}

var whole fieldpath.Set

func set(t fatal, fields ...string) fieldpath.Set {
	s, err := fieldpath.Parse(fields)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fields(t fatal, text string) fieldpath.Selector {
	sel, err := fieldpath.ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return sel
}

// obj returns an object with labels of the form "a=x,b=y", which are members of its
// spec, too.
func obj(namespace, name, of string) *object.Object {
	o := &object.Object{}
	var spec []string
	for label := range strings.SplitSeq(of, ",") {
		if key, value, ok := strings.Cut(label, "="); ok {
			spec = append(spec, fmt.Sprintf("%q:%q", key, value))
		}
	}
	o.Raw = fmt.Appendf(nil, `{"metadata":{"namespace":%q,"name":%q},"spec":{%s}}`, namespace, name, strings.Join(spec, ","))
	o.Namespace, o.Name, o.Labels = namespace, name, map[string]string{}
	for label := range strings.SplitSeq(of, ",") {
		if key, value, ok := strings.Cut(label, "="); ok {
			o.Labels[key] = value
		}
	}
	return o
}

// TestAReaderOfTooMuchDependsOnANamespace reads more objects than a key may have
// edges, of one namespace and then of another.
func TestAReaderOfTooMuchDependsOnANamespace(t *testing.T) {
	rec := &recorder{}
	x := New(rec.config())
	k := x.Kind(widget)
	run := x.Begin(owner("me"))
	for i := range maxEdges + 500 {
		run.Get(k, object.Key{Namespace: "a", Name: fmt.Sprint(i)}, whole)
	}
	k.Changed(Change{Updated: obj("b", "x", "")})
	k.Changed(Change{Updated: obj("a", "x", "")})
	if got := rec.take(); !slices.Equal(got, []string{"me"}) {
		t.Errorf("woken: %v", got)
	}
	if !slices.Equal(rec.limited, []string{"me Widget"}) {
		t.Errorf("limited: %v", rec.limited)
	}
	for i := range maxEdges + 500 {
		run.Get(k, object.Key{Namespace: "b", Name: fmt.Sprint(i)}, whole)
	}
	run.Commit()
	k.Changed(Change{Updated: obj("c", "x", "")})
	if got := rec.take(); !slices.Equal(got, []string{"me"}) {
		t.Errorf("woken: %v", got)
	}
	if x.Bytes() > 2*(readerBytes+edgeBytes) {
		t.Errorf("%d bytes are counted", x.Bytes())
	}
	run = x.Begin(owner("me"))
	run.Get(k, object.Key{Namespace: "a", Name: "1"}, whole)
	run.Commit()
	k.Changed(Change{Updated: obj("a", "2", "")})
	if got := rec.take(); len(got) != 0 {
		t.Errorf("woken after a run that read little: %v", got)
	}
}

// TestRunsThatFailKeepWhatTheLastOneRead abandons many runs, each with other reads.
func TestRunsThatFailKeepWhatTheLastOneRead(t *testing.T) {
	rec := &recorder{}
	x := New(rec.config())
	k := x.Kind(widget)
	read := func(name string) *Run {
		run := x.Begin(owner("me"))
		run.Get(k, object.Key{Name: name}, whole)
		return run
	}
	read("committed").Commit()
	for i := range 1000 {
		read(fmt.Sprint(i)).Abandon()
	}
	if k.readers.edges() != 2 {
		t.Errorf("%d edges are kept", k.readers.edges())
	}
	for _, name := range []string{"committed", "999"} {
		k.Changed(Change{Updated: obj("", name, "")})
		if got := rec.take(); len(got) != 1 {
			t.Errorf("%s: woken: %v", name, got)
		}
	}
}

// TestSelectorsOfOnePluginAreBounded has a plugin that lists with more selectors than
// are evaluated at each event, and another one, which is not limited by it.
func TestSelectorsOfOnePluginAreBounded(t *testing.T) {
	rec := &recorder{}
	x := New(rec.config())
	k := x.Kind(widget)
	run := x.Begin(owner("many"))
	for i := range 10_000 {
		run.List(k, "a", Selection{Labels: selector(t, fmt.Sprintf("app!=%d", i))}, whole)
		run.List(k, "a", Selection{Labels: selector(t, fmt.Sprintf("l%d=x", i))}, whole)
	}
	run.Commit()
	other := x.Begin(Owner{Controller: "other/c", Key: object.Key{Name: "other"}})
	other.List(k, "a", Selection{Labels: selector(t, "tier=web,!app")}, whole)
	other.Commit()
	if len(k.rests) > 2*maxRests || len(k.shapes) > 2*maxShapes+1 {
		t.Errorf("%d selectors, %d shapes", len(k.rests), len(k.shapes))
	}
	k.Changed(Change{Updated: obj("a", "x", "l9999=x")})
	if got := rec.take(); !slices.Equal(got, []string{"many"}) {
		t.Errorf("woken: %v", got)
	}
	k.Changed(Change{Updated: obj("a", "x", "tier=web")})
	if got := rec.take(); !slices.Equal(got, []string{"many", "other"}) {
		t.Errorf("woken: %v", got)
	}
}

// TestAnObjectThatEntersAListOfFieldsWakes has lists whose edges lead to larger ones, in
// which the object is before and after the change. What is read of it stays the same.
func TestAnObjectThatEntersAListOfFieldsWakes(t *testing.T) {
	var values []string
	for i := range maxSelectorBytes / 4 {
		values = append(values, fmt.Sprint(1000+i))
	}
	for name, sel := range map[string]Selection{
		"not a value":         {Fields: fields(t, "spec.a!=x")},
		"no value":            {Fields: fields(t, "spec.a=")},
		"a second field":      {Fields: fields(t, "metadata.name=o,spec.a=1001")},
		"a large selector":    {Labels: selector(t, "a in ("+strings.Join(values, ",")+")")},
		"no shape is left":    {Labels: selector(t, "a=1001")},
		"no selector is left": {Labels: selector(t, "a!=x")},
	} {
		t.Run(name, func(t *testing.T) {
			rec := &recorder{}
			x := New(rec.config())
			k := x.Kind(widget)
			if strings.HasSuffix(name, "left") {
				run := x.Begin(owner("many"))
				for i := range max(maxShapes, maxRests) {
					run.List(k, "elsewhere", Selection{Labels: selector(t, fmt.Sprintf("l%d=x", i))}, whole)
					run.List(k, "elsewhere", Selection{Labels: selector(t, fmt.Sprintf("l%d!=x", i))}, whole)
				}
				run.Commit()
			}
			run := x.Begin(owner("me"))
			run.List(k, "n", sel, set(t, "/spec/other"))
			run.Commit()
			outside, within := "a=x", "a=1001"
			if name == "no value" {
				within = ""
			}
			k.Changed(Change{Old: obj("n", "o", outside), Updated: obj("n", "o", within)})
			if got := rec.take(); !slices.Equal(got, []string{"me"}) {
				t.Errorf("woken: %v", got)
			}
		})
	}
}

func TestALargeSelectorCountsAsALargerList(t *testing.T) {
	var values []string
	for i := range maxSelectorBytes / 4 {
		values = append(values, fmt.Sprint(1000+i))
	}
	for _, text := range []string{
		"app=x,tier in (" + strings.Join(values, ",") + ")",
		"app=x,!a,!b,!c,!d,!e,!f,!g,!h,!i",
	} {
		rec := &recorder{}
		x := New(rec.config())
		k := x.Kind(widget)
		run := x.Begin(owner("me"))
		run.List(k, "a", Selection{Labels: selector(t, text)}, whole)
		run.Commit()
		k.Changed(Change{Updated: obj("a", "x", "app=y")})
		if got := rec.take(); len(got) != 0 || len(k.rests) != 0 {
			t.Errorf("woken: %v, %d selectors", got, len(k.rests))
		}
		k.Changed(Change{Updated: obj("a", "x", "app=x")})
		if got := rec.take(); len(got) != 1 {
			t.Errorf("woken: %v", got)
		}
	}
}

func TestAnObjectWithManyLabelsIsLookedUpByWhatIsRead(t *testing.T) {
	rec := &recorder{}
	x := New(rec.config())
	k := x.Kind(widget)
	run := x.Begin(owner("me"))
	run.List(k, "a", Selection{Labels: selector(t, "l77=x")}, whole)
	run.Commit()
	o := obj("a", "x", "")
	for i := range 100_000 {
		o.Labels[fmt.Sprint("l", i)] = "x"
	}
	if ids := k.ids(newDifference(Change{Updated: o}, k.shapes, k.parts), 1); len(ids) != 5 {
		t.Errorf("%d lookups", len(ids))
	}
	k.Changed(Change{Updated: o})
	if got := rec.take(); len(got) != 1 {
		t.Errorf("woken: %v", got)
	}
}

func TestVeryManyReadersAreWokenInBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		x := New(rec.config())
		k := x.Kind(widget)
		const many = 3 * slice
		for i := range many {
			run := x.Begin(owner(fmt.Sprint(i)))
			run.Get(k, object.Key{Name: "shared"}, whole)
			run.Commit()
		}
		for range 3 {
			k.Changed(Change{Updated: obj("", "shared", "")})
		}
		synctest.Wait()
		got := slices.Compact(rec.take())
		if len(got) != many || rec.bulk%many != 0 || rec.bulk > 3*many {
			t.Errorf("%d owners were woken, %d times in bulk", len(got), rec.bulk)
		}
		x.ForgetController("plugin/widgets")
		k.Changed(Change{Updated: obj("", "shared", "")})
		synctest.Wait()
		if got := rec.take(); len(got) != 0 {
			t.Errorf("woken: %d", len(got))
		}
		x.Stop()
		expectEmpty(t, x, k)
	})
}

// TestEachOfVeryManyReadersIsWokenAfterTheChange has readers that come while the others
// is woken for an earlier change.
func TestEachOfVeryManyReadersIsWokenAfterTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k *Kind
		var x *Index
		last := map[string]*object.Object{}
		changed := false
		second := obj("", "shared", "a=x")
		x = New(Config{Wake: func(o Owner, c Change, _ bool) {
			last[o.Key.Name] = c.Updated
			if !changed {
				changed = true
				run := x.Begin(owner("late"))
				run.Get(k, object.Key{Name: "shared"}, whole)
				run.Commit()
				k.Changed(Change{Updated: second})
			}
		}})
		k = x.Kind(widget)
		for i := range manyReaders + 1 {
			run := x.Begin(owner(fmt.Sprint(i)))
			run.Get(k, object.Key{Name: "shared"}, whole)
			run.Commit()
		}
		k.Changed(Change{Updated: obj("", "shared", "")})
		synctest.Wait()
		for i := range manyReaders + 1 {
			if last[fmt.Sprint(i)] != second {
				t.Fatalf("%d was not woken for the second change", i)
			}
		}
		if last["late"] != second {
			t.Error("the late reader was not woken")
		}
		x.Stop()
	})
}

// TestNoneOfVeryManyReadersIsLeftOut has readers that go and come while the others are woken.
func TestNoneOfVeryManyReadersIsLeftOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := New(Config{})
		k := x.Kind(widget)
		read := func(i int) {
			run := x.Begin(owner(fmt.Sprint(i)))
			run.Get(k, object.Key{Name: "shared"}, whole)
			run.Commit()
		}
		n := rapid.IntRange(2, 3*slice).Draw(t, "readers")
		there := map[string]bool{} // at the change, and since
		for i := range n {
			read(i)
			there[fmt.Sprint(i)] = true
		}
		w := &bulkWake{kind: k, id: k.hash('o', "", "shared"), left: -1}
		woken := map[string]bool{}
		for more := true; more; {
			var some []*reader
			some, _, more = w.take()
			for _, r := range some {
				woken[r.key.Name] = true
			}
			for range rapid.IntRange(0, 10).Draw(t, "gone") {
				i := rapid.IntRange(0, n-1).Draw(t, "which")
				x.Forget(owner(fmt.Sprint(i)))
				delete(there, fmt.Sprint(i))
			}
			for range rapid.IntRange(0, 10).Draw(t, "new") {
				read(n + rapid.IntRange(0, 20).Draw(t, "which"))
			}
		}
		for name := range there {
			if !woken[name] {
				t.Fatalf("%s of %d readers was not woken", name, n)
			}
		}
	})
}

func TestTheSyncWakesWhoStillWaits(t *testing.T) {
	rec := &recorder{}
	x := New(rec.config())
	k := x.Kind(widget)
	synced := false
	wait := func(name string) *Run {
		run := x.Begin(owner(name))
		run.List(k, "", Selection{}, whole)
		if run.WaitForSync(k, func() bool { return synced }) {
			t.Fatal("it has synced")
		}
		return run
	}
	wait("waits").Commit()
	wait("failed").Abandon()
	wait("other").Commit()
	x.Begin(owner("other")).Commit()
	wait("gone").Commit()
	x.Forget(owner("gone"))
	synced = true
	k.Synced()
	if got := rec.take(); !slices.Equal(got, []string{"failed", "waits"}) {
		t.Errorf("woken: %v", got)
	}
	run := x.Begin(owner("late"))
	if !run.WaitForSync(k, func() bool { return synced }) || len(k.unsynced) != 0 {
		t.Error("a reader waits for a kind that has synced")
	}
	run.Commit()
}

// A run may begin while its controller is forgotten.
func TestALateRunOfAForgottenControllerLeavesNothing(t *testing.T) {
	rec := &recorder{}
	x := New(rec.config())
	k := x.Kind(widget)
	x.Forget(owner("me"))
	c := x.controller("plugin/widgets")
	x.ForgetController("plugin/widgets")
	x.controllers[c.name] = c // as Begin has found it before
	run := x.Begin(owner("me"))
	delete(x.controllers, c.name)
	run.Get(k, object.Key{Name: "x"}, whole)
	run.Abandon()
	expectEmpty(t, x, k)
}

// TestAKeyKeepsNothingOfWhatItOnceRead reads very much, and then little.
func TestAKeyKeepsNothingOfWhatItOnceRead(t *testing.T) {
	x := New(Config{})
	k := x.Kind(widget)
	for _, n := range []int{8000, 1} {
		for _, o := range []string{"a", "b", "c"} {
			run := x.Begin(owner(o))
			for i := range n {
				run.Get(k, object.Key{Name: fmt.Sprint(i)}, whole)
			}
			run.Commit()
		}
	}
	for _, r := range x.controllers["plugin/widgets"].readers {
		if n := cap(r.edges); n > 4 {
			t.Errorf("%s has room for %d edges", r.key.Name, n)
		}
	}
}

func TestAShortListKeepsNothingOfALongOne(t *testing.T) {
	x := New(Config{})
	k := x.Kind(widget)
	for i := range 1000 {
		run := x.Begin(owner(fmt.Sprint(i)))
		run.Get(k, object.Key{Name: "shared"}, whole)
		run.Commit()
	}
	for i := range 998 {
		x.Forget(owner(fmt.Sprint(i)))
	}
	many := k.readers.many[k.hash('o', "", "shared")]
	if cap(many.list) > 16 || many.at != nil {
		t.Errorf("two readers have room for %d", cap(many.list))
	}
}

// TestAReaderThatReadsTooMuchIsWokenWithTheOthers exceeds the budget after an event, and
// before the readers are woken for it.
func TestAReaderThatReadsTooMuchIsWokenWithTheOthers(t *testing.T) {
	rec := &recorder{}
	x := New(rec.config())
	defer x.Stop()
	k := x.Kind(widget)
	read := func(name string) *Run {
		run := x.Begin(owner(name))
		run.Get(k, object.Key{Name: "shared"}, whole)
		return run
	}
	for i := range manyReaders + 1 {
		read(fmt.Sprint(i)).Commit()
	}
	me := read("me")
	x.bulkWakes.working = true // by a goroutine that has not come to it
	k.Changed(Change{Updated: obj("", "shared", "")})
	for i := range maxEdges {
		me.Get(k, object.Key{Name: fmt.Sprint(i)}, whole)
	}
	me.Commit()
	if got := rec.take(); !slices.Equal(got, []string{"me"}) {
		t.Errorf("woken: %v", got)
	}
	x.bulkWakes.work()
	if got := rec.take(); len(got) < manyReaders+1 || len(k.pending) != 0 {
		t.Errorf("woken: %d", len(got))
	}
}

// TestAnObjectWithTooManyValuesCountsAsHavingEach has lists by a field.
func TestAnObjectWithTooManyValuesCountsAsHavingEach(t *testing.T) {
	values := make([]string, maxValues+1)
	for i := range values {
		values[i] = fmt.Sprint(i)
	}
	withSpec := func(spec string) *object.Object {
		return &object.Object{Raw: fmt.Appendf(nil, `{"spec":%s}`, spec)}
	}
	for _, o := range []*object.Object{
		withSpec(`{"a":[` + strings.Join(values, ",") + `]}`),
		withSpec(`{"a":["x"],"b":"` + strings.Repeat("x", maxObjectBytes) + `"}`),
	} {
		rec := &recorder{}
		x := New(rec.config())
		k := x.Kind(widget)
		for _, value := range []string{"none", "other"} {
			run := x.Begin(owner(value))
			run.List(k, "", Selection{Fields: fields(t, "spec.a[*]="+value)}, set(t, "/spec"))
			run.Commit()
		}
		for _, c := range []Change{{Updated: o}, {Old: o, Updated: withSpec("{}")}, {Old: withSpec("{}"), Updated: o}} {
			k.Changed(c)
			if got := rec.take(); !slices.Equal(got, []string{"none", "other"}) {
				t.Errorf("woken: %v", got)
			}
		}
		x.ForgetController("plugin/widgets")
		expectEmpty(t, x, k)
	}
}

func TestARunOfAForgottenKeyLeavesNothing(t *testing.T) {
	rec := &recorder{}
	x := New(rec.config())
	k := x.Kind(widget)
	run := x.Begin(owner("me"))
	run.Get(k, object.Key{Name: "x"}, whole)
	x.Forget(owner("me"))
	run.Get(k, object.Key{Name: "y"}, whole)
	run.WaitForSync(k, func() bool { return false })
	run.Commit()
	run.Abandon()
	x.ForgetController("plugin/widgets")
	expectEmpty(t, x, k)
}
