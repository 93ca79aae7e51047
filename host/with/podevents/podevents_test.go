package podevents

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/kubeevents"
	"github.com/thole-dev/thole/host/runner"
)

// eventStore stores Events like an API server.
type eventStore struct {
	mu     sync.Mutex
	events map[string]*corev1.Event // by name
	writes int
	wait   chan struct{} // each write blocks until it is closed; nil: it does not block
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

func start(s *eventStore) *observer { return &observer{kubeevents.Start(s, correlation), testPod} }

// observed returns the Events on the pod that do has caused once the sender was
// stopped. Time passes only when there is nothing to do, so that stop waits long
// enough.
func observed(t *testing.T, do func(*observer)) *eventStore {
	t.Helper()
	s := newEventStore()
	synctest.Test(t, func(*testing.T) {
		p := start(s)
		do(p)
		p.sender.Stop()
	})
	return s
}

func revision(number int) events.Revision {
	return events.Revision{Plugin: "demo", Number: number, Version: "1.2", Digest: strings.Repeat(fmt.Sprint(number), 64)}
}

func refused(plugin, text string) events.PluginRefused {
	return events.PluginRefused{Plugin: plugin, Step: "parse", Err: errors.New(text)}
}

func TestMessagesOnThePod(t *testing.T) {
	first, second := revision(1), revision(2)
	whileRunning := refused("demo", `plugin "demo": no module`)
	whileRunning.Running = &first
	for _, c := range []struct {
		event                      events.Event
		eventType, reason, message string
	}{
		{events.PluginStarted{Revision: second}, "Normal", "PluginRuns", `plugin "demo" runs: revision 2, version 1.2, sha256:222222222222`},
		{events.PluginRestored{Revision: first}, "Normal", "PluginRuns", `plugin "demo" runs: revision 1, version 1.2, sha256:111111111111`},
		{refused("demo", "no module"), "Warning", "PluginRefused", `plugin "demo" is refused at step parse: no module; it does not run`},
		{
			whileRunning, "Warning", "PluginRefused",
			`plugin "demo" is refused at step parse: no module; keeps running: revision 1, version 1.2, sha256:111111111111`,
		},
		{events.PluginWaiting{Plugin: "demo", Reason: "for its CRD"}, "Warning", "PluginWaits", `plugin "demo" waits: for its CRD`},
		{
			events.PluginRolledBack{From: second, To: first, Reason: "9 of 10 runs failed"},
			"Warning", "PluginRolledBack",
			`plugin "demo" is rolled back from revision 2, version 1.2, sha256:222222222222: 9 of 10 runs failed; runs again: revision 1, version 1.2, sha256:111111111111`,
		},
		{
			events.PluginQuarantined{Revision: first, Reason: "8 panics", Failure: events.Failure{Message: "a secret"}},
			"Warning", "PluginQuarantined",
			`plugin "demo" fails, objects that fail wait while single runs probe it: 8 panics`,
		},
		{
			events.Notice{Plugin: "demo", Warning: true, Reason: "SinkFull", Summary: "dropped 7 messages for the sink s (full): ", Details: "the buffer is full"},
			"Warning", "SinkFull", `plugin "demo" dropped 7 messages for the sink s (full): the buffer is full`,
		},
		{events.PluginRecovered{Revision: first}, "Normal", "PluginRecovered", `plugin "demo" runs as before`},
		{events.PluginStopped{Plugin: "demo", Removed: true, Ran: true}, "Normal", "PluginRemoved", `plugin "demo" is removed`},
		{
			events.FinalizersLeft{
				Plugin: "demo", Removed: true, Commands: []string{"thole finalizers demo Widget.v1.test.dev -A --release"},
				Left: []events.LeftFinalizer{{
					Finalizer: "demo.thole.dev/main", KindName: "Widget.v1.test.dev", Objects: 3, Deleting: 1, Examples: []string{"default/a", "default/b"},
				}},
			},
			"Warning", "FinalizersRemain",
			`plugin "demo" is removed; finalizers remain that keep 3 objects from being deleted: ` +
				`demo.thole.dev/main on 3 Widget.v1.test.dev, 1 being deleted (default/a, default/b, ...); ` +
				`put the plugin back to clean up, or give that up: thole finalizers demo Widget.v1.test.dev -A --release`,
		},
	} {
		e := observed(t, func(p *observer) { p.observe(c.event) }).with(t, c.reason, "")
		if e.Type != c.eventType || e.Message != c.message || e.InvolvedObject != *testPod || e.Namespace != testPod.Namespace {
			t.Errorf("got %s %s in %s about %+v:\n%s\nwant %s:\n%s", e.Type, e.Reason, e.Namespace, e.InvolvedObject, e.Message, c.eventType, c.message)
		}
	}
}

func TestCommandsAreGivenWholeOrNotAtAll(t *testing.T) {
	left := events.FinalizersLeft{Plugin: "demo", Commands: slices.Repeat([]string{"thole finalizers demo/main Widget.v1.test.dev -n ns --release"}, 20)}
	if text := leftRemedy(left); !strings.HasSuffix(text, "the log has the commands") || strings.Contains(text, "thole finalizers") {
		t.Errorf("remedy: %s", text)
	}
}

// A rollback is reported once, and runs are not reported at all.
func TestOtherEventsAreNotReportedOnThePod(t *testing.T) {
	rolledBack := refused("demo", "rolled back")
	rolledBack.RolledBack = true
	s := observed(t, func(p *observer) {
		p.observe(rolledBack)
		p.observe(events.PluginStopped{Plugin: "demo", Ran: true})     // the host stops
		p.observe(events.PluginStopped{Plugin: "demo", Removed: true}) // it was refused
		p.observe(events.RunEnded{})
	})
	if len(s.events) > 0 {
		t.Errorf("reported %v", s.events)
	}
}

func TestOutsideOfAPodNothingIsReported(t *testing.T) {
	if c := Capability().New(runner.Environment{Cluster: &rest.Config{Host: "127.0.0.1:1"}}); c.Observe != nil || c.Stop != nil {
		t.Error("something is reported")
	}
}

// The first plugins have an Event each. The others share one that is counted up
// and names the last.
func TestManyRefusedPluginsShareAnEvent(t *testing.T) {
	const plugins = 60
	s := observed(t, func(p *observer) {
		for i := range plugins {
			p.observe(refused(fmt.Sprintf("p%d", i), "no module"))
			time.Sleep(time.Millisecond) // fake time: an Event is named after its time
		}
	})
	if len(s.events) != separateEvents {
		t.Errorf("%d Events, want %d", len(s.events), separateEvents)
	}
	for i := range separateEvents - 1 {
		s.with(t, reasonRefused, fmt.Sprintf(`plugin "p%d" is refused`, i))
	}
	last := s.with(t, reasonRefused, fmt.Sprintf(`plugin "p%d" is refused`, plugins-1))
	if !strings.HasPrefix(last.Message, combinedPrefix+pluginPrefix) || last.Count != plugins-separateEvents+1 {
		t.Errorf("counted %d: %s", last.Count, last.Message)
	}
}

// The API server must not have much to do for the first plugin either.
func TestOnePluginDoesNotSuppressTheEventsOfAnother(t *testing.T) {
	s := observed(t, func(p *observer) {
		for i := range 900 {
			p.observe(refused("flaps", fmt.Sprintf("no module: %d", i)))
			time.Sleep(time.Millisecond) // fake time
		}
		p.observe(refused("calm", "no module"))
	})
	s.with(t, reasonRefused, `plugin "calm" is refused`)
	if s.writes > burstPerPlugin+10 {
		t.Errorf("%d writes for one plugin, want about %d", s.writes, burstPerPlugin)
	}
}

func TestNoticesOfCapabilitiesLeaveTheOtherEventsTheirAllowance(t *testing.T) {
	s := observed(t, func(p *observer) {
		for i := range 500 { // of 8 sinks, for an hour
			p.observe(events.Notice{Plugin: "demo", Warning: true, Reason: "SinkFull", Summary: fmt.Sprintf("dropped %d messages for the sink s%d", i, i%8)})
			time.Sleep(time.Minute / 8) // fake time
		}
		for i := range 5 {
			p.observe(refused("demo", fmt.Sprint("no module ", i)))
			time.Sleep(time.Millisecond) // fake time: an Event is named after its time
		}
	})
	for i := range 5 {
		s.with(t, reasonRefused, fmt.Sprint("no module ", i))
	}
	if most := burstPerPlugin + int(time.Hour.Seconds()*perPluginPerSecond) + 10; s.writes > most {
		t.Errorf("%d writes in an hour, want at most %d", s.writes, most)
	}
}

func TestAMessageIsBoundedAndPrintable(t *testing.T) {
	const tail = "; keeps running: revision 1, version 1.2, sha256:111111111111"
	first := revision(1)
	for _, text := range []string{
		strings.Repeat("x", 5000), strings.Repeat("ü", 3000), "\x1b[2J\x1b[31mred\r\n\tnext", "\xff\xfe", "\u202egnol", "",
	} {
		e := refused("demo", text)
		e.Running = &first
		message := observed(t, func(p *observer) { p.observe(e) }).with(t, reasonRefused, "").Message
		if len(combinedPrefix+message) > 1024 || !strings.HasSuffix(message, tail) || !strings.HasPrefix(message, `plugin "demo" is refused at step parse: `) {
			t.Errorf("%d bytes: %s", len(message), message)
		}
		if strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("not printable: %q", message)
		}
	}
}

func TestStopDoesNotWaitLongForTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEventStore()
		s.wait = make(chan struct{})
		p := start(s)
		p.observe(events.PluginStopped{Plugin: "demo", Removed: true, Ran: true})
		begin := time.Now()
		p.sender.Stop()
		if waited := time.Since(begin); waited != kubeevents.FlushTimeout {
			t.Errorf("waited %s, want %s", waited, kubeevents.FlushTimeout)
		}
		close(s.wait)
		synctest.Wait()
	})
}
