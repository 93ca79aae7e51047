package dispatch

import (
	"context"
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

// scanFunc is a guest that scans.
type scanFunc func(ctx context.Context, call sandbox.Call) (sandbox.Return, error)

// Scan calls BeforeRelease as a sandbox does.
func (f scanFunc) Scan(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
	out, err := f(ctx, call)
	if err == nil {
		call.BeforeRelease(out)
	}
	return out, err
}

// finds is a scan with that result.
func finds(objects ...abi.Scanned) scanFunc {
	return func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Output: abi.EncodeScanResult(&abi.ScanResult{Objects: objects})}, nil
	}
}

// scanLog is the metrics of a scan as text.
type scanLog struct {
	mu      sync.Mutex
	lines   []string
	running int
	most    int // that ran at once
}

func (l *scanLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *scanLog) Started() func() {
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

func (l *scanLog) Succeeded(objects, ignored int, _ float64) {
	l.add("success %d objects %d ignored", objects, ignored)
}
func (l *scanLog) Failed(float64) { l.add("failed") }
func (l *scanLog) Idle()          { l.add("idle") }

const scanInterval = 30 * time.Second

// newScanFixture returns a fixture whose controller has the scan "due".
func newScanFixture(t *testing.T, guest scanFunc) (*fixture, *scanLog) {
	f, log := newFixture(t), &scanLog{}
	rev := f.c.Revision()
	rev.Controller.Scans = []abi.Scan{{Name: "due", Interval: scanInterval.Milliseconds()}}
	rev.Scans = &ScanConfig{Guest: guest, Metrics: map[string]ScanMetrics{"due": log}}
	f.c.BeginScans()
	f.expect("add scan/due timer")
	return f, log
}

// scan takes the key of the scan from the queue, and returns what it waits for then.
func (f *fixture) scan() outcome.Next {
	f.t.Helper()
	f.runKey(scanKey("due"), abi.ReasonTimer)
	if len(f.done) == 0 {
		f.t.Fatal("the key was not handed back")
	}
	return f.done[len(f.done)-1]
}

// ended returns the last end of a scan that was reported.
func (f *fixture) ended() (last events.ScanEnded) {
	for _, e := range f.events {
		if ended, ok := e.(events.ScanEnded); ok {
			last = ended
		}
	}
	return last
}

func expectNext(t *testing.T, next outcome.Next, least time.Duration) {
	t.Helper()
	if most := outcome.AddJitter(least, scanJitter, 1); next.Kind != outcome.After || next.After < least || next.After > most || next.Yields {
		t.Errorf("the next scan is due %+v, want between %s and %s", next, least, most)
	}
}

func TestAScanMakesObjectsDueAndGivesThemSignals(t *testing.T) {
	f, log := newScanFixture(t, finds(
		abi.Scanned{Namespace: "ns", Name: "w", Signal: []byte(`1`)}, abi.Scanned{Namespace: "ns", Name: "gone"},
		abi.Scanned{Name: "w"}, abi.Scanned{Name: scanPrefix + "due"}, abi.Scanned{Namespace: "ns", Name: "w", Signal: []byte(`{"two":2}`)}, abi.Scanned{Namespace: "ns", Name: "w"},
	))
	f.put(aWidget)
	expectNext(t, f.scan(), scanInterval)
	f.expect("add ns/w signal", "add ns/w signal", "add ns/w signal")
	if want := []string{"success 3 objects 3 ignored"}; !slices.Equal(log.lines, want) {
		t.Errorf("metrics %q, want %q", log.lines, want)
	}
	if e := f.ended(); e.Objects != 3 || e.Ignored != 3 || e.Failure.Class != abi.ClassNone || e.Object != "scan/due" || e.Plugin != "p" {
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

func TestTheRequestOfAScan(t *testing.T) {
	var seeds [][32]byte
	f, _ := newScanFixture(t, func(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
		q, err := abi.DecodeScanRequest(slices.Concat(call.Request...))
		if err != nil || q.Controller != "c" || q.Scan != "due" || string(q.Config) != `{"a":1}` || !q.Now.Equal(call.Now) || q.Seed != call.Seed {
			t.Errorf("request %+v, %v", q, err)
		}
		if call.Namespace != "" || call.Deadline != 5*time.Second {
			t.Errorf("call %+v", call)
		}
		seeds = append(seeds, call.Seed)
		return sandbox.Return{Output: []byte("{}")}, nil
	})
	f.c.Revision().Config, f.c.Revision().Controller.Timeout = []byte(`{"a":1}`), 5000
	f.scan()
	f.c.BeginScans()
	f.scan()
	if len(seeds) != 2 || seeds[0] == seeds[1] {
		t.Errorf("seeds %x", seeds)
	}
}

// A scan that fails has no effect, and the next one is made after the interval.
func TestAScanThatFails(t *testing.T) {
	object := abi.Scanned{Namespace: "ns", Name: "w"}
	writes := func(code abi.Code, output string) scanFunc {
		return func(context.Context, sandbox.Call) (sandbox.Return, error) {
			return sandbox.Return{Code: code, Output: []byte(output)}, nil
		}
	}
	fails := func(err error) scanFunc {
		return func(context.Context, sandbox.Call) (sandbox.Return, error) { return sandbox.Return{}, err }
	}
	withError := string(abi.EncodeScanResult(&abi.ScanResult{Objects: []abi.Scanned{object}, Error: &abi.Failure{Reason: "NoSite", Message: "none"}}))
	abiMessage := "what the scan has written cannot be decoded: "
	for name, c := range map[string]struct {
		guest                  scanFunc
		class                  abi.Class
		reason, message        string // message is the begin of it
		counted, pluginFailure int    // by the breaker
	}{
		"retry":     {writes(abi.CodeRetry, withError), abi.ClassRetry, "NoSite", "none", 1, 0},
		"stalled":   {writes(abi.CodeStalled, withError), abi.ClassStalled, "NoSite", "none", 1, 0},
		"waiting":   {writes(abi.CodeWaiting, withError), abi.ClassWaiting, "NoSite", "none", 1, 0},
		"silent":    {writes(abi.CodeRetry, ""), abi.ClassRetry, "", "the scan returned 1 without a message", 1, 0},
		"not JSON":  {writes(abi.CodeOK, "{"), abi.ClassABI, "InvalidResult", abiMessage, 1, 1},
		"no name":   {writes(abi.CodeRetry, `{"objects":[{}]}`), abi.ClassABI, "InvalidResult", abiMessage, 1, 1},
		"panic":     {fails(&sandbox.Fault{Class: abi.ClassPanic, Message: "boom", Stack: []string{"main.scan"}}), abi.ClassPanic, "", "panic: boom; in main.scan", 1, 1},
		"of memory": {fails(errors.New("no instance could be made")), abi.ClassRetry, "", "no instance could be made", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, log := newScanFixture(t, c.guest)
			f.c.Revision().Breaker = NewBreaker(func(BreakerStatus) {})
			f.put(aWidget)
			expectNext(t, f.scan(), scanInterval)
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

// What a scan could not read for now, or a guest that was closed before the call, is no failure.
func TestAScanThatCouldNotBeMadeIsMadeSoon(t *testing.T) {
	lists := func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		if _, code := call.Host.List(ctx, listOfGadgets); code != abi.CodeUnavailable {
			t.Errorf("code %d", code)
		}
		return finds(abi.Scanned{Namespace: "ns", Name: "w"})(ctx, call)
	}
	closed := func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{}, fmt.Errorf("plugin: %w", sandbox.ErrClosed)
	}
	for name, guest := range map[string]scanFunc{"not synced": lists, "closed": closed} {
		t.Run(name, func(t *testing.T) {
			f, log := newScanFixture(t, guest)
			f.allow(rightsAnywhere)
			f.put(aWidget)
			expectNext(t, f.scan(), scanRetry)
			f.expect()
			if len(log.lines)+len(f.events) != 0 || log.running != 0 {
				t.Errorf("metrics %q, events %v", log.lines, f.events)
			}
		})
	}
}

const rightsAnywhere = "*"

// A scan reads like a run of a cluster-scoped primary: nothing is its own namespace.
func TestAScanReadsWhatTheControllerMayReadWithoutANamespace(t *testing.T) {
	f, _ := newScanFixture(t, nil)
	f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g"}}`)
	f.listError = nil
	var gets, lists [2]int64
	f.c.Revision().Scans.Guest = scanFunc(func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		_, gets[0] = call.Host.Get(ctx, message(abi.EncodeGetCall(&abi.GetCall{Ref: gadget.Ref("ns", "g")})))
		_, gets[1] = call.Host.Get(ctx, message(abi.EncodeGetCall(&abi.GetCall{Ref: gadget.Ref("other", "g")})))
		_, lists[0] = call.Host.List(ctx, listOfGadgets)
		_, lists[1] = call.Host.List(ctx, encoded(abi.ListCall{APIVersion: "v1", Kind: "Gadget", Namespace: "other"}))
		return sandbox.Return{Output: []byte("{}")}, nil
	})
	scan := func() {
		f.c.BeginScans()
		f.scan()
	}
	f.allow() // the namespace of the primary alone
	if scan(); gets != [2]int64{-2, -2} || lists != [2]int64{-2, -2} {
		t.Errorf("with the own namespace alone: get %v, list %v", gets, lists)
	}
	f.allow("ns")
	if scan(); gets[0] != 0 || gets[1] != abi.CodeDenied || lists[0] < 0 || lists[1] != abi.CodeDenied || !slices.Equal(f.reading.Namespaces, []string{"ns"}) {
		t.Errorf("with one namespace: get %v, list %v in %q", gets, lists, f.reading.Namespaces)
	}
	f.allow(rightsAnywhere)
	if scan(); gets != [2]int64{0, abi.CodeNotFound} || lists[0] < 0 || lists[1] < 0 {
		t.Errorf("with all namespaces: get %v, list %v", gets, lists)
	}
	for _, line := range f.log {
		if strings.Contains(line, "reads") {
			t.Errorf("what it has read is remembered: %s", line)
		}
	}
}

// An owner reference may have any name: who makes the key due does not scan.
func TestNobodyElseMakesAScanDue(t *testing.T) {
	scans := 0
	f, _ := newScanFixture(t, func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		scans++
		return finds()(ctx, call)
	})
	f.scan()
	f.c.ObserveOwned(nil, f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g",
		"ownerReferences":[{"apiVersion":"example.dev/v1","kind":"Widget","name":"scan/due","uid":"u","controller":true}]}}`))
	f.expect("add scan/due owned")
	next := f.scan()
	if scans != 1 || next.After > 2*scanInterval || next.After < scanInterval-time.Second {
		t.Errorf("%d scans, and the next one is due %+v", scans, next)
	}
	f.runKey(scanKey("other"), abi.ReasonOwned)
	if next := f.done[len(f.done)-1]; next != (outcome.Next{}) || scans != 1 {
		t.Errorf("the key of no scan waits for %+v", next)
	}
	f.runKey(object.Key{Namespace: "ns", Name: "scan/due"}, abi.ReasonOwned)
	if scans != 1 {
		t.Error("the key of an object in a namespace scans")
	}
}

func TestAnotherRevisionHasItsOwnScans(t *testing.T) {
	f, log := newScanFixture(t, finds(abi.Scanned{Namespace: "ns", Name: "w"}))
	f.put(aWidget)
	f.scan()
	f.log = nil
	f.swap(func(next *Revision) {
		next.Controller.Scans = []abi.Scan{{Name: "cleanup", Interval: 1}}
		next.Scans = &ScanConfig{Guest: finds(), Metrics: map[string]ScanMetrics{"cleanup": log}}
	})
	f.expect("queue forgets scan/due", "add scan/cleanup timer", "add ns/w plugin")
	f.runKey(scanKey("cleanup"))
	expectNext(t, f.done[len(f.done)-1], shortestInterval) // less than a second counts as one
	if f.runKey(scanKey("due")); f.done[len(f.done)-1] != (outcome.Next{}) {
		t.Errorf("the scan that there is no more waits for %+v", f.done)
	}
	f.swap(func(next *Revision) { next.Controller.Scans, next.Scans = nil, nil })
	f.expect("queue forgets scan/cleanup", "add ns/w plugin")
	f.c.BeginScans()
	f.expect()
}

// The code that has scanned is not the code that the objects would run with.
func TestTheResultOfAReplacedRevisionIsDropped(t *testing.T) {
	f, _ := newScanFixture(t, nil)
	f.put(aWidget)
	f.c.Revision().Scans.Guest = scanFunc(func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		f.swap(func(*Revision) {})
		f.log = nil
		return finds(abi.Scanned{Namespace: "ns", Name: "w"})(ctx, call)
	})
	f.scan()
	f.expect()
	if due := f.c.scans["due"]; !due.IsZero() {
		t.Errorf("the scan of the new revision is due at %s", due)
	}
}

func TestManyObjectsOfAScanWaitInTheBackground(t *testing.T) {
	var found []abi.Scanned
	f, _ := newScanFixture(t, nil)
	for i := range scanCrowd + 1 {
		name := fmt.Sprint("w", i)
		f.put(strings.ReplaceAll(aWidget, `"name":"w"`, fmt.Sprintf(`"name":%q`, name)))
		found = append(found, abi.Scanned{Namespace: "ns", Name: name})
	}
	for n, want := range map[int]string{scanCrowd: "add ns/w0 signal", scanCrowd + 1: "add in the background ns/w0 signal"} {
		f.c.Revision().Scans.Guest = finds(found[:n]...)
		f.c.BeginScans()
		f.log = nil
		if f.scan(); len(f.log) != n || f.log[0] != want {
			t.Errorf("of %d: %d lines, the first is %q, want %q", n, len(f.log), f.log[0], want)
		}
	}
}

// startScans runs a controller with a real queue and a lease until stop is called.
func startScans(t *testing.T, guest scanFunc, intervals ...time.Duration) (c *Controller, l *lease, log *scanLog, stop func()) {
	q, l, log := queue.New(queue.Config{}), &lease{leading: make(chan struct{})}, &scanLog{}
	rev := &Revision{Number: 1, Guest: &busyGuest{}, Effects: &busyGuest{}, Controller: abi.Controller{Name: "c"}, Scans: &ScanConfig{Guest: guest, Metrics: map[string]ScanMetrics{}}}
	for i, interval := range intervals {
		name := fmt.Sprint("s", i)
		rev.Controller.Scans = append(rev.Controller.Scans, abi.Scan{Name: name, Interval: interval.Milliseconds()})
		rev.Scans.Metrics[name] = log
	}
	c = New(Config{
		Name: "c", Workers: 3, Queue: q, Cache: fullCache{}, Metrics: noMetrics{}, Logger: hclog.NewNullLogger(), Lease: l,
	}, rev)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	return c, l, log, func() { cancel(); <-ended }
}

func TestScansAreMadeAtTheirIntervalsWhileTheReplicaLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		began := map[string][]time.Time{}
		const takes = 2 * time.Second
		c, l, log, stop := startScans(t, func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			q, _ := abi.DecodeScanRequest(call.Request[0])
			mu.Lock()
			began[q.Scan] = append(began[q.Scan], time.Now())
			mu.Unlock()
			time.Sleep(takes) // fake time
			return finds()(ctx, call)
		}, time.Millisecond, 10*time.Second)
		defer stop()
		c.BeginScans()
		time.Sleep(time.Minute) // fake time
		if len(began) != 0 {
			t.Fatalf("scans while another replica leads: %v", began)
		}
		l.lead()
		c.BeginScans()
		time.Sleep(time.Hour) // fake time
		mu.Lock()
		for name, interval := range map[string]time.Duration{"s0": shortestInterval, "s1": 10 * time.Second} {
			for i, at := range began[name][1:] {
				if apart := at.Sub(began[name][i]); apart < takes+interval || apart > takes+interval+interval/20+time.Millisecond {
					t.Fatalf("%s: two scans are %s apart", name, apart)
				}
			}
			if n := len(began[name]); n < int(time.Hour/(takes+interval+interval/20))-1 {
				t.Errorf("%s: %d scans in an hour", name, n)
			}
		}
		if log.most != 2 {
			t.Errorf("%d scans at once: one of each", log.most)
		}
		clear(began)
		mu.Unlock()
		l.lose()
		c.EndTerm()
		time.Sleep(time.Hour) // fake time
		synctest.Wait()
		if len(began["s0"])+len(began["s1"]) > 2 {
			t.Errorf("scans while another replica leads: %v", began)
		}
		if !slices.Contains(log.lines, "idle") {
			t.Error("the metrics were not told that the replica does not lead")
		}
		clear(began)
		l.lead()
		c.BeginScans()
		time.Sleep(100 * time.Millisecond) // fake time
		synctest.Wait()
		if len(began["s0"]) != 1 || len(began["s1"]) != 1 {
			t.Errorf("in the new term: %v", began)
		}
	})
}

// A scan in progress when the lead is lost may be that of the other replica, too.
func TestAScanHasNoEffectAfterTheLeadWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l, log, stop := startScans(t, func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			time.Sleep(time.Second) // fake time
			return finds(abi.Scanned{Name: "o"})(ctx, call)
		}, time.Minute)
		defer stop()
		l.lead()
		c.BeginScans()
		time.Sleep(time.Second / 2) // fake time
		l.lose()
		time.Sleep(time.Minute) // fake time
		if c.mu.Lock(); len(c.keys) != 0 || len(log.lines) != 0 {
			t.Errorf("keys %v, metrics %q", c.keys, log.lines)
		}
		c.mu.Unlock()
	})
}

func TestSignalsOfAScanAreBounded(t *testing.T) {
	f, _ := newScanFixture(t, nil)
	found := make([]abi.Scanned, abi.MaxScanned)
	for i := range found {
		found[i] = abi.Scanned{Namespace: "ns", Name: "w", Signal: []byte("1")}
	}
	f.put(aWidget)
	f.c.Revision().Scans.Guest = finds(found...)
	f.scan()
	if s := f.c.keys[testKey]; len(s.signals.waiting) != maxSignals || f.c.signalBytes != maxSignals {
		t.Errorf("%d signals of %d bytes wait", len(s.signals.waiting), f.c.signalBytes)
	}
}

// Another replica may have scanned meanwhile: what is found belongs to the term in which the scan began.
func TestAScanOfAnEarlierTermHasNoEffectAndIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var began []time.Time
		c, l, log, stop := startScans(t, func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			mu.Lock()
			began = append(began, time.Now())
			mu.Unlock()
			time.Sleep(10 * time.Second) // fake time
			return finds(abi.Scanned{Name: "o"})(ctx, call)
		}, time.Hour)
		defer stop()
		l.lead()
		c.BeginScans()
		time.Sleep(time.Second) // fake time
		l.lose()
		c.EndTerm()
		time.Sleep(time.Second) // fake time
		l.lead()
		c.BeginScans()
		time.Sleep(9 * time.Second) // fake time
		if c.mu.Lock(); len(c.keys) != 0 || slices.ContainsFunc(log.lines, func(line string) bool { return line != "idle" }) {
			t.Errorf("the scan of the term before has made %d objects due, metrics %q", len(c.keys), log.lines)
		}
		c.mu.Unlock()
		mu.Lock()
		if len(began) != 2 {
			t.Errorf("%d scans, want one in each term", len(began))
		}
		mu.Unlock()
	})
}
