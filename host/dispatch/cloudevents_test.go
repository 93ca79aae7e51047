package dispatch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cloudevents"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// published keeps the events of a controller.
type published struct {
	mu     sync.Mutex
	events []string
	again  []bool // of changes
	during func() // is called in the middle of an announcement
	note   func() // is called with each event; may be nil
}

func (p *published) Publish(e cloudevents.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.note != nil {
		p.note()
	}
	switch e := e.(type) {
	case cloudevents.Change:
		p.again = append(p.again, e.Again)
		p.events = append(p.events, fmt.Sprintf("%s %s %s v%s generation %d observed %d", e.Type, e.Object.UID, e.Object.Key, e.Object.ResourceVersion, e.Object.Generation, e.Object.ObservedGeneration))
	case cloudevents.RunEnd:
		p.events = append(p.events, fmt.Sprintf("%s/%s %s %s attempt %d %s %s observed %d", e.Plugin, e.Controller, e.Object.Key, e.Result, e.Attempt, e.Class, e.Reason, e.Object.ObservedGeneration))
	}
}

func (p *published) Announce(_ context.Context, _ string, _ bool, n int, event func(i int, put func(cloudevents.Event))) {
	for i := range n {
		event(i, func(e cloudevents.Event) {
			if p.during != nil {
				p.during()
			}
			p.Publish(e)
		})
	}
}

func (p *published) expect(t *testing.T, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if got := strings.Join(p.events, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("published:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	p.events = nil
}

func newPublishing(t *testing.T) (*fixture, *published) {
	f, p := newFixture(t), &published{}
	f.c.Publisher = p
	f.c.revision.Load().Controller.CloudEvents = true
	return f, p
}

// widgetWith returns a widget. metadata is beside its name and uid, rest beside metadata.
func widgetWith(t *testing.T, metadata, rest string) *object.Object {
	t.Helper()
	o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u1",%s}%s}`, metadata, rest), abi.Kind{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// The watcher of the document: created, deleted, updated if the generation has grown, otherwise status
// updated if the status is another one.
func TestChangesArePublishedByType(t *testing.T) {
	const with, without = `"resourceVersion":"1","generation":1`, `"resourceVersion":"1"`
	for name, c := range map[string]struct {
		before, after [2]string // metadata and the rest; "" for none
		want          string
	}{
		"created":                               {[2]string{}, [2]string{with, ""}, "CREATED v1"},
		"deleted":                               {[2]string{with, ""}, [2]string{}, "DELETED v1"},
		"spec":                                  {[2]string{with, ""}, [2]string{`"resourceVersion":"2","generation":2`, `,"spec":{"x":1}`}, "UPDATED v2"},
		"spec and status":                       {[2]string{with, ""}, [2]string{`"resourceVersion":"2","generation":2`, `,"status":{"x":1}`}, "UPDATED v2"},
		"status":                                {[2]string{with, ""}, [2]string{`"resourceVersion":"2","generation":1`, `,"status":{"observedGeneration":1}`}, "STATUS_UPDATED v2"},
		"status in another order":               {[2]string{with, `,"status":{"a":1,"b":2}`}, [2]string{`"resourceVersion":"2","generation":1`, `,"status":{"b":2,"a":1}`}, ""},
		"labels":                                {[2]string{with, ""}, [2]string{`"resourceVersion":"2","generation":1,"labels":{"a":"b"}`, ""}, ""},
		"finalizers":                            {[2]string{with, ""}, [2]string{`"resourceVersion":"2","generation":1,"finalizers":["f"]`, ""}, ""},
		"nothing":                               {[2]string{with, ""}, [2]string{with, ""}, ""},
		"data":                                  {[2]string{without, `,"data":{"a":"1"}`}, [2]string{`"resourceVersion":"2"`, `,"data":{"a":"2"}`}, "UPDATED v2"},
		"labels of a kind without generation":   {[2]string{without, ""}, [2]string{`"resourceVersion":"2","labels":{"a":"b"}`, ""}, "UPDATED v2"},
		"bookkeeping of a kind without one":     {[2]string{without, ""}, [2]string{`"resourceVersion":"2","annotations":{"handled.p.thole.dev/c":"b"}`, ""}, ""},
		"deletion of a kind without generation": {[2]string{without, ""}, [2]string{`"resourceVersion":"2","deletionTimestamp":"2026-01-01T00:00:00Z"`, ""}, "UPDATED v2"},
		"status of a kind without generation":   {[2]string{without, ""}, [2]string{`"resourceVersion":"2"`, `,"status":{"x":1}`}, "STATUS_UPDATED v2"},
		"finalizers of a kind without generation": {[2]string{without, ""}, [2]string{`"resourceVersion":"2","finalizers":["f"]`, ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newPublishing(t)
			var before, after *object.Object
			if c.before[0] != "" {
				before = widgetWith(t, c.before[0], c.before[1])
			}
			if c.after[0] != "" {
				after = widgetWith(t, c.after[0], c.after[1])
			}
			f.c.Observe(before, after, false)
			got := ""
			for _, e := range p.events {
				fields := strings.Fields(e)
				got += fields[0] + " " + fields[3]
			}
			if got != c.want {
				t.Errorf("published %q, want %q", got, c.want)
			}
		})
	}
}

// A run of the object may end, and be published, as soon as its key is in the queue.
func TestChangeIsPublishedBeforeItsObjectIsDue(t *testing.T) {
	f, p := newPublishing(t)
	p.note = func() { f.note("publish") }
	o := f.put(aWidget)
	f.c.Observe(nil, o, false)
	f.expect("publish", "add ns/w primary")
	f.c.Observe(o, widgetWith(t, `"resourceVersion":"2","generation":2`, ""), false)
	f.expect("publish", "add ns/w primary")
	f.c.Observe(o, nil, false)
	f.expect("publish", "add ns/w primary")
}

func TestEventsHaveTheGenerationsOfTheirObject(t *testing.T) {
	f, p := newPublishing(t)
	o := f.put(strings.Replace(aWidget, `"spec"`, `"status":{"observedGeneration":7},"spec"`, 1))
	f.c.Observe(nil, o, false)
	f.c.Announce(t.Context(), []object.Key{testKey}, true)
	f.run(abi.ReasonPrimary)
	p.expect(t, "CREATED u1 ns/w v1 generation 1 observed 7", "CREATED u1 ns/w v1 generation 1 observed 7", "p/c ns/w success attempt 0   observed 7")
}

func TestObservedGenerationThatIsNoNumberIsNone(t *testing.T) {
	for _, status := range []string{`"x"`, `null`, `{}`, `{"observedGeneration":"3"}`, `{"observedGeneration":null}`, `{"observedGeneration":1e40}`, `{"observedGeneration":{}}`} {
		if got := observedGeneration([]byte(`{"status":` + status + `}`)); got != 0 {
			t.Errorf("%s: %d", status, got)
		}
	}
	if got := observedGeneration([]byte(`{"status":{"observedGeneration":7}}`)); got != 7 {
		t.Error(got)
	}
}

func TestEndsOfRunsArePublished(t *testing.T) {
	f, p := newPublishing(t)
	f.put(aWidget)
	for _, c := range []struct {
		reconcile reconcileFunc
		want      string
	}{
		{succeed, "p/c ns/w success attempt 0   observed 0"},
		{returnsCode(abi.CodeRetry), "p/c ns/w failed attempt 1 retry Failed observed 0"},
		{panics, "p/c ns/w failed attempt 2 panic Panic observed 0"},
		{func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return sandbox.Return{Output: abi.EncodeResult(&abi.Result{Result: abi.OutcomeRequeue})}, nil
		}, "p/c ns/w requeue attempt 0   observed 0"},
		{func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return returns(&abi.Result{RequeueAfter: 5000})
		}, "p/c ns/w requeue_after attempt 0   observed 0"},
	} {
		f.reconcile = c.reconcile
		f.run(abi.ReasonPrimary)
		p.mu.Lock()
		got := strings.Join(p.events, "\n")
		p.events = nil
		p.mu.Unlock()
		if got != c.want {
			t.Errorf("published %q, want %q", got, c.want)
		}
	}
}

func TestNothingIsPublishedUnlessTheControllerAsks(t *testing.T) {
	f, p := newPublishing(t)
	f.swap(func(r *Revision) { r.Controller.CloudEvents = false })
	f.put(aWidget)
	f.c.Observe(nil, f.store[widget][testKey], false)
	f.c.Announce(t.Context(), []object.Key{testKey}, true)
	f.run(abi.ReasonPrimary)
	p.expect(t)
	f.c.Publisher = nil
	f.swap(func(r *Revision) { r.Controller.CloudEvents = true })
	f.c.Observe(nil, f.store[widget][testKey], false)
	f.c.Announce(t.Context(), []object.Key{testKey}, true)
	f.run(abi.ReasonPrimary)
}

// A Lease that is renewed late loses no events; a replica that does not lead publishes none.
func TestOnlyTheLeaderPublishes(t *testing.T) {
	f, p := newPublishing(t)
	l := &lease{leading: make(chan struct{})}
	f.c.Lease = l
	o := widgetWith(t, `"resourceVersion":"1","generation":1`, "")
	f.c.Observe(nil, o, false)
	p.expect(t)
	l.lead()
	f.c.Observe(nil, o, false)
	l.change(func() { l.late = true })
	f.c.Observe(o, nil, false)
	p.expect(t, "CREATED u1 ns/w v1 generation 1 observed 0", "DELETED u1 ns/w v1 generation 1 observed 0")
	l.lose()
	f.c.Observe(o, nil, false)
	f.c.Announce(t.Context(), []object.Key{testKey}, true)
	p.expect(t)
}

func TestAnnouncementHasWhatTheInformerShows(t *testing.T) {
	f, p := newPublishing(t)
	f.put(aWidget)
	f.c.Announce(t.Context(), []object.Key{{Namespace: "ns", Name: "gone"}, testKey}, true)
	p.expect(t, "CREATED u1 ns/w v1 generation 1 observed 0")
}

// The informer shows the deletion while the object is announced: the deletion must come second, or
// receivers would take the object for there.
func TestDeletionIsPublishedAfterTheAnnouncement(t *testing.T) {
	f, p := newPublishing(t)
	o := f.put(aWidget)
	deleted := make(chan struct{})
	p.during = func() {
		started := make(chan struct{})
		go func() {
			defer close(deleted)
			close(started)
			f.c.publishChange(o, nil)
		}()
		<-started
		for range 100 { // the other goroutine had time to publish, if it could
			select {
			case <-deleted:
				t.Error("an event is published while an object is announced")
				return
			default:
			}
		}
	}
	f.c.Announce(t.Context(), []object.Key{testKey}, true)
	<-deleted
	p.expect(t, "CREATED u1 ns/w v1 generation 1 observed 0", "DELETED u1 ns/w v1 generation 1 observed 0")
}

// Another entry of the manifest may follow all of the objects, which the informer then has.
func TestOfMetadataOnlyPrimariesOnlyTheMetadataIsPublished(t *testing.T) {
	f, p := newPublishing(t)
	f.c.revision.Load().Controller.For.MetadataOnly = true
	before := widgetWith(t, `"resourceVersion":"1","generation":1`, `,"status":{"observedGeneration":1}`)
	f.c.Observe(before, widgetWith(t, `"resourceVersion":"2","generation":1`, `,"status":{"observedGeneration":1,"x":1}`), false)
	p.expect(t)
	f.c.Observe(before, widgetWith(t, `"resourceVersion":"3","generation":2`, `,"status":{"observedGeneration":1,"x":1}`), false)
	p.expect(t, "UPDATED u1 ns/w v3 generation 2 observed 0")
	f.put(strings.Replace(aWidget, `"spec"`, `"status":{"observedGeneration":1},"spec"`, 1))
	f.c.Announce(t.Context(), []object.Key{testKey}, true)
	p.expect(t, "CREATED u1 ns/w v1 generation 1 observed 0")
	f.run(abi.ReasonPrimary)
	p.expect(t, "p/c ns/w success attempt 0   observed 0")
}

// What leaves a selection and comes back has the same uid.
func TestSelectedObjectsMayBeCreatedAgain(t *testing.T) {
	f, p := newPublishing(t)
	o := f.put(aWidget)
	for selector, want := range map[*string]bool{nil: false, &f.c.revision.Load().Controller.For.LabelSelector: true, &f.c.revision.Load().Controller.For.FieldSelector: true} {
		if selector != nil {
			*selector = "a=b"
		}
		f.c.Observe(nil, o, false)
		f.c.Announce(t.Context(), []object.Key{testKey}, true)
		f.c.Observe(o, nil, false)
		if got := fmt.Sprint(p.again); got != fmt.Sprint([]bool{want, want, false}) {
			t.Errorf("%v: again is %s", selector != nil, got)
		}
		if p.again = nil; selector != nil {
			*selector = ""
		}
	}
}

// A restart, or another replica, publishes the same change with the same id.
func TestIdsAreStableOverARestart(t *testing.T) {
	states := []*object.Object{
		nil,
		widgetWith(t, `"resourceVersion":"1","generation":1`, ""),
		widgetWith(t, `"resourceVersion":"2","generation":2`, ""),
		widgetWith(t, `"resourceVersion":"3","generation":2`, `,"status":{"x":1}`),
		nil,
	}
	var all [2][]string
	for i := range all {
		f, p := newPublishing(t)
		for n := range states[1:] {
			f.c.Observe(states[n], states[n+1], false)
		}
		all[i] = p.events
	}
	if len(all[0]) != 4 || strings.Join(all[0], "\n") != strings.Join(all[1], "\n") {
		t.Errorf("published\n%s\nand\n%s", strings.Join(all[0], "\n"), strings.Join(all[1], "\n"))
	}
}

func TestStepOfADaemonAloneIsNoReconciliation(t *testing.T) {
	withDaemon(t, func(f *daemons) {
		p := &published{}
		f.c.Publisher, f.c.Revision().Controller.CloudEvents = p, true
		f.start()
		p.expect(t, "p/c ns/w success attempt 0   observed 0")
		f.readChanges(gadget)
		f.run(abi.ReasonDaemon)
		f.expectSteps("[read]")
		p.expect(t)
	})
}
