package host

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/finalizers"
	"github.com/thole-dev/thole/host/internal/printable"
)

// eventStore keeps Events as an API server does.
type eventStore struct {
	mu     sync.Mutex
	events map[string]*corev1.Event // by name
	writes int
	wait   chan struct{} // nil, or what each write waits for
}

func newEventStore() *eventStore { return &eventStore{events: map[string]*corev1.Event{}} }

func (s *eventStore) put(e *corev1.Event) (*corev1.Event, error) {
	if s.wait != nil {
		<-s.wait
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	s.events[e.Name] = e
	return e, nil
}

func (s *eventStore) Create(e *corev1.Event) (*corev1.Event, error)          { return s.put(e) }
func (s *eventStore) Update(e *corev1.Event) (*corev1.Event, error)          { return s.put(e) }
func (s *eventStore) Patch(e *corev1.Event, _ []byte) (*corev1.Event, error) { return s.put(e) }

// with returns the only Event of a reason whose message holds the text.
func (s *eventStore) with(t *testing.T, reason, text string) *corev1.Event {
	t.Helper()
	var found []*corev1.Event
	for _, e := range s.events {
		if e.Reason == reason && strings.Contains(e.Message, text) {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d Events %s with %q, want one", len(found), reason, text)
	}
	return found[0]
}

var testPod = &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "thole-system", Name: "thole-x", UID: "u-1"}

// told is what do leads to on the pod once the host has ended. Time passes only
// when there is nothing to do, so that the end waits long enough.
func told(t *testing.T, do func(*podEvents)) *eventStore {
	t.Helper()
	s := newEventStore()
	synctest.Test(t, func(*testing.T) {
		p := startPodEvents(s, testPod)
		do(p)
		p.stop()
	})
	return s
}

func generation(plugin string, number int) *catalog.Generation {
	return &catalog.Generation{
		Plugin: plugin, Number: number, Digest: strings.Repeat(fmt.Sprint(number), 64), Manifest: &abi.Manifest{Version: "1.2"},
	}
}

func TestWhatIsToldOnThePod(t *testing.T) {
	left := remains{plugin: "demo", gone: true, left: []leftover{{
		owner: finalizers.Owner{Plugin: "demo", Controller: "main"}, kind: abi.Kind{APIVersion: "test.dev/v1", Kind: "Widget"},
		objects: 2, deleting: 1, names: []string{"default/a", "default/b"},
	}}}
	for _, c := range []struct {
		do                         func(*podEvents)
		eventType, reason, message string
	}{
		{
			func(p *podEvents) { p.PluginStarted(generation("demo", 2)) }, "Normal", "PluginRuns",
			`plugin "demo" runs: generation 2, version 1.2, sha256:222222222222`,
		},
		{
			func(p *podEvents) { p.PluginFailed("demo", "parse", errors.New("no module"), nil) }, "Warning", "PluginRefused",
			`plugin "demo" is refused at step parse: no module; it does not run`,
		},
		{
			func(p *podEvents) {
				p.PluginFailed("demo", "parse", errors.New(`plugin "demo": no module`), generation("demo", 1))
			}, "Warning", "PluginRefused",
			`plugin "demo" is refused at step parse: no module; goes on: generation 1, version 1.2, sha256:111111111111`,
		},
		{func(p *podEvents) { p.PluginWaits("demo", "for its CRD") }, "Warning", "PluginWaits", `plugin "demo" waits: for its CRD`},
		{
			func(p *podEvents) {
				p.PluginRolledBack(generation("demo", 2), generation("demo", 1), "9 of 10 runs failed")
			}, "Warning", "PluginRolledBack",
			`plugin "demo" is rolled back from generation 2, version 1.2, sha256:222222222222: 9 of 10 runs failed; runs again: generation 1, version 1.2, sha256:111111111111`,
		},
		{
			func(p *podEvents) { p.PluginQuarantined("demo", "8 panics") }, "Warning", "PluginQuarantined",
			`plugin "demo" fails, its objects wait while single runs probe it: 8 panics`,
		},
		{func(p *podEvents) { p.PluginRecovered("demo") }, "Normal", "PluginRecovered", `plugin "demo" runs as before`},
		{func(p *podEvents) { p.PluginRemoved("demo") }, "Normal", "PluginRemoved", `plugin "demo" is removed`},
		{
			func(p *podEvents) { p.Remains(left) }, "Warning", "FinalizersRemain",
			`plugin "demo" is removed; finalizers remain that keep 2 objects from being deleted: ` +
				`demo.thole.dev/main on 2 Widget.v1.test.dev, 1 being deleted (default/a, default/b); ` +
				`put the plugin back to clean up, or give that up: thole finalizers demo Widget.v1.test.dev -A --release`,
		},
	} {
		e := told(t, c.do).with(t, c.reason, "")
		if e.Type != c.eventType || e.Message != c.message || e.InvolvedObject != *testPod || e.Namespace != testPod.Namespace {
			t.Errorf("got %s %s in %s about %+v:\n%s\nwant %s:\n%s", e.Type, e.Reason, e.Namespace, e.InvolvedObject, e.Message, c.eventType, c.message)
		}
	}
}

// TestWhatIsNotTold: a rollback is told once, no leftovers are none, and
// outside of a pod there is nothing to tell on.
func TestWhatIsNotTold(t *testing.T) {
	s := told(t, func(p *podEvents) {
		p.PluginFailed("demo", "probation", errors.New("rolled back"), generation("demo", 1))
		p.Remains(remains{plugin: "demo"})
	})
	if len(s.events) > 0 {
		t.Errorf("told %v", s.events)
	}
	outside, err := newPodEvents(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	outside.PluginRemoved("demo")
	outside.stop()
}

// TestManyBadPluginsAreToldOnThePod: the first ones each, the others by one
// Event that is counted up and names the last.
func TestManyBadPluginsAreToldOnThePod(t *testing.T) {
	const plugins = 60
	s := told(t, func(p *podEvents) {
		for i := range plugins {
			p.PluginFailed(fmt.Sprintf("p%d", i), "parse", errors.New("no module"), nil)
			time.Sleep(time.Millisecond) // fake time: an Event is named after its time
		}
	})
	if len(s.events) != toldApart {
		t.Errorf("%d Events, want %d", len(s.events), toldApart)
	}
	for i := range toldApart - 1 {
		s.with(t, reasonRefused, fmt.Sprintf(`plugin "p%d" is refused`, i))
	}
	last := s.with(t, reasonRefused, fmt.Sprintf(`plugin "p%d" is refused`, plugins-1))
	if !strings.HasPrefix(last.Message, combined+prefix) || last.Count != plugins-toldApart+1 {
		t.Errorf("counted %d: %s", last.Count, last.Message)
	}
}

// TestOnePluginHidesNoOther: however often one is refused, the next one is
// told; and the API server has little to do for the first.
func TestOnePluginHidesNoOther(t *testing.T) {
	s := told(t, func(p *podEvents) {
		for i := range 900 {
			p.PluginFailed("flaps", "parse", fmt.Errorf("no module: %d", i), nil)
			time.Sleep(time.Millisecond) // fake time
		}
		p.PluginFailed("calm", "parse", errors.New("no module"), nil)
	})
	s.with(t, reasonRefused, `plugin "calm" is refused`)
	if s.writes > tellsAtOnce+10 {
		t.Errorf("%d writes for one plugin, want about %d", s.writes, tellsAtOnce)
	}
}

func TestAMessageIsBoundedAndPlain(t *testing.T) {
	const todo = "; goes on: generation 1, version 1.2, sha256:111111111111"
	for _, text := range []string{
		strings.Repeat("x", 5000), strings.Repeat("ü", 3000), "\x1b[2J\x1b[31mred\r\n\tnext", "\xff\xfe", "\u202egnol", "",
	} {
		s := told(t, func(p *podEvents) { p.PluginFailed("demo", "parse", errors.New(text), generation("demo", 1)) })
		message := s.with(t, reasonRefused, "").Message
		if len(combined+message) > 1024 || !strings.HasSuffix(message, todo) || !strings.HasPrefix(message, `plugin "demo" is refused at step parse: `) {
			t.Errorf("%d bytes: %s", len(message), message)
		}
		if plain := printable.Line(message); plain != message || strings.ContainsAny(message, "\x1b\r\n\t") {
			t.Errorf("not plain: %q", message)
		}
	}
}

// TestTheEndDoesNotWaitForAnAPIServerThatIsAway longer than it must.
func TestTheEndDoesNotWaitForAnAPIServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEventStore()
		s.wait = make(chan struct{})
		p := startPodEvents(s, testPod)
		p.PluginRemoved("demo")
		begin := time.Now()
		p.stop()
		if waited := time.Since(begin); waited != flushTime {
			t.Errorf("waited %s, want %s", waited, flushTime)
		}
		close(s.wait)
		synctest.Wait()
	})
}
