package effect

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// adopting returns a result that only adopts ConfigMaps, and releasing one that releases them.
func adopting(names ...string) *abi.Result {
	out := &abi.Result{}
	for _, name := range names {
		out.Apply = append(out.Apply, abi.Apply{Adopt: true, Object: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name)})
	}
	return out
}

func adoptingUID(name, uid string) *abi.Result {
	return adopt(apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"uid":%q}}`, name, uid))
}

func releasing(names ...string) *abi.Result {
	out := &abi.Result{}
	for _, name := range names {
		out.Release = append(out.Release, configMap.Kind.Ref("", name))
	}
	return out
}

// fails performs intents, which must fail for that reason.
func (w *world) fails(t Target, in *abi.Result, reason string) *Failure {
	w.Helper()
	_, failure := w.PerformIntents(w.Context(), t, in)
	if failure == nil || failure.Reason != reason {
		w.Fatalf("got %+v, want %s", failure, reason)
	}
	return failure
}

// ownersOf returns the entries of managedFields of the plugin's manager that have a field.
func (w *world) ownersOf(name, field string) (all []string) {
	w.Helper()
	meta, err := w.admin.metadata(w.Context(), configMap, w.key(configMap, name))
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range meta.ManagedFields {
		if e.Manager == "thole/demo/main" && strings.Contains(string(e.FieldsV1.GetRawBytes()), `"f:`+field+`"`) {
			all = append(all, string(e.Operation))
		}
	}
	return all
}

func (w *world) expectChild(t Target, name, data string) {
	w.Helper()
	o := w.live(configMap, name)
	if c := o.Controller(); c == nil || c.UID != t.Object.UID || field(o, "data") != data {
		w.Errorf("got %s", o.Raw)
	}
}

func TestAdoptionsReadThePrimaryOnce(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	for _, name := range []string{"a", "b", "c"} {
		w.create(configMap, fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
		w.seen(configMap, name)
	}
	w.wire.take()
	report := w.intents(target, adopting("a", "b", "c"))
	if got := w.wire.methods(); got != "GET PATCH PATCH PATCH" || len(report.Writes) != 3 {
		t.Errorf("sent %s, wrote %d", got, len(report.Writes))
	}
	for _, name := range []string{"a", "b", "c"} {
		w.seen(configMap, name)
	}
	w.intents(target, adopting("a", "b", "c"))
	w.expectSent()
	w.intents(target, releasing("a", "b"))
	if got := w.wire.methods(); got != "PATCH PATCH" {
		t.Errorf("a release sent %s", got)
	}
	if got := fmt.Sprint(w.logs.All()); strings.Count(got, "adopted") != 3 || strings.Count(got, "released") != 2 {
		t.Errorf("logged %s", got)
	}
}

// An object goes from the primary to nobody and back. What was applied stays throughout, and
// an apply is as complete afterwards as before.
func TestAReleasedObjectKeepsWhatWasAppliedAndIsAppliedAgainAfterItsAdoption(t *testing.T) {
	for _, stale := range []bool{false, true} {
		t.Run(fmt.Sprintf("stale %v", stale), func(t *testing.T) {
			w := newCluster(t)
			see := func() {
				if !stale {
					w.seen(configMap, "c")
				}
			}
			target := w.owner(list(configMap), nil)
			w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"v","gone":"1"}}`))
			w.seen(configMap, "c")
			w.intents(target, releasing("c"))
			see()
			if got := w.live(configMap, "c"); len(got.OwnerReferences) != 0 || got.Annotations[AppliedAnnotation] != "" || field(got, "data") != `{"gone":"1","k":"v"}` {
				t.Fatalf("got %s", got.Raw)
			}
			if got := w.ownersOf("c", "ownerReferences"); got != nil {
				t.Errorf("the reference is a field of %s", got)
			}
			if !stale {
				w.fails(target, apply(configObject, "v"), reasonNotAdopted)
			}
			w.seen(configMap, "c")
			w.intents(target, adopting("c"))
			see()
			w.expectChild(target, "c", `{"gone":"1","k":"v"}`)
			w.seen(configMap, "c")
			w.intents(target, apply(configObject, "v"))
			w.expectChild(target, "c", `{"k":"v"}`)
			if got := fmt.Sprint(w.ownersOf("c", "ownerReferences")); got != "[Apply Update]" {
				t.Errorf("the reference is a field of %s", got)
			}
			w.seen(configMap, "c")
			w.wire.take()
			w.intents(target, apply(configObject, "v"))
			w.expectSent()
			w.intents(target, releasing("c"))
			if got := w.ownersOf("c", "ownerReferences"); got != nil || len(w.live(configMap, "c").OwnerReferences) != 0 {
				t.Errorf("then the reference is a field of %s", got)
			}
		})
	}
}

// The reply was lost, and the cache is behind: nothing is changed again.
func TestAnAdoptionAndAReleaseWithoutAReplyAreNotRepeated(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.create(configMap, `{"metadata":{"name":"c"},"data":{"k":"v"}}`)
	for _, in := range []*abi.Result{adopting("c"), releasing("c")} {
		w.seen(configMap, "c")
		w.intents(target, in)
		before := w.live(configMap, "c")
		w.start()
		if report := w.intents(target, in); len(report.Writes) != 0 || w.live(configMap, "c").ResourceVersion != before.ResourceVersion {
			t.Errorf("wrote %+v", report.Writes)
		}
	}
}

func TestAnObjectThatChangesDuringItsAdoptionIsJudgedAgain(t *testing.T) {
	theirs := func(w *world, other *object.Object) string {
		return `{"metadata":{"ownerReferences":[` + reference(other, controls) + `]}}`
	}
	for name, c := range map[string]struct {
		in      *abi.Result
		change  func(w *world, other *object.Object)
		reason  string
		ordinal bool // not a conflict
	}{
		"its data":                    {adopting("c"), func(w *world, _ *object.Object) { w.edit(configMap, "c", "", `{"data":{"x":"y"}}`) }, "", false},
		"its data, with fields":       {adopt(apply(configObject, "v")), func(w *world, _ *object.Object) { w.edit(configMap, "c", "", `{"data":{"x":"y"}}`) }, "", false},
		"its controller":              {adopting("c"), func(w *world, other *object.Object) { w.edit(configMap, "c", "", theirs(w, other)) }, reasonControlled, true},
		"its controller, with fields": {adopt(apply(configObject, "v")), func(w *world, other *object.Object) { w.edit(configMap, "c", "", theirs(w, other)) }, reasonControlled, true},
		"it is gone":                  {adopting("c"), func(w *world, _ *object.Object) { w.remove(configMap, "c") }, "NotFound", true},
		"it is gone, with fields":     {adopt(apply(configObject, "v")), func(w *world, _ *object.Object) { w.remove(configMap, "c") }, reasonSuperseded, false},
		"it is another one": {adopting("c"), func(w *world, _ *object.Object) {
			w.remove(configMap, "c")
			w.create(configMap, `{"metadata":{"name":"c"}}`)
		}, "NotFound", true},
		"it is another one, with fields": {adopt(apply(configObject, "v")), func(w *world, _ *object.Object) {
			w.remove(configMap, "c")
			w.create(configMap, `{"metadata":{"name":"c"}}`)
		}, reasonSuperseded, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			target, other := w.owner(list(configMap), nil), w.create(widget, `{"metadata":{"name":"other"}}`)
			w.create(configMap, `{"metadata":{"name":"c"}}`)
			w.seen(configMap, "c")
			var before func(request)
			before = func(r request) {
				if r.method != http.MethodPatch {
					w.wire.before = before
					return
				}
				c.change(w, other)
			}
			w.wire.before = before
			if c.reason == "" {
				w.intents(target, c.in)
				if got := w.live(configMap, "c"); got.Controller() == nil || field(got, "data", "x") != `"y"` {
					t.Errorf("got %s", got.Raw)
				}
				return
			}
			if f := w.fails(target, c.in, c.reason); f.Conflict == c.ordinal {
				t.Errorf("got %+v", f)
			}
			if got := w.live(configMap, "c"); got != nil && got.Controller() != nil && got.Controller().UID == target.Object.UID {
				t.Errorf("got %s", got.Raw)
			}
		})
	}
}

func TestAnObjectThatAlwaysChangesIsNotAdopted(t *testing.T) {
	for _, in := range []*abi.Result{adopting("c"), adopt(apply(configObject, "v"))} {
		w := newCluster(t)
		target := w.owner(list(configMap), nil)
		w.create(configMap, `{"metadata":{"name":"c"}}`)
		w.seen(configMap, "c")
		n := 0
		var before func(request)
		before = func(r request) {
			if r.method == http.MethodPatch {
				n++
				w.edit(configMap, "c", "", fmt.Sprintf(`{"data":{"x":"%d"}}`, n))
			}
			w.wire.before = before
		}
		w.wire.before = before
		if _, failure := w.PerformIntents(t.Context(), target, in); failure == nil || !failure.Conflict || n > maxUpdates+1 {
			t.Errorf("after %d patches %+v", n, failure)
		}
	}
}

// The cache still has the primary as it was.
func TestNothingIsAdoptedForAPrimaryThatIsGoing(t *testing.T) {
	for name, change := range map[string]func(*world){
		"deleted":   func(w *world) { w.remove(widget, "w") },
		"recreated": func(w *world) { w.remove(widget, "w"); w.create(widget, `{"metadata":{"name":"w"}}`) },
		"being deleted": func(w *world) {
			w.edit(widget, "w", "", `{"metadata":{"finalizers":["test.thole.dev/f"]}}`)
			w.remove(widget, "w")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			target := w.owner(list(configMap), nil)
			before := w.create(configMap, `{"metadata":{"name":"c"}}`)
			w.seen(configMap, "c")
			change(w)
			for _, in := range []*abi.Result{adopting("c"), adopt(apply(configObject, "v"))} {
				if f := w.fails(target, in, reasonSuperseded); !f.Conflict {
					t.Errorf("got %+v", f)
				}
			}
			if got := w.live(configMap, "c"); got.ResourceVersion != before.ResourceVersion {
				t.Errorf("got %s", got.Raw)
			}
		})
	}
}

func TestOnlyTheObjectWithTheUIDIsAdoptedAndReleased(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	o := w.create(configMap, `{"metadata":{"name":"c"}}`)
	for _, seen := range []bool{false, true} {
		if seen {
			w.seen(configMap, "c")
		}
		f := w.fails(target, adoptingUID("c", "another"), "NotFound")
		if f.Class != abi.ClassRetry || !strings.Contains(f.Message, "does not exist") {
			t.Errorf("got %+v", f)
		}
	}
	w.intents(target, adoptingUID("c", string(o.UID)))
	w.seen(configMap, "c")
	ref := configMap.Kind.Ref("", "c")
	ref.UID = "another"
	w.intents(target, &abi.Result{Release: []abi.Ref{ref}})
	w.expectChild(target, "c", "")
	ref.UID = string(o.UID)
	w.intents(target, &abi.Result{Release: []abi.Ref{ref}})
	if got := w.live(configMap, "c"); got.Controller() != nil {
		t.Errorf("got %s", got.Raw)
	}
}

// A conflict of fields adopts nothing, also if the reference to the primary is one of them.
func TestAnExplicitReferenceIsChangedOnlyWithTheFields(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"c","ownerReferences":[%s]},"data":{"k":"theirs"}}`, reference(target.Object, `,"controller":false,"blockOwnerDeletion":false`)))
	before := w.seen(configMap, "c")
	w.fails(target, adopt(apply(configObject, "v")), reasonFieldConflict)
	if got := w.live(configMap, "c"); got.ResourceVersion != before.ResourceVersion {
		t.Fatalf("got %s", got.Raw)
	}
	report := w.intents(target, adopt(apply(configObject, "theirs")))
	w.expectChild(target, "c", `{"k":"theirs"}`)
	if len(report.Writes) != 2 {
		t.Errorf("wrote %+v", report.Writes)
	}
	w.seen(configMap, "c")
	w.wire.take()
	w.intents(target, adopt(apply(configObject, "theirs")))
	w.expectSent()
}

func TestAnOwnerOfAnOwnerOfThePrimaryIsNotAdopted(t *testing.T) {
	w := newCluster(t)
	top := w.create(configMap, `{"metadata":{"name":"top"}}`)
	w.seen(configMap, "top")
	middle := w.create(widget, `{"metadata":{"name":"middle","ownerReferences":[`+reference(top, "")+`]}}`)
	w.store.put(middle)
	target := w.owner(list(configMap), nil)
	target.Object = w.edit(widget, "w", "", `{"metadata":{"ownerReferences":[`+reference(middle, controls)+`,`+reference(target.Object, "")+`]}}`)
	w.store.put(target.Object)
	for _, in := range []*abi.Result{adopting("top"), adopt(apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"top"},"data":{"k":"v"}}`))} {
		if f := w.fails(target, in, reasonOutOfScope); !strings.Contains(f.Message, "owns the primary") {
			t.Errorf("got %+v", f)
		}
	}
}

// Three objects are to adopt each other, by runs that began before any of them had an owner, one
// after the other and at once.
func TestObjectsDoNotComeToOwnEachOther(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.AdoptsPrimaries = true })
	const n = 3
	for _, atOnce := range []bool{false, true} {
		var targets [n]Target
		for i := range targets {
			o := w.create(widget, fmt.Sprintf(`{"metadata":{"name":"w%d-%v"}}`, i, atOnce))
			w.store.put(o)
			targets[i] = Target{Controller: controller(list(widget), nil), Object: o}
		}
		var all sync.WaitGroup
		var failures [n]*Failure
		for i, target := range targets {
			next := targets[(i+1)%n].Object.Name
			run := func() {
				_, failures[i] = w.PerformIntents(t.Context(), target, adopt(apply(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}}`, widget.Kind.APIVersion, widget.Kind.Kind, next)))
			}
			if atOnce {
				all.Go(run)
			} else {
				run()
			}
		}
		all.Wait()
		refused := 0
		for i, f := range failures {
			adopted := w.live(widget, targets[(i+1)%n].Object.Name).Controller() != nil
			if f != nil && f.Reason == reasonOutOfScope && strings.Contains(f.Message, "owns the primary") && !adopted {
				refused++
			} else if f != nil || !adopted {
				t.Errorf("at once %v: %+v, adopted %v", atOnce, f, adopted)
			}
		}
		if refused != 1 {
			t.Errorf("at once %v: %d adoptions were refused, want 1", atOnce, refused)
		}
	}
}

func TestAdoptionWaitsForAnotherOneAndAnApplyToAChildDoesNot(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.AdoptsPrimaries = true })
	target := w.owner(list(configMap), nil)
	w.create(configMap, `{"metadata":{"name":"c"}}`)
	w.seen(configMap, "c")
	w.adopting <- struct{}{} // another adoption is under way
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, failure := w.PerformIntents(ctx, target, adopt(apply(configObject, "v")))
	if failure == nil || !strings.Contains(failure.Message, "wait for another adoption") {
		t.Errorf("got %+v", failure)
	}
	w.expectSent()
	<-w.adopting
	w.intents(target, adopt(apply(configObject, "v")))
	w.seen(configMap, "c")
	w.adopting <- struct{}{}
	w.intents(target, adopt(apply(configObject, "other")))
	if got := w.live(configMap, "c"); got.Controller() == nil || field(got, "data", "k") != `"other"` {
		t.Errorf("got %s", got.Raw)
	}
}

func TestAnObjectIsNotAppliedWithAnOwnerThatItOwns(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), list(widget))
	w.intents(target, apply(configObject, "v"))
	child := w.seen(configMap, "c")
	for _, owner := range []*object.Object{child, target.Object} {
		in := apply(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"w","ownerReferences":[`+reference(owner, "")+`]}}`, widget.Kind.APIVersion, widget.Kind.Kind)
		if f := w.fails(target, in, reasonOutOfScope); !strings.Contains(f.Message, "leave the reference out") {
			t.Errorf("got %+v", f)
		}
	}
}

func TestOnlyWhatThePrimaryCanControlIsAdoptedAloneAndReleased(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), list(secret))
	w.wire.take()
	twice := releasing("c", "c")
	both := releasing("c")
	both.Apply = apply(configObject, "v").Apply
	gone := releasing("c")
	gone.Delete = []abi.Delete{{Ref: configMap.Kind.Ref("", "c")}}
	for name, c := range map[string]struct {
		in     *abi.Result
		reason string
	}{
		"adopt a kind in writes":      {adopt(apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`)), reasonOutOfScope},
		"release a kind in writes":    {&abi.Result{Release: []abi.Ref{secret.Kind.Ref("", "s")}}, reasonOutOfScope},
		"release an undeclared kind":  {&abi.Result{Release: []abi.Ref{service.Kind.Ref("", "s")}}, reasonNotDeclared},
		"release elsewhere":           {&abi.Result{Release: []abi.Ref{configMap.Kind.Ref("kube-system", "c")}}, reasonOutOfScope},
		"release a path":              {releasing("../c"), reasonInvalid},
		"release twice":               {twice, reasonInvalid},
		"release and apply":           {both, reasonInvalid},
		"release and delete":          {gone, reasonInvalid},
		"a valid one before a denied": {&abi.Result{Release: []abi.Ref{configMap.Kind.Ref("", "c"), service.Kind.Ref("", "s")}}, reasonNotDeclared},
	} {
		t.Run(name, func(t *testing.T) {
			if _, f := w.PerformIntents(t.Context(), target, c.in); f == nil || f.Reason != c.reason {
				t.Errorf("got %+v", f)
			}
			w.expectSent()
		})
	}
	w.start(func(c *Config) { c.Allow = nil }) // Secrets need an entry
	target.Controller = controller(list(secret), nil)
	w.fails(target, adopt(apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`)), reasonNotAllowed)
	w.fails(target, &abi.Result{Release: []abi.Ref{secret.Kind.Ref("", "s")}}, reasonNotAllowed)
	w.expectSent()
}

func TestADryRunAdoptsAndReleasesNothing(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.DryRun = true })
	target := w.owner(list(configMap), nil)
	w.create(configMap, `{"metadata":{"name":"free"}}`)
	w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"ours","ownerReferences":[%s]}}`, reference(target.Object, controls)))
	w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"explicit","ownerReferences":[%s]},"data":{"a":"b"}}`, reference(target.Object, `,"controller":false`)))
	var before []string
	for _, name := range []string{"free", "ours", "explicit"} {
		before = append(before, w.seen(configMap, name).ResourceVersion)
	}
	in := adopting("free")
	in.Release = releasing("ours").Release
	in.Apply = append(in.Apply, adopt(apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"explicit"},"data":{"k":"v"}}`)).Apply...)
	if report := w.intents(target, in); len(report.Writes) != 0 {
		t.Errorf("wrote %+v", report.Writes)
	}
	for i, name := range []string{"free", "ours", "explicit"} {
		if w.live(configMap, name).ResourceVersion != before[i] {
			t.Errorf("%s was changed", name)
		}
	}
	if got := fmt.Sprint(w.logs.All()); strings.Count(got, "dry run: would change") != 3 || strings.Contains(got, "adopted") || strings.Contains(got, "released") {
		t.Errorf("logged %s", got)
	}
}

func TestAdoptionsKeepTheLimitOfWrites(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.QPS, c.Burst = 1, 2 })
	target := w.owner(list(configMap), nil)
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		w.create(configMap, fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
		w.seen(configMap, name)
	}
	w.wire.take()
	var sent []string
	for range names {
		report, failure := w.PerformIntents(t.Context(), target, adopting(names...))
		for _, write := range report.Writes {
			w.store.put(write.Object)
		}
		sent = append(sent, w.wire.methods())
		if failure == nil {
			break
		}
		if failure.Reason != reasonWriteLimit || failure.Later == 0 {
			t.Fatalf("got %+v", failure)
		}
		w.now = w.now.Add(failure.Later)
	}
	if want := []string{"GET PATCH PATCH", "GET PATCH", "GET PATCH", "GET PATCH"}; !slices.Equal(sent, want) {
		t.Errorf("sent %q", sent)
	}
}

func TestAReleaseIsSentAtTheLimitOfStoredBytes(t *testing.T) {
	var w *world
	w = newCluster(t, bounded(&w, 20_000, 0))
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(configObject, text(15_000)))
	w.seen(configMap, "c")
	w.create(configMap, `{"metadata":{"name":"free"}}`)
	w.seen(configMap, "free")
	w.start(bounded(&w, 10_000, 0))
	w.now = w.now.Add(time.Minute)
	w.fails(target, adopting("free"), reasonStoredLimit)
	w.intents(target, releasing("c"))
	if got := w.live(configMap, "c"); got.Controller() != nil {
		t.Errorf("got %s", got.Raw)
	}
	w.seen(configMap, "c")
	if used := w.Usage().StoredBytes; used < 15_000 {
		t.Errorf("%d bytes of what was released are counted", used)
	}
}

// A plugin follows what it owns by the label: an adoption sets it, a release takes it off.
func TestTheLabelComesWithAnAdoptionAndGoesWithARelease(t *testing.T) {
	for _, metadataOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("metadata only %v", metadataOnly), func(t *testing.T) {
			w := newCluster(t, managed)
			w.store.metadata = map[abi.Kind]bool{configMap.Kind: metadataOnly}
			target := w.owner(list(configMap), nil)
			w.create(configMap, `{"metadata":{"name":"c","labels":{"a":"b"}},"data":{"k":"v"}}`)
			for _, c := range []struct {
				in           *abi.Result
				first, again string // requests
				labels       string
			}{
				{adopting("c"), "GET PATCH", "", "map[a:b thole.dev/managed-by:demo]"},
				{releasing("c"), "PATCH", "", "map[a:b]"},
				{adopt(apply(configObject, "v")), "GET PATCH", "", "map[a:b thole.dev/managed-by:demo]"},
				{releasing("c"), "PATCH", "", "map[a:b]"},
			} {
				for _, want := range []string{c.first, c.again} {
					w.seen(configMap, "c")
					w.wire.take()
					w.intents(target, c.in)
					if got := w.wire.methods(); got != want {
						t.Errorf("sent %q, want %q", got, want)
					}
					if got := w.live(configMap, "c"); fmt.Sprint(got.Labels) != c.labels || field(got, "data") != `{"k":"v"}` {
						t.Errorf("got %s", got.Raw)
					}
				}
			}
			w.edit(configMap, "c", "", `{"metadata":{"labels":{"thole.dev/managed-by":"theirs"}}}`)
			w.seen(configMap, "c")
			w.intents(target, adopting("c"))
			w.edit(configMap, "c", "", `{"metadata":{"labels":{"thole.dev/managed-by":"theirs"}}}`)
			w.store.followManaged(configMap)
			w.intents(target, adopting("c"))
			if got := w.live(configMap, "c"); fmt.Sprint(got.Labels) != "map[a:b thole.dev/managed-by:demo]" {
				t.Errorf("a label that was changed: %s", got.Raw)
			}
			w.edit(configMap, "c", "", `{"metadata":{"labels":{"thole.dev/managed-by":"theirs"}}}`)
			w.intents(target, releasing("c"))
			if got := w.live(configMap, "c"); got.Controller() != nil || fmt.Sprint(got.Labels) != "map[a:b thole.dev/managed-by:theirs]" {
				t.Errorf("a label of another plugin: %s", got.Raw)
			}
		})
	}
}

func TestWhatWasAdoptedIsLabelledWhenThePluginBecomesManaged(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	for _, name := range []string{"adopted", "released", "theirs"} {
		w.create(configMap, fmt.Sprintf(`{"metadata":{"name":%q},"data":{"k":"v"}}`, name))
	}
	w.intents(target, adopting("adopted", "released"))
	w.intents(target, releasing("released"))
	for _, name := range []string{"released", "theirs"} {
		w.edit(configMap, name, "", `{"metadata":{"ownerReferences":[`+reference(target.Object, controls)+`]}}`)
	}
	w.upgrade(true)
	w.label(target)
	for name, want := range map[string]string{"adopted": "demo", "released": "", "theirs": ""} {
		if got := w.live(configMap, name).Labels[abi.LabelManagedBy]; got != want {
			t.Errorf("%s has the label %q", name, got)
		}
	}
}
