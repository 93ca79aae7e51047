package cloudevents

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/logtest"
)

func TestBufferSurvivesARevision(t *testing.T) {
	r := newReceiver(t)
	r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	w := newWorld(t, nil)
	w.configure(t, Sink{Name: "s", URL: r.url()})
	for i := range 100 {
		w.Publish(change("a", i+1))
	}
	await.Until(t, "a request fails", func() bool { return r.asked() > 0 })
	r.answers(nil)
	if w.configure(t, Sink{Name: "s", URL: r.url(), Mode: ModeBatch}, Sink{Name: "new", URL: r.url() + "/new"}) != true {
		t.Error("a new sink is not reported")
	}
	began := time.Now()
	w.of("s").awaitText(t, "published 100 dropped map[] buffered 0")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("after %s: a new revision does not end pauses", took)
	}
	expectOrder(t, ModeBatch, r.events())
	if w.configure(t, Sink{Name: "s", URL: r.url()}, Sink{Name: "new", URL: r.url() + "/new"}) {
		t.Error("sinks that were there are reported as new")
	}
	if got := w.of("new").String(); got != "published 0 dropped map[] buffered 0" {
		t.Errorf("events of before went to a new sink: %s", got)
	}
}

func TestSinkAtAnotherURLIsAnotherOne(t *testing.T) {
	r, other := newReceiver(t), newReceiver(t)
	r.stop()
	w := newWorld(t, nil)
	w.configure(t, Sink{Name: "s", URL: r.url()})
	w.Publish(change("a", 1))
	w.configure(t, Sink{Name: "s", URL: other.url()})
	if got := w.of("s").String(); got != "published 0 dropped map[removed:1] buffered 0" {
		t.Error(got)
	}
	w.Publish(change("a", 2))
	if got := other.awaitEvents(1); got[0].ID() != "u-a/updated/v102" {
		t.Errorf("got %s", got)
	}
	r.start()
}

func TestTypePrefixIsThatOfThePolicy(t *testing.T) {
	r := newReceiver(t)
	w := newWorld(t, nil)
	w.Configure(Settings{TypePrefix: "com.example", Sinks: Sinks{{URL: r.url(), Addresses: []string{"loopback"}}}}, nil)
	w.Publish(change("a", 1))
	if got := r.awaitEvents(1)[0].Type(); got != "com.example.widget.updated" {
		t.Error(got)
	}
	w.of(r.address).awaitText(t, "published 1 dropped map[] buffered 0") // named by its host
}

func TestCloseSendsWhatIsLeft(t *testing.T) {
	r := newReceiver(t)
	w := newWorld(t, nil)
	r.answers(func(answer http.ResponseWriter, request *http.Request) {
		if len(w.current()) > 0 { // Close has not begun
			answer.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.answers(nil)
		r.ServeHTTP(answer, request)
	})
	w.configure(t, Sink{Name: "s", URL: r.url()})
	for i := range 25 {
		w.Publish(change(fmt.Sprint("o", i%5), i/5+1))
	}
	await.Until(t, "requests fail", func() bool { return r.asked() > 0 })
	if got := w.of("s").String(); got != "published 0 dropped map[] buffered 25" {
		t.Error(got)
	}
	w.Close()
	if got := w.of("s").String(); got != "published 25 dropped map[] buffered 0" {
		t.Error(got)
	}
	w.Close()
	w.Publish(change("a", 1)) // is ignored
}

func TestCloseEndsWithASinkThatIsAway(t *testing.T) {
	r := newReceiver(t)
	r.stop()
	w := newWorld(t, nil)
	w.configure(t, Sink{Name: "s", URL: r.url()})
	for i := range 30 {
		w.Publish(change("a", i+1))
	}
	began := time.Now()
	w.Close()
	if took := time.Since(began); took < flushTime || took > flushTime+3*time.Second {
		t.Errorf("took %s, want %s", took, flushTime)
	}
	if got := w.of("s").String(); got != "published 0 dropped map[stopped:30] buffered 0" {
		t.Error(got)
	}
	r.start()
}

// Announcements wait for room, so that changes always find some, and a sink that is away does not keep
// others from being told.
func TestAnnouncementsWaitForRoom(t *testing.T) {
	down, up := newReceiver(t), newReceiver(t)
	down.stop()
	w := newWorld(t, nil)
	w.configure(t, Sink{Name: "down", URL: down.url(), Mode: ModeBatch}, Sink{Name: "up", URL: up.url(), Mode: ModeBatch})
	const n = maxEvents/2 + 1000
	announce := func(ctx context.Context, again bool) {
		w.Announce(ctx, "c", again, n, func(i int, put func(Event)) { put(change(fmt.Sprint("o", i), 1)) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	var announcing sync.WaitGroup
	announcing.Go(func() { announce(ctx, true) })
	w.of("up").awaitText(t, fmt.Sprintf("published %d dropped map[] buffered 0", n))
	w.of("down").awaitText(t, fmt.Sprintf("published 0 dropped map[] buffered %d", maxEvents/2+1))
	for i := range 1000 {
		w.Publish(change("changed", i+1))
	}
	w.of("down").awaitText(t, fmt.Sprintf("published 0 dropped map[] buffered %d", maxEvents/2+1001))
	down.start()
	announcing.Wait()
	down.awaitEvents(n + 1000)
	cancel()

	announce(t.Context(), false) // both have been told
	w.configure(t, Sink{Name: "down", URL: down.url(), Mode: ModeBatch}, Sink{Name: "third", URL: up.url() + "/3", Mode: ModeBatch})
	announce(t.Context(), false)
	w.of("third").awaitText(t, fmt.Sprintf("published %d dropped map[] buffered 0", n))
	w.of("down").awaitText(t, fmt.Sprintf("published %d dropped map[] buffered 0", n+1000))
	announce(t.Context(), true)
	w.of("third").awaitText(t, fmt.Sprintf("published %d dropped map[] buffered 0", 2*n))
}

func TestAnnouncementEndsWithItsSinkOrContext(t *testing.T) {
	r := newReceiver(t)
	r.stop()
	w := newWorld(t, nil)
	w.configure(t, Sink{Name: "s", URL: r.url()})
	ctx, cancel := context.WithCancel(t.Context())
	for name, end := range map[string]func(){"context": cancel, "sink": func() { w.configure(t) }} {
		var announcing sync.WaitGroup
		ctx := ctx
		if name == "sink" {
			ctx = t.Context()
		}
		w.configure(t, Sink{Name: "s", URL: r.url()})
		announcing.Go(func() {
			w.Announce(ctx, name, true, maxEvents, func(i int, put func(Event)) { put(change(fmt.Sprint("o", i), 1)) })
		})
		await.Until(t, "the buffer is half full", func() bool {
			return strings.Contains(w.of("s").String(), fmt.Sprint("buffered ", maxEvents/2+1))
		})
		end()
		announcing.Wait()
	}
	r.start()
}

func TestCredentialOfASinkIsSent(t *testing.T) {
	logs := logtest.New(hclog.Trace)
	r := newReceiver(t)
	w := newWorld(t, logs.Logger)
	settings := Settings{Sinks: Sinks{{Name: "s", URL: r.url() + "?key=hunter2", SecretRef: &SecretRef{Namespace: "ns", Name: "s"}, Addresses: []string{"loopback"}}}}
	if problems := settings.problems(nil); problems != nil {
		t.Fatal(problems)
	}
	w.Configure(settings, func(context.Context, SecretRef) (map[string][]byte, error) {
		return map[string][]byte{"token": []byte("hunter3")}, nil
	})
	w.Publish(change("a", 1))
	r.awaitEvents(1)
	if got := r.requests[0].Header.Get("Authorization"); got != "Bearer hunter3" || r.requests[0].URL.RawQuery != "key=hunter2" {
		t.Errorf("sent to %s with %q", r.requests[0].URL, got)
	}
	r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	w.Publish(change("a", 2))
	for seen := false; !seen; {
		line := logs.Next(t)
		seen = line.Level == hclog.Warn
		if text := fmt.Sprint(line); strings.Contains(text, "hunter") {
			t.Errorf("a secret is logged: %s", text)
		}
	}
	r.answers(nil)
	r.awaitEvents(2)
}

// Everything at once, for the race detector: events of many controllers, revisions, announcements.
func TestPublisherIsConcurrent(t *testing.T) {
	r := newReceiver(t)
	w := newWorld(t, nil)
	ctx := within(t, time.Second)
	var running sync.WaitGroup
	for c := range 4 {
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				w.Publish(change(fmt.Sprint("o", c), i+1))
			}
		})
		running.Go(func() {
			for ctx.Err() == nil {
				w.Announce(ctx, fmt.Sprint("c", c), c%2 == 0, 100, func(i int, put func(Event)) { put(change(fmt.Sprint("o", c, i), 1)) })
				<-time.After(time.Millisecond)
			}
		})
	}
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			sinks := []Sink{{Name: "s", URL: r.url(), Mode: ModeBatch}, {Name: "t", URL: r.url() + "/t"}}
			w.configure(t, sinks[:i%3]...)
			<-time.After(10 * time.Millisecond)
		}
	})
	running.Wait()
	w.configure(t, Sink{Name: "s", URL: r.url(), Mode: ModeBatch}) // which the last revision may not have
	w.Publish(change("last", 1))
	await.Until(t, "events arrive", func() (arrived bool) {
		c := w.of("s")
		c.change(func() { arrived = c.published > 0 })
		return arrived
	})
	w.Close()
	if c := w.of("s"); c.buffered != 0 {
		t.Error(c)
	}
}
