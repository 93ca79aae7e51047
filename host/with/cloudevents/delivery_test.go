package cloudevents

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ceclient "github.com/cloudevents/sdk-go/v2/client"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/with/http/egress"
)

// startSDK starts the SDK's own receiver, which takes no batches.
func startSDK(t *testing.T) (url string, got func() []event.Event) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocol, err := cehttp.New(cehttp.WithListener(listener))
	if err != nil {
		t.Fatal(err)
	}
	client, err := ceclient.New(protocol)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all []event.Event
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := client.StartReceiver(ctx, func(e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, e)
		}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return "http://" + listener.Addr().String(), func() []event.Event {
		mu.Lock()
		defer mu.Unlock()
		return append([]event.Event(nil), all...)
	}
}

func TestEveryModeIsTakenByTheReceiverOfTheSDK(t *testing.T) {
	for _, mode := range []Mode{"", ModeStructured, ModeBinary, ModeBatch} {
		t.Run("mode "+string(mode), func(t *testing.T) {
			url, got := startSDK(t)
			if mode == ModeBatch { // which the SDK reads by a function
				r := newReceiver(t)
				url, got = r.url(), r.events
			}
			w := newWorld(t, nil)
			if !w.configure(t, Sink{Name: "s", URL: url, Mode: mode}) {
				t.Error("a new sink is not reported")
			}
			for i := range 300 {
				w.Publish(change(fmt.Sprint("o", i%7), i/7+1))
			}
			w.Publish(RunEnd{Plugin: "p", Controller: "c", ID: "r", Object: change("ö \"x\"", 1).Object, Result: ResultSuccess})
			await.Until(t, "all events arrive", func() bool { return len(got()) == 301 })
			var changes []event.Event
			for _, e := range got() {
				if err := e.Validate(); err != nil {
					t.Error(err)
				}
				if e.Type() == "widget.updated" {
					changes = append(changes, e)
				} else if e.Subject() != `ns/ö "x"` || e.Type() != "widget.reconciled.success" {
					t.Errorf("got %s", e)
				}
			}
			if objects := expectOrder(t, mode, changes); len(objects) != 7 {
				t.Errorf("events of %v", objects)
			}
			w.of("s").awaitText(t, "published 301 dropped map[] buffered 0")
		})
	}
}

func TestBatchesAreLarge(t *testing.T) {
	r := newReceiver(t)
	r.stop()
	w := newWorld(t, nil)
	w.configure(t, Sink{Name: "s", URL: r.url(), Mode: ModeBatch})
	for i := range 1000 {
		w.Publish(change("a", i+1))
	}
	r.start()
	expectOrder(t, ModeBatch, r.awaitEvents(1000))
	if n := r.asked(); n > 12 {
		t.Errorf("%d requests for 1000 events, want batches of 100", n)
	}
}

// A sink is away for some time while there are 100 changes a second. The same for 60 s: SOAK.
func TestNothingIsLostWhileASinkIsDown(t *testing.T) {
	for _, mode := range []Mode{ModeStructured, ModeBatch} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			w := newWorld(t, nil)
			w.configure(t, Sink{Name: "s", URL: r.url(), Mode: mode})
			outage(t, w, r, mode, 300)
			if got := r.asked(); mode == ModeBatch && got > 400 {
				t.Errorf("%d requests", got)
			}
		})
	}
}

// outage publishes 100 changes a second, of 10 objects, before, while and after the sink is down, and
// expects all of them in order. down is how many come while it is down.
func outage(t *testing.T, w *world, r *receiver, mode Mode, down int) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	published := 0
	publish := func(n int) {
		for range n {
			<-ticker.C
			w.Publish(change(fmt.Sprint("o", published%10), published/10+1))
			published++
		}
	}
	publish(50)
	r.stop()
	publish(down)
	r.start()
	publish(50)
	w.of("s").awaitText(t, fmt.Sprintf("published %d dropped map[] buffered 0", published))
	objects := expectOrder(t, mode, r.events())
	sum := 0
	for _, n := range objects {
		sum += int(n)
	}
	if sum != published {
		t.Errorf("%d of %d events arrived", sum, published)
	}
	if c := w.of("s"); c.failures == 0 || c.most < down {
		t.Errorf("%d failures, %d buffered at most: the sink was not down", c.failures, c.most)
	}
}

func TestNewestEventsAreDroppedBeyondTheBuffer(t *testing.T) {
	logs := logtest.New(hclog.Warn)
	r := newReceiver(t)
	r.stop()
	w := newWorld(t, logs.Logger)
	w.configure(t, Sink{Name: "s", URL: r.url(), Mode: ModeBatch})
	for i := range maxEvents + 2500 {
		w.Publish(change(fmt.Sprint("o", i%10), i/10+1))
	}
	if got, want := w.of("s").String(), fmt.Sprintf("published 0 dropped map[full:2500] buffered %d", maxEvents); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	told := map[string]int{}
	for range 2 {
		line := logs.Next(t)
		told[fmt.Sprint(line.Fields["reason"])]++
	}
	if told["full"] != 1 || told["<nil>"] != 1 {
		t.Errorf("told %v, want one line of the full buffer and one of the sink", told)
	}
	r.start()
	objects := expectOrder(t, ModeBatch, r.awaitEvents(maxEvents))
	for name, n := range objects {
		if n != maxEvents/10 {
			t.Errorf("the last event of %s is %d: an older one was dropped", name, n)
		}
	}
	w.Publish(change("o0", maxEvents/10+1)) // there is room again
	r.awaitEvents(maxEvents + 1)
}

// A burst of drops is told with all of its events, although all but the first come within a minute.
func TestEveryDropIsReported(t *testing.T) {
	for name, after := range map[string]func(*report){
		"the sink takes events": func(r *report) {
			time.Sleep(toldEvery) // fake time
			r.taken(1)
			r.taken(1)
		},
		"others are dropped": func(r *report) {
			time.Sleep(toldEvery) // fake time
			r.dropped(dropRefused, 1, "no")
		},
		"the sink ends": func(r *report) { r.end(); r.end() },
	} {
		synctest.Test(t, func(t *testing.T) {
			told := map[string][]int{}
			r := newReport("s", func(d Drop) { told[d.Reason] = append(told[d.Reason], d.Events) }, hclog.NewNullLogger(), &counts{dropped: map[string]int{}})
			for range 100 {
				r.dropped(dropFull, 1, "no room")
				r.taken(1)
			}
			if got := fmt.Sprint(told); got != "map[full:[1]]" {
				t.Errorf("%s: before that %s were told", name, got)
			}
			after(r)
			if got := fmt.Sprint(told[dropFull]); got != "[1 99]" {
				t.Errorf("%s: told %s", name, got)
			}
		})
	}
}

func TestBytesOfTheBufferAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	r := newReceiver(t)
	r.stop()
	w := newWorld(t, nil)
	w.configure(t, Sink{Name: "s", URL: r.url()})
	long := strings.Repeat("n", 4000)
	for i := range 6000 {
		w.Publish(change(long, i+1))
	}
	s := w.current()[0]
	if s.bytes > maxBytes || s.bytes < maxBytes-10_000 || s.len() >= 6000 {
		t.Errorf("%d events of %d bytes are buffered", s.len(), s.bytes)
	}
}

// What a sink does to the host: the event arrives when the sink works, and other objects are not lost.
func TestHostileSinks(t *testing.T) {
	elsewhere := newReceiver(t)
	for name, answer := range map[string]http.HandlerFunc{
		"unavailable":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"unauthorized":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"no backend":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"not implemented": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotImplemented) },
		"too many":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"closes":          func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"huge answer": func(w http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		},
		"huge header": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) },
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.url(), http.StatusTemporaryRedirect)
		},
		"redirects to itself": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.String(), http.StatusPermanentRedirect)
		},
		"becomes a GET": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/in", http.StatusSeeOther) },
		"switches":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSwitchingProtocols) },
		"waits long": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			r.answers(answer)
			w := newWorld(t, nil)
			w.configure(t, Sink{Name: "s", URL: r.url()})
			for i := range 20 {
				w.Publish(change("a", i+1))
			}
			await.Until(t, "requests fail", func() (failed bool) {
				c := w.of("s")
				c.change(func() { failed = c.failures >= 2 })
				return failed
			})
			r.answers(nil)
			expectOrder(t, ModeBinary, r.awaitEvents(20))
			w.of("s").awaitText(t, "published 20 dropped map[] buffered 0")
		})
	}
	t.Cleanup(func() {
		if n := elsewhere.asked(); n != 0 {
			t.Errorf("%d events went where the sink redirected them", n)
		}
	})
}

func TestRefusedEventsAreDroppedAndOthersGoOn(t *testing.T) {
	for _, mode := range []Mode{ModeStructured, ModeBatch} {
		t.Run(string(mode), func(t *testing.T) {
			logs := logtest.New(hclog.Warn)
			r := newReceiver(t)
			r.answers(func(w http.ResponseWriter, request *http.Request) {
				var body json.RawMessage
				if err := json.NewDecoder(request.Body).Decode(&body); err != nil || strings.Contains(string(body), "u-bad") {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				w.WriteHeader(http.StatusNoContent)
			})
			w := newWorld(t, logs.Logger)
			w.configure(t, Sink{Name: "s", URL: r.url(), Mode: mode})
			for i := range 50 {
				w.Publish(change("good", i+1))
				if i%10 == 0 {
					w.Publish(change("bad", i+1))
				}
			}
			w.of("s").awaitText(t, "published 50 dropped map[refused:5] buffered 0")
			if line := logs.Next(t); line.Fields["reason"] != "refused" || line.Fields["why"] != "the sink answers 400" || line.Fields["sink"] != "s" {
				t.Errorf("told %+v", line)
			}
		})
	}
}

// One request of 10 s at a time may hang in each lane; then others are made.
func TestSlowSinkDoesNotBlock(t *testing.T) {
	r := newReceiver(t)
	done := make(chan struct{})
	r.answers(func(_ http.ResponseWriter, request *http.Request) {
		select {
		case <-done:
		case <-request.Context().Done():
		}
	})
	defer close(done)
	w := newWorld(t, nil)
	w.configure(t, Sink{Name: "s", URL: r.url()})
	expectNoTimeout := func(while string) {
		c := w.of("s")
		c.change(func() {
			if c.failures != 0 {
				t.Errorf("%d requests timed out while %s", c.failures, while)
			}
		})
	}
	for i := range 500 {
		w.Publish(change(fmt.Sprint("o", i%100), i/100+1))
	}
	expectNoTimeout("events were published")
	await.Until(t, "there are requests", func() bool { return r.asked() > 0 })
	w.configure(t) // cuts them off
	expectNoTimeout("the sink was removed")
	if got := w.of("s").String(); got != "published 0 dropped map[removed:500] buffered 0" {
		t.Error(got)
	}
}

func TestVerdicts(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	after := func(value string) []egress.Header { return []egress.Header{{Name: "Retry-After", Value: value}} }
	for name, c := range map[string]struct {
		reply *egress.Reply
		err   error
		want  verdict
		after time.Duration
	}{
		"200":                {&egress.Reply{Status: 200}, nil, taken, 0},
		"299":                {&egress.Reply{Status: 299}, nil, taken, 0},
		"304":                {&egress.Reply{Status: 304}, nil, failed, 0},
		"400":                {&egress.Reply{Status: 400}, nil, refused, 0},
		"401":                {&egress.Reply{Status: 401}, nil, failed, 0},
		"403":                {&egress.Reply{Status: 403}, nil, refused, 0},
		"404":                {&egress.Reply{Status: 404}, nil, failed, 0},
		"407":                {&egress.Reply{Status: 407}, nil, failed, 0},
		"408":                {&egress.Reply{Status: 408}, nil, failed, 0},
		"410":                {&egress.Reply{Status: 410}, nil, refused, 0},
		"413":                {&egress.Reply{Status: 413}, nil, refused, 0},
		"425":                {&egress.Reply{Status: 425}, nil, failed, 0},
		"429":                {&egress.Reply{Status: 429, Headers: after("7")}, nil, failed, 7 * time.Second},
		"429 at a time":      {&egress.Reply{Status: 429, Headers: after("Fri, 02 Jan 2026 03:05:05 GMT")}, nil, failed, time.Minute},
		"429 in the past":    {&egress.Reply{Status: 429, Headers: after("Fri, 02 Jan 2025 03:05:05 GMT")}, nil, failed, 0},
		"429 for years":      {&egress.Reply{Status: 429, Headers: after("18446744073709551615")}, nil, failed, maxRetryAfter},
		"429 beyond numbers": {&egress.Reply{Status: 429, Headers: after("99999999999999999999")}, nil, failed, 0},
		"429 negative":       {&egress.Reply{Status: 429, Headers: after("-5")}, nil, failed, 0},
		"500":                {&egress.Reply{Status: 500}, nil, failed, 0},
		"599":                {&egress.Reply{Status: 599}, nil, failed, 0},
		"unreachable":        {&egress.Reply{Error: &abi.Failure{Reason: "Unreachable"}}, nil, failed, 0},
		"too large":          {nil, egress.ErrTooLarge, failed, 0},
		"denied":             {nil, &egress.DeniedError{}, failed, 0},
		"invalid":            {nil, &egress.InvalidError{}, refused, 0},
	} {
		if got := judge(c.reply, c.err, now); got.verdict != c.want || got.after != c.after {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
