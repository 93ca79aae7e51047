package cloudevents

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/runner"
)

// published keeps the events of a controller.
type published struct {
	mu     sync.Mutex
	events []string
	again  []bool // of changes
	during func() // is called in the middle of an announcement
	note   func() // is called with each event; may be nil
}

func (p *published) Publish(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.note != nil {
		p.note()
	}
	switch e := e.(type) {
	case Change:
		p.again = append(p.again, e.Again)
		p.events = append(p.events, fmt.Sprintf("%s %s %s v%s generation %d observed %d", e.Type, e.Object.UID, e.Object.Key, e.Object.ResourceVersion, e.Object.Generation, e.Object.ObservedGeneration))
	case RunEnd:
		p.events = append(p.events, fmt.Sprintf("%s/%s %s %s attempt %d %s %s observed %d", e.Plugin, e.Controller, e.Object.Key, e.Result, e.Attempt, e.Class, e.Reason, e.Object.ObservedGeneration))
	}
}

func (p *published) Announce(_ context.Context, _ string, _ bool, n int, event func(i int, put func(Event))) {
	for i := range n {
		event(i, func(e Event) {
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

// shown is a controller with objects.
type shown struct {
	runner.Handle

	revision *dispatch.Revision
	objects  map[object.Key]*object.Object
	term     chan struct{} // is closed while the replica leads; nil: it always does
}

func (s *shown) Revision() *dispatch.Revision { return s.revision }

func (s *shown) Keys() (keys []object.Key) {
	for key := range s.objects {
		keys = append(keys, key)
	}
	return keys
}

func (s *shown) Shown(key object.Key) (*object.Object, bool) {
	o, exists := s.objects[key]
	return o, exists
}

func (s *shown) Leads() bool {
	if s.term == nil {
		return true
	}
	select {
	case <-s.term:
		return true
	default:
		return false
	}
}

func (s *shown) Term() (leading, ended <-chan struct{}) { return s.term, nil }

// fixture is a controller whose events are published.
type fixture struct {
	*controller
	shown *shown
}

func newPublishing() (*fixture, *published) {
	s, p := &shown{revision: &dispatch.Revision{Controller: abi.Controller{Name: "c"}}, objects: map[object.Key]*object.Object{}}, &published{}
	s.publish("true")
	return &fixture{&controller{plugin: "p", handle: s, to: p}, s}, p
}

// publish sets the section of the controller; "" for none.
func (s *shown) publish(section string) {
	s.revision.Controller.Sections = nil
	if section != "" {
		s.revision.Controller.Sections = []abi.Section{{Name: "cloudEvents", Value: []byte(section)}}
	}
}

func (f *fixture) put(o *object.Object) *object.Object {
	f.shown.objects[o.Key()] = o
	return o
}

func (f *fixture) observe(old, updated *object.Object) { f.changed(f.shown.revision, old, updated) }

// run ends a run of the object.
func (f *fixture) run(result outcome.Metric, failure events.Failure, attempt int, primary *object.Object) {
	f.ended(f.shown.revision, dispatch.EndedRun{Primary: primary, RunEnded: events.RunEnded{
		Run: events.Run{ID: "1"}, Result: string(result), Failure: failure, Attempt: attempt,
	}})
}

var testKey = object.Key{Namespace: "ns", Name: "w"}

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
		"bookkeeping of a kind without one":     {[2]string{without, ""}, [2]string{`"resourceVersion":"2","annotations":{"c.p.thole.dev/handled":"b"}`, ""}, ""},
		"deletion of a kind without generation": {[2]string{without, ""}, [2]string{`"resourceVersion":"2","deletionTimestamp":"2026-01-01T00:00:00Z"`, ""}, "UPDATED v2"},
		"status of a kind without generation":   {[2]string{without, ""}, [2]string{`"resourceVersion":"2"`, `,"status":{"x":1}`}, "STATUS_UPDATED v2"},
		"finalizers of a kind without generation": {[2]string{without, ""}, [2]string{`"resourceVersion":"2","finalizers":["f"]`, ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newPublishing()
			var before, after *object.Object
			if c.before[0] != "" {
				before = widgetWith(t, c.before[0], c.before[1])
			}
			if c.after[0] != "" {
				after = widgetWith(t, c.after[0], c.after[1])
			}
			f.observe(before, after)
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

const aVersion = `"resourceVersion":"1","generation":1`

func TestEventsHaveTheGenerationsOfTheirObject(t *testing.T) {
	f, p := newPublishing()
	o := f.put(widgetWith(t, aVersion, `,"status":{"observedGeneration":7}`))
	f.observe(nil, o)
	f.announce(t.Context(), []object.Key{testKey}, true)
	f.run(outcome.MetricSuccess, events.Failure{}, 0, o)
	p.expect(t, "CREATED u1 ns/w v1 generation 1 observed 7", "CREATED u1 ns/w v1 generation 1 observed 7", "p/c ns/w success attempt 0   observed 7")
}

func TestEndsOfRunsArePublished(t *testing.T) {
	f, p := newPublishing()
	o := widgetWith(t, aVersion, "")
	f.run(outcome.MetricSuccess, events.Failure{}, 0, o)
	f.run(outcome.MetricError, events.Failure{Class: abi.ClassRetry, Reason: "Failed"}, 1, o)
	f.run(outcome.MetricError, events.Failure{Class: abi.ClassPanic, Reason: "Panic"}, 2, o)
	f.run(outcome.MetricRequeue, events.Failure{}, 0, o)
	f.run(outcome.MetricRequeueAfter, events.Failure{}, 0, o)
	p.expect(t, "p/c ns/w success attempt 0   observed 0", "p/c ns/w failed attempt 1 retry Failed observed 0", "p/c ns/w failed attempt 2 panic Panic observed 0",
		"p/c ns/w requeue attempt 0   observed 0", "p/c ns/w requeue_after attempt 0   observed 0")
	f.ended(f.shown.revision, dispatch.EndedRun{Primary: o, RunEnded: events.RunEnded{Repeated: true}})
	p.expect(t) // it counts for nothing
}

func TestNothingIsPublishedUnlessTheControllerAsks(t *testing.T) {
	for _, section := range []string{"", "false"} {
		f, p := newPublishing()
		f.shown.publish(section)
		o := f.put(widgetWith(t, aVersion, ""))
		f.observe(nil, o)
		f.announce(t.Context(), []object.Key{testKey}, true)
		f.run(outcome.MetricSuccess, events.Failure{}, 0, o)
		p.expect(t)
	}
}

// A Lease that is renewed late loses no events; a replica that does not lead publishes none.
func TestOnlyTheLeaderPublishes(t *testing.T) {
	f, p := newPublishing()
	f.shown.term = make(chan struct{})
	o := f.put(widgetWith(t, aVersion, ""))
	f.observe(nil, o)
	p.expect(t)
	close(f.shown.term)
	f.observe(nil, o)
	f.observe(o, nil)
	p.expect(t, "CREATED u1 ns/w v1 generation 1 observed 0", "DELETED u1 ns/w v1 generation 1 observed 0")
	f.shown.term = make(chan struct{})
	f.observe(o, nil)
	f.announce(t.Context(), []object.Key{testKey}, true)
	p.expect(t)
}

func TestAnnouncementHasWhatTheInformerShows(t *testing.T) {
	f, p := newPublishing()
	f.put(widgetWith(t, aVersion, ""))
	f.announce(t.Context(), []object.Key{{Namespace: "ns", Name: "gone"}, testKey}, true)
	p.expect(t, "CREATED u1 ns/w v1 generation 1 observed 0")
}

// The informer shows the deletion while the object is announced: the deletion must come second, or
// receivers would take the object for there.
func TestDeletionIsPublishedAfterTheAnnouncement(t *testing.T) {
	f, p := newPublishing()
	o := f.put(widgetWith(t, aVersion, ""))
	deleted := make(chan struct{})
	p.during = func() {
		started := make(chan struct{})
		go func() {
			defer close(deleted)
			close(started)
			f.observe(o, nil)
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
	f.announce(t.Context(), []object.Key{testKey}, true)
	<-deleted
	p.expect(t, "CREATED u1 ns/w v1 generation 1 observed 0", "DELETED u1 ns/w v1 generation 1 observed 0")
}

// Another entry of the manifest may follow all of the objects, which the informer then has.
func TestOfMetadataOnlyPrimariesOnlyTheMetadataIsPublished(t *testing.T) {
	f, p := newPublishing()
	f.shown.revision.Controller.For.MetadataOnly = true
	before := f.put(widgetWith(t, aVersion, `,"status":{"observedGeneration":1}`))
	f.observe(before, widgetWith(t, `"resourceVersion":"2","generation":1`, `,"status":{"observedGeneration":1,"x":1}`))
	p.expect(t)
	f.observe(before, widgetWith(t, `"resourceVersion":"3","generation":2`, `,"status":{"observedGeneration":1,"x":1}`))
	p.expect(t, "UPDATED u1 ns/w v3 generation 2 observed 0")
	f.announce(t.Context(), []object.Key{testKey}, true)
	p.expect(t, "CREATED u1 ns/w v1 generation 1 observed 0")
	f.run(outcome.MetricSuccess, events.Failure{}, 0, before)
	p.expect(t, "p/c ns/w success attempt 0   observed 0")
}

// What leaves a selection and comes back has the same uid.
func TestSelectedObjectsMayBeCreatedAgain(t *testing.T) {
	f, p := newPublishing()
	o := f.put(widgetWith(t, aVersion, ""))
	selected := &f.shown.revision.Controller.For
	for selector, want := range map[*string]bool{nil: false, &selected.LabelSelector: true, &selected.FieldSelector: true} {
		if selector != nil {
			*selector = "a=b"
		}
		f.observe(nil, o)
		f.announce(t.Context(), []object.Key{testKey}, true)
		f.observe(o, nil)
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
		widgetWith(t, aVersion, ""),
		widgetWith(t, `"resourceVersion":"2","generation":2`, ""),
		widgetWith(t, `"resourceVersion":"3","generation":2`, `,"status":{"x":1}`),
		nil,
	}
	var all [2][]string
	for i := range all {
		f, p := newPublishing()
		for n := range states[1:] {
			f.observe(states[n], states[n+1])
		}
		all[i] = p.events
	}
	if len(all[0]) != 4 || strings.Join(all[0], "\n") != strings.Join(all[1], "\n") {
		t.Errorf("published\n%s\nand\n%s", strings.Join(all[0], "\n"), strings.Join(all[1], "\n"))
	}
}
