package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

// turnFunc is a guest that makes turns.
type turnFunc func(ctx context.Context, call sandbox.Call) (sandbox.Return, error)

// turnLog is a capability of the tests: the turns of a controller, by name, are in its section "turns", with their
// intervals.
type turnLog struct {
	mu      sync.Mutex
	guest   turnFunc
	lines   []string
	running int
	most    int // that ran at once
}

// named is an object that a turn names.
type named struct {
	Namespace, Name string
	Signal          json.RawMessage `json:",omitempty"`
}

// found is what a turn writes.
type found struct {
	Objects []named
	Error   *abi.Failure
}

func (w found) text() []byte {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return text
}

// finds is a turn that names objects.
func finds(objects ...named) turnFunc {
	return func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Output: found{Objects: objects}.text()}, nil
	}
}

func (l *turnLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *turnLog) started() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running++
	l.most = max(l.most, l.running)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running--
	}
}

func (l *turnLog) ended(e events.TurnEnded) {
	if e.Failure.Class != abi.ClassNone {
		l.add("failed")
		return
	}
	l.add("success %d objects %d ignored", e.Objects, e.Ignored)
}

// Reconcile implements [Guest].
func (*turnLog) Reconcile(context.Context, sandbox.Call) (sandbox.Return, error) {
	return returns(&abi.Result{})
}

// Call implements [Guest], and calls BeforeRelease as a sandbox does.
func (l *turnLog) Call(ctx context.Context, _ string, call sandbox.Call) (sandbox.Return, error) {
	out, err := l.guest(ctx, call)
	if err == nil {
		call.BeforeRelease(out)
	}
	return out, err
}

func (l *turnLog) of(rev *Revision) (all []Turn) {
	var intervals map[string]time.Duration
	if text := rev.Controller.Section("turns"); text != nil {
		if err := json.Unmarshal(text, &intervals); err != nil {
			panic(err)
		}
	}
	for name, interval := range intervals {
		all = append(all, Turn{
			Key: "turn/" + name, What: "turn", Event: "TurnEnded", Interval: interval, Export: "turn",
			Request: func(now time.Time, seed [32]byte) [][]byte {
				return [][]byte{[]byte(name + " "), fmt.Append(nil, now.UnixNano(), seed)}
			},
			Decode: decodeTurn, Started: l.started, Ended: l.ended, Idle: func() { l.add("idle") },
		})
	}
	return all
}

func decodeTurn(output []byte) (all []Signalled, failure *abi.Failure, err error) {
	var written found
	if len(output) > 0 {
		err = json.Unmarshal(output, &written)
	}
	for _, o := range written.Objects {
		if o.Name == "" {
			return nil, nil, errors.New("no name")
		}
		all = append(all, Signalled{object.Key{Namespace: o.Namespace, Name: o.Name}, o.Signal})
	}
	return all, written.Error, err
}

// turnsSection returns the section of a controller with turns.
func turnsSection(intervals map[string]time.Duration) []abi.Section {
	text, err := json.Marshal(intervals)
	if err != nil {
		panic(err)
	}
	return []abi.Section{{Name: "turns", Value: text}}
}

const turnInterval = 30 * time.Second

// newTurnFixture returns a fixture whose controller has the turn "due".
func newTurnFixture(t *testing.T, guest turnFunc) (*fixture, *turnLog) {
	f, log := newFixture(t), &turnLog{guest: guest}
	f.c.Hooks, f.turns = []Hooks{{Turns: log.of}}, log
	rev := f.c.Revision()
	rev.Controller.Sections = turnsSection(map[string]time.Duration{"due": turnInterval})
	f.c.setTurns(f.c.turnsOf(rev))
	f.c.BeginTurns()
	f.expect("add turn/due timer")
	return f, log
}

// turn takes the key of the turn from the queue, and returns what it waits for then.
func (f *fixture) turn() outcome.Next {
	f.t.Helper()
	f.runKey(object.Key{Name: "turn/due"}, abi.ReasonTimer)
	if len(f.done) == 0 {
		f.t.Fatal("the key was not handed back")
	}
	return f.done[len(f.done)-1]
}

// ended returns the last end of a turn that was reported.
func (f *fixture) ended() (last events.TurnEnded) {
	for _, e := range f.events {
		if ended, ok := e.(events.TurnEnded); ok {
			last = ended
		}
	}
	return last
}

func expectNext(t *testing.T, next outcome.Next, least time.Duration) {
	t.Helper()
	if most := outcome.AddJitter(least, turnJitter, 1); next.Kind != outcome.After || next.After < least || next.After > most || next.Yields {
		t.Errorf("the next turn is due %+v, want between %s and %s", next, least, most)
	}
}

func TestATurnMakesObjectsDueAndGivesThemSignals(t *testing.T) {
	f, log := newTurnFixture(t, finds(
		named{Namespace: "ns", Name: "w", Signal: []byte(`1`)}, named{Namespace: "ns", Name: "gone"},
		named{Name: "w"}, named{Name: "turn/due"}, named{Namespace: "ns", Name: "w", Signal: []byte(`{"two":2}`)}, named{Namespace: "ns", Name: "w"},
	))
	f.put(aWidget)
	expectNext(t, f.turn(), turnInterval)
	f.expect("add ns/w signal", "add ns/w signal", "add ns/w signal")
	if want := []string{"success 3 objects 3 ignored"}; !slices.Equal(log.lines, want) {
		t.Errorf("metrics %q, want %q", log.lines, want)
	}
	if e := f.ended(); e.Objects != 3 || e.Ignored != 3 || e.Failure.Class != abi.ClassNone || e.Object != "turn/due" || e.Plugin != "p" {
		t.Errorf("reported %+v", e)
	}
	f.run(abi.ReasonSignal)
	if got := fmt.Sprintf("%s", f.request.Signals); got != `[1 {"two":2}]` || !slices.Contains(f.request.Reasons, abi.ReasonSignal) {
		t.Errorf("the run has the signals %s and the reasons %q", got, f.request.Reasons)
	}
	f.run()
	if len(f.request.Signals) != 0 {
		t.Errorf("the next run has the signals %s, too", f.request.Signals)
	}
}

func TestTheRequestOfATurn(t *testing.T) {
	var seeds [][32]byte
	f, _ := newTurnFixture(t, func(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
		if q := string(slices.Concat(call.Request...)); q != fmt.Sprint("due ", call.Now.UnixNano(), call.Seed) {
			t.Errorf("request %q", q)
		}
		if call.Namespace != "" || call.Deadline != 5*time.Second {
			t.Errorf("call %+v", call)
		}
		seeds = append(seeds, call.Seed)
		return sandbox.Return{Output: []byte("{}")}, nil
	})
	f.c.Revision().Controller.Timeout = 5000
	f.turn()
	f.c.BeginTurns()
	f.turn()
	if len(seeds) != 2 || seeds[0] == seeds[1] {
		t.Errorf("seeds %x", seeds)
	}
}

// A turn that fails has no effect, and the next one is made after the interval.
func TestATurnThatFails(t *testing.T) {
	object := named{Namespace: "ns", Name: "w"}
	writes := func(code abi.Code, output string) turnFunc {
		return func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return sandbox.Return{Code: code, Output: []byte(output)}, nil
		}
	}
	fails := func(err error) turnFunc {
		return func(context.Context, sandbox.Call) (sandbox.Return, error) { return sandbox.Return{}, err }
	}
	withError := string(found{[]named{object}, &abi.Failure{Reason: "NoSite", Message: "none"}}.text())
	abiMessage := "what the turn has written cannot be decoded: "
	for name, c := range map[string]struct {
		guest                  turnFunc
		class                  abi.Class
		reason, message        string // message is the begin of it
		counted, pluginFailure int    // by the breaker
	}{
		"retry":     {writes(abi.CodeRetry, withError), abi.ClassRetry, "NoSite", "none", 1, 0},
		"stalled":   {writes(abi.CodeStalled, withError), abi.ClassStalled, "NoSite", "none", 1, 0},
		"waiting":   {writes(abi.CodeWaiting, withError), abi.ClassWaiting, "NoSite", "none", 1, 0},
		"silent":    {writes(abi.CodeRetry, ""), abi.ClassRetry, "", "the turn returned 1 without a message", 1, 0},
		"not JSON":  {writes(abi.CodeOK, "{"), abi.ClassABI, "InvalidResult", abiMessage, 1, 1},
		"no name":   {writes(abi.CodeRetry, `{"objects":[{}]}`), abi.ClassABI, "InvalidResult", abiMessage, 1, 1},
		"panic":     {fails(&sandbox.Fault{Class: abi.ClassPanic, Message: "boom", Stack: []string{"main.turn"}}), abi.ClassPanic, "", "panic: boom; in main.turn", 1, 1},
		"of memory": {fails(errors.New("no instance could be made")), abi.ClassRetry, "", "no instance could be made", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, log := newTurnFixture(t, c.guest)
			f.c.Revision().Breaker = NewBreaker(func(BreakerStatus) {})
			f.put(aWidget)
			expectNext(t, f.turn(), turnInterval)
			f.expect()
			if got := f.ended().Failure; got.Class != c.class || got.Reason != c.reason || !strings.HasPrefix(got.Message, c.message) {
				t.Errorf("reported %+v, want %s %s %s", got, c.class, c.reason, c.message)
			}
			if window := f.c.Revision().Breaker.circuit.window; window.recent.Len() != c.counted || window.failing != c.pluginFailure {
				t.Errorf("the breaker has counted %d, of which %d have failed", window.recent.Len(), window.failing)
			}
			if !slices.Equal(log.lines, []string{"failed"}) {
				t.Errorf("metrics %q", log.lines)
			}
		})
	}
}

// What a turn could not read for now, or a guest that was closed before the call, is no failure.
func TestATurnThatCouldNotBeMadeIsMadeSoon(t *testing.T) {
	lists := func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		if _, code := call.Host.List(ctx, listOfGadgets); code != abi.CodeUnavailable {
			t.Errorf("code %d", code)
		}
		return finds(named{Namespace: "ns", Name: "w"})(ctx, call)
	}
	closed := func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{}, fmt.Errorf("plugin: %w", sandbox.ErrClosed)
	}
	for name, guest := range map[string]turnFunc{"not synced": lists, "closed": closed} {
		t.Run(name, func(t *testing.T) {
			f, log := newTurnFixture(t, guest)
			f.allow(rightsAnywhere)
			f.put(aWidget)
			expectNext(t, f.turn(), turnRetry)
			f.expect()
			if len(log.lines)+len(f.events) != 0 || log.running != 0 {
				t.Errorf("metrics %q, events %v", log.lines, f.events)
			}
		})
	}
}

const rightsAnywhere = "*"

// A turn reads like a run of a cluster-scoped primary: nothing is its own namespace.
func TestATurnReadsWhatTheControllerMayReadWithoutANamespace(t *testing.T) {
	f, _ := newTurnFixture(t, nil)
	f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g"}}`)
	f.listError = nil
	var gets, lists [2]int64
	f.turns.guest = turnFunc(func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		_, gets[0] = call.Host.Get(ctx, message(abi.EncodeGetCall(&abi.GetCall{Ref: gadget.Ref("ns", "g")})))
		_, gets[1] = call.Host.Get(ctx, message(abi.EncodeGetCall(&abi.GetCall{Ref: gadget.Ref("other", "g")})))
		_, lists[0] = call.Host.List(ctx, listOfGadgets)
		_, lists[1] = call.Host.List(ctx, encoded(abi.ListCall{APIVersion: "v1", Kind: "Gadget", Namespace: "other"}))
		return sandbox.Return{Output: []byte("{}")}, nil
	})
	turn := func() {
		f.c.BeginTurns()
		f.turn()
	}
	f.allow() // the namespace of the primary alone
	if turn(); gets != [2]int64{-2, -2} || lists != [2]int64{-2, -2} {
		t.Errorf("with the own namespace alone: get %v, list %v", gets, lists)
	}
	f.allow("ns")
	if turn(); gets[0] != 0 || gets[1] != abi.CodeDenied || lists[0] < 0 || lists[1] != abi.CodeDenied || !slices.Equal(f.reading.Namespaces, []string{"ns"}) {
		t.Errorf("with one namespace: get %v, list %v in %q", gets, lists, f.reading.Namespaces)
	}
	f.allow(rightsAnywhere)
	if turn(); gets != [2]int64{0, abi.CodeNotFound} || lists[0] < 0 || lists[1] < 0 {
		t.Errorf("with all namespaces: get %v, list %v", gets, lists)
	}
	for _, line := range f.log {
		if strings.Contains(line, "reads") {
			t.Errorf("what it has read is remembered: %s", line)
		}
	}
}

// An owner reference may have any name: who makes the key due does not turn.
func TestNobodyElseMakesATurnDue(t *testing.T) {
	turns := 0
	f, _ := newTurnFixture(t, func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		turns++
		return finds()(ctx, call)
	})
	f.turn()
	f.c.ObserveOwned(nil, f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g",
		"ownerReferences":[{"apiVersion":"example.dev/v1","kind":"Widget","name":"turn/due","uid":"u","controller":true}]}}`))
	f.expect()
	next := f.turn()
	if turns != 1 || next.After > 2*turnInterval || next.After < turnInterval-time.Second {
		t.Errorf("%d turns, and the next one is due %+v", turns, next)
	}
	f.runKey(object.Key{Name: "turn/other"}, abi.ReasonOwned)
	if next := f.done[len(f.done)-1]; next != (outcome.Next{}) || turns != 1 {
		t.Errorf("the key of no turn waits for %+v", next)
	}
	f.runKey(object.Key{Namespace: "ns", Name: "turn/due"}, abi.ReasonOwned)
	if turns != 1 {
		t.Error("the key of an object in a namespace is that of a turn")
	}
}

func TestAnotherRevisionHasItsOwnTurns(t *testing.T) {
	f, _ := newTurnFixture(t, finds(named{Namespace: "ns", Name: "w"}))
	f.put(aWidget)
	f.turn()
	f.log = nil
	f.swap(func(next *Revision) {
		next.Controller.Sections = turnsSection(map[string]time.Duration{"cleanup": time.Second})
	})
	f.turns.guest = finds()
	f.expect("queue forgets turn/due", "add turn/cleanup timer", "add ns/w plugin")
	f.runKey(object.Key{Name: "turn/cleanup"})
	expectNext(t, f.done[len(f.done)-1], time.Second)
	if f.runKey(object.Key{Name: "turn/due"}); f.done[len(f.done)-1] != (outcome.Next{}) {
		t.Errorf("the turn that there is no more waits for %+v", f.done)
	}
	f.swap(func(next *Revision) { next.Controller.Sections = nil })
	f.expect("queue forgets turn/cleanup", "add ns/w plugin")
	f.c.BeginTurns()
	f.expect()
}

// The code that has found them is not the code that the objects would run with.
func TestTheResultOfAReplacedRevisionIsDropped(t *testing.T) {
	f, _ := newTurnFixture(t, nil)
	f.put(aWidget)
	f.turns.guest = turnFunc(func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		f.swap(func(*Revision) {})
		f.log = nil
		return finds(named{Namespace: "ns", Name: "w"})(ctx, call)
	})
	f.turn()
	f.expect()
	if pending := f.c.turns["turn/due"]; !pending.due.IsZero() {
		t.Errorf("the turn of the new revision is due at %s", pending.due)
	}
}

func TestManyObjectsOfATurnWaitInTheBackground(t *testing.T) {
	var found []named
	f, _ := newTurnFixture(t, nil)
	for i := range foundByTurn.bulk + 1 {
		name := fmt.Sprint("w", i)
		f.put(strings.ReplaceAll(aWidget, `"name":"w"`, fmt.Sprintf(`"name":%q`, name)))
		found = append(found, named{Namespace: "ns", Name: name})
	}
	for n, want := range map[int]string{foundByTurn.bulk: "add ns/w0 signal", foundByTurn.bulk + 1: "add in the background ns/w0 signal"} {
		f.turns.guest = finds(found[:n]...)
		f.c.BeginTurns()
		f.log = nil
		if f.turn(); len(f.log) != n || f.log[0] != want {
			t.Errorf("of %d: %d lines, the first is %q, want %q", n, len(f.log), f.log[0], want)
		}
	}
}

// startTurns runs a controller with a real queue and a lease until stop is called.
func startTurns(t *testing.T, guest turnFunc, intervals ...time.Duration) (c *Controller, l *lease, log *turnLog, stop func()) {
	q, l, log := queue.New(queue.Config{}), &lease{leading: make(chan struct{})}, &turnLog{guest: guest}
	all := map[string]time.Duration{}
	for i, interval := range intervals {
		all[fmt.Sprint("s", i)] = interval
	}
	rev := &Revision{Number: 1, Guest: log, Effects: &busyGuest{}, Controller: abi.Controller{Name: "c", Sections: turnsSection(all)}}
	c = New(Config{
		Name: "c", Workers: 3, Cache: fullCache{}, Metrics: noMetrics{}, Logger: hclog.NewNullLogger(), Lease: l,
		Hooks: []Hooks{{Turns: log.of}},
	}, q, rev)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	return c, l, log, func() { cancel(); <-ended }
}

func TestTurnsAreMadeAtTheirIntervalsWhileTheReplicaLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		began := map[string][]time.Time{}
		const takes = 2 * time.Second
		c, l, log, stop := startTurns(t, func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			name := strings.TrimSpace(string(call.Request[0]))
			mu.Lock()
			began[name] = append(began[name], time.Now())
			mu.Unlock()
			time.Sleep(takes) // fake time
			return finds()(ctx, call)
		}, time.Second, 10*time.Second)
		defer stop()
		c.BeginTurns()
		time.Sleep(time.Minute) // fake time
		if len(began) != 0 {
			t.Fatalf("turns while another replica leads: %v", began)
		}
		l.lead()
		c.BeginTurns()
		time.Sleep(time.Hour) // fake time
		mu.Lock()
		for name, interval := range map[string]time.Duration{"s0": time.Second, "s1": 10 * time.Second} {
			for i, at := range began[name][1:] {
				if apart := at.Sub(began[name][i]); apart < takes+interval || apart > takes+interval+interval/20+time.Millisecond {
					t.Fatalf("%s: two turns are %s apart", name, apart)
				}
			}
			if n := len(began[name]); n < int(time.Hour/(takes+interval+interval/20))-1 {
				t.Errorf("%s: %d turns in an hour", name, n)
			}
		}
		if log.most != 2 {
			t.Errorf("%d turns at once: one of each", log.most)
		}
		clear(began)
		mu.Unlock()
		l.lose()
		c.EndTerm()
		time.Sleep(time.Hour) // fake time
		synctest.Wait()
		if len(began["s0"])+len(began["s1"]) > 2 {
			t.Errorf("turns while another replica leads: %v", began)
		}
		if !slices.Contains(log.lines, "idle") {
			t.Error("the metrics were not told that the replica does not lead")
		}
		clear(began)
		l.lead()
		c.BeginTurns()
		time.Sleep(100 * time.Millisecond) // fake time
		synctest.Wait()
		if len(began["s0"]) != 1 || len(began["s1"]) != 1 {
			t.Errorf("in the new term: %v", began)
		}
	})
}

// A turn in progress when the lead is lost may be that of the other replica, too.
func TestATurnHasNoEffectAfterTheLeadWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l, log, stop := startTurns(t, func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			time.Sleep(time.Second) // fake time
			return finds(named{Name: "o"})(ctx, call)
		}, time.Minute)
		defer stop()
		l.lead()
		c.BeginTurns()
		time.Sleep(time.Second / 2) // fake time
		l.lose()
		time.Sleep(time.Minute) // fake time
		if c.mu.Lock(); len(c.keys) != 0 || len(log.lines) != 0 {
			t.Errorf("keys %v, metrics %q", c.keys, log.lines)
		}
		c.mu.Unlock()
	})
}

func TestSignalsOfATurnAreBounded(t *testing.T) {
	f, _ := newTurnFixture(t, nil)
	found := make([]named, 10_000)
	for i := range found {
		found[i] = named{Namespace: "ns", Name: "w", Signal: []byte("1")}
	}
	f.put(aWidget)
	f.turns.guest = finds(found...)
	f.turn()
	if s := f.c.keys[testKey]; len(s.signals.waiting) != maxSignals || f.c.signalBytes != maxSignals {
		t.Errorf("%d signals of %d bytes wait", len(s.signals.waiting), f.c.signalBytes)
	}
}

// Another replica may have turnned meanwhile: what is found belongs to the term in which the turn began.
func TestATurnOfAnEarlierTermHasNoEffectAndIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var began []time.Time
		c, l, log, stop := startTurns(t, func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			mu.Lock()
			began = append(began, time.Now())
			mu.Unlock()
			time.Sleep(10 * time.Second) // fake time
			return finds(named{Name: "o"})(ctx, call)
		}, time.Hour)
		defer stop()
		l.lead()
		c.BeginTurns()
		time.Sleep(time.Second) // fake time
		l.lose()
		c.EndTerm()
		time.Sleep(time.Second) // fake time
		l.lead()
		c.BeginTurns()
		time.Sleep(9 * time.Second) // fake time
		if c.mu.Lock(); len(c.keys) != 0 || slices.ContainsFunc(log.lines, func(line string) bool { return line != "idle" }) {
			t.Errorf("the turn of the term before has made %d objects due, metrics %q", len(c.keys), log.lines)
		}
		c.mu.Unlock()
		mu.Lock()
		if len(began) != 2 {
			t.Errorf("%d turns, want one in each term", len(began))
		}
		mu.Unlock()
	})
}

// noTurns is the part of a [Guest] whose controller has no turns.
type noTurns struct{}

func (noTurns) Call(context.Context, string, sandbox.Call) (sandbox.Return, error) {
	panic("there is no turn")
}
