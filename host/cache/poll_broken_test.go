package cache

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/logtest"
)

// refuse is a handler that responds with a Status.
func refuse(code int, reason metav1.StatusReason) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, code, reason) }
}

// text is a handler that responds with a text.
func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

// polling returns a peer with so many objects, and a cache and informer of them.
func polling(t *testing.T, n int, config Config) (*pollPeer, *Cache, *Informer) {
	p := newPollPeer(t)
	for i := range n {
		p.put(fmt.Sprintf("s%05d", i), versioned(i, 1, 1), "")
	}
	c := p.open(config)
	return p, c, p.acquire(c, scope.All(polled))
}

// A list that ends in the middle has not seen what comes after.
func TestAnIncompletePollChangesNothing(t *testing.T) {
	logs := logtest.New(hclog.Info)
	p, c, i := polling(t, 2000, Config{Logger: logs.Logger})
	r := record(t, i)
	r.receivedAll(2000)
	p.breaks(func(page int, _ *http.Request) http.HandlerFunc {
		if page == 3 {
			return refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		}
		return nil
	})
	p.put("s00000", versioned(0, 2, 2), "")
	p.remove("s01999")
	p.received()
	for range 3 {
		p.after(c, interval)
	}
	r.expectNone()
	if i.Err() == nil || len(i.List("", nil)) != 2000 || c.Following()[0].Working {
		t.Errorf("%v, %d objects", i.Err(), len(i.List("", nil)))
	}
	p.breaks(nil)
	p.after(c, interval)
	if got := r.receivedAll(2); got[0] != "delete ns/s01999" || got[1] != "update ns/s00000" {
		t.Errorf("after the outage: %v", got)
	}
	if i.Err() != nil || len(logs.All()) != 2 { // it has failed, and recovered
		t.Errorf("%v, logged %v", i.Err(), logs.All())
	}
}

// Pages of a list expire that takes too long: the next list has one page.
func TestAPollWhosePagesExpireIsRepeatedWithoutPages(t *testing.T) {
	p, c, i := polling(t, 1200, Config{})
	p.breaks(func(page int, _ *http.Request) http.HandlerFunc {
		if page > 1 {
			return refuse(http.StatusGone, metav1.StatusReasonExpired)
		}
		return nil
	})
	p.received()
	p.remove("s00001")
	p.after(c, interval)
	if got := p.received(); len(got) != 2 || i.Err() == nil || len(i.List("", nil)) != 1200 {
		t.Fatalf("%v, %v", got, i.Err())
	}
	p.after(c, interval)
	if got := p.received(); len(got) != 1 || got[0].Has("limit") || i.Err() != nil || len(i.List("", nil)) != 1199 {
		t.Fatalf("%v, %v", got, i.Err())
	}
	p.breaks(nil)
	p.after(c, interval)
	if got := p.received(); len(got) != 3 {
		t.Errorf("requests after that: %v", got)
	}
}

func TestPollsThatFailBackOff(t *testing.T) {
	p, c, _ := polling(t, 1, Config{})
	p.breaks(func(int, *http.Request) http.HandlerFunc {
		return refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	})
	p.after(c, interval) // fails
	for _, ms := range []int{5, 10, 20, 20, 20} {
		pause := time.Duration(ms) * time.Millisecond
		n := lists(c)
		p.idle()
		p.clock.Step(pause - time.Nanosecond)
		p.idle()
		if lists(c) != n {
			t.Fatalf("a list came before %s", pause)
		}
		p.after(c, time.Nanosecond)
	}
	p.breaks(nil)
	p.after(c, 20*time.Millisecond)
	n := lists(c)
	p.clock.Step(DefaultPollInterval - time.Nanosecond)
	if p.idle(); lists(c) != n {
		t.Error("a list came before the interval was over")
	}
	p.breaks(func(int, *http.Request) http.HandlerFunc {
		return refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	})
	p.after(c, DefaultPollInterval/10+time.Nanosecond)
	p.after(c, 5*time.Millisecond) // the backoff begins anew
}

// An object that is changed during a list may move to a later page.
func TestAnObjectOnTwoPagesIsOne(t *testing.T) {
	p, c, i := polling(t, 600, Config{})
	r := record(t, i)
	r.receivedAll(600)
	p.breaks(func(page int, _ *http.Request) http.HandlerFunc {
		switch page {
		case 1:
			return text(listOf("", "500", sampleText("a", versioned(7, 1, 1), ""), sampleText("b", "", "")))
		default:
			return text(listOf("", "", sampleText("a", versioned(7, 2, 2), "")))
		}
	})
	p.after(c, interval)
	if got := r.receivedAll(602); got[0] != "add ns/a" || got[1] != "add ns/b" {
		t.Errorf("got %v", got[:2])
	}
	if o, _ := i.Get(keyOf("a")); o.ResourceVersion != "2" {
		t.Errorf("the version is %s", o.ResourceVersion)
	}
}

// What an API that is no Kubernetes API server may respond. Every one of these must leave
// the objects as they are, and be a failure.
func TestWrongResponsesToAPollChangeNothing(t *testing.T) {
	for name, response := range map[string]http.HandlerFunc{
		"list of another kind":    text(`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`),
		"list of another version": text(`{"kind":"SampleList","apiVersion":"poll.dev/v2","metadata":{},"items":[]}`),
		"list without kind":       text(`{"metadata":{},"items":[]}`),
		"item of another kind":    text(listOf("", "", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"ns"}}`)),
		"one object":              text(sampleText("a", "", "")),
		"object with items":       text(sampleText("a", "", `,"items":[]`)),
		"table":                   text(`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"rows":[]}`),
		"status":                  text(status(http.StatusOK, "")),
		"success":                 text(`{"kind":"Status","apiVersion":"v1","status":"Success"}`),
		"html":                    text(`<html>`),
		"nothing":                 text(``),
		"null":                    text(`null`),
		"half of it":              text(listOf("", "", sampleText("a", "", ""))[:90]),
		"item without metadata":   text(listOf("", "", `{"value":"1"}`)),
		"item without name":       text(listOf("", "", `{"metadata":{"namespace":"ns"}}`)),
		"item with a path":        text(listOf("", "", `{"metadata":{"name":"../x","namespace":"ns"}}`)),
		"item without namespace":  text(listOf("", "", `{"metadata":{"name":"x"}}`)),
		"items that are numbers":  text(listOf("", "", "1", "2")),
		"redirect to itself":      func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) },
		"not found":               refuse(http.StatusNotFound, metav1.StatusReasonNotFound),
		"gone":                    refuse(http.StatusGone, metav1.StatusReasonExpired),
		"not acceptable":          refuse(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable),
		"closed":                  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			p, c, i := polling(t, 2, Config{})
			r := record(t, i)
			r.receivedAll(2)
			p.breaks(func(int, *http.Request) http.HandlerFunc { return response })
			p.after(c, interval)
			r.expectNone()
			if i.Err() == nil || len(i.List("", nil)) != 2 {
				t.Errorf("%v, %d objects", i.Err(), len(i.List("", nil)))
			}
			p.breaks(nil)
			p.remove("s00001")
			p.after(c, interval)
			if r.expect("delete ns/s00001"); i.Err() != nil {
				t.Error(i.Err())
			}
		})
	}
}

// Servers in Go respond with null for a list without objects, or leave it out.
func TestEmptyListsAreLists(t *testing.T) {
	for _, body := range []string{
		`{"kind":"SampleList","apiVersion":"poll.dev/v1","metadata":{},"items":null}`,
		`{"kind":"SampleList","apiVersion":"poll.dev/v1","metadata":{}}`,
		`{"kind":"SampleList","apiVersion":"poll.dev/v1"}`,
		`{"kind":"List","apiVersion":"v1","items":[]}`,
	} {
		p, c, i := polling(t, 1, Config{})
		p.breaks(func(int, *http.Request) http.HandlerFunc { return text(body) })
		p.after(c, interval)
		if i.Err() != nil || len(i.List("", nil)) != 0 {
			t.Errorf("%s: %v, %d objects", body, i.Err(), len(i.List("", nil)))
		}
	}
}

func TestAServerWithoutPagesIsPolled(t *testing.T) {
	p := newPollPeer(t)
	for n := range 1200 {
		p.put(fmt.Sprintf("s%d", n), "", "")
	}
	p.breaks(func(_ int, r *http.Request) http.HandlerFunc { // ignores limit
		return func(w http.ResponseWriter, _ *http.Request) { p.page(w, 0, nil) }
	})
	i := p.acquire(p.open(Config{}), scope.All(polled))
	if n := len(i.List("", nil)); n != 1200 || len(p.received()) != 1 {
		t.Errorf("%d objects", n)
	}
}

func TestAListWithoutEndEnds(t *testing.T) {
	page := 0
	for name, test := range map[string]struct {
		next     func() string
		requests int
	}{
		"the same token":     {func() string { return "500" }, 2},
		"always a new token": {func() string { page++; return fmt.Sprint("500-", page) }, maxPollPages},
	} {
		t.Run(name, func(t *testing.T) {
			p, c, i := polling(t, 1, Config{})
			p.breaks(func(int, *http.Request) http.HandlerFunc {
				return text(listOf("", test.next(), sampleText("a", "", "")))
			})
			p.received()
			p.after(c, interval)
			if n := len(p.received()); n != test.requests {
				t.Errorf("%d requests", n)
			}
			if i.Err() == nil || names(i.List("", nil)) != "ns/s00000" {
				t.Errorf("%v: %s", i.Err(), names(i.List("", nil)))
			}
		})
	}
}

func TestAHugeObjectIsPolled(t *testing.T) {
	p, c, i := polling(t, 1, Config{})
	p.put("huge", versioned(9, 9, 1), `,"data":"`+strings.Repeat("x", 24<<20)+`"`)
	p.after(c, interval)
	if o, ok := i.Get(keyOf("huge")); !ok || len(o.Raw) < 24<<20 {
		t.Errorf("%v", i.Err())
	}
}

func TestAListWithoutResponseEnds(t *testing.T) {
	p, c, i := polling(t, 1, Config{})
	p.idle()
	c.config.StallAfter = time.Second // only of the list that has no response
	released := make(chan struct{})
	defer close(released)
	p.breaks(func(_ int, r *http.Request) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			p.mu.Unlock()
			defer p.mu.Lock()
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}
	})
	p.after(c, interval)
	if err := i.Err(); err == nil || !strings.Contains(err.Error(), errStalled.Error()) {
		t.Errorf("got %v", err)
	}
}

// A cache that is stopped in the middle of a list, or of a pause, does not wait for its end.
func TestAPollerStopsAtOnce(t *testing.T) {
	p, c, _ := polling(t, 1, Config{})
	arrived := make(chan struct{})
	p.breaks(func(_ int, r *http.Request) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			close(arrived)
			p.mu.Unlock()
			defer p.mu.Lock()
			<-r.Context().Done()
		}
	})
	p.idle()
	p.clock.Step(interval)
	receive(t, arrived)
	stopped := make(chan struct{})
	go func() { c.Stop(); close(stopped) }()
	receive(t, stopped)
	_, other, _ := polling(t, 1, Config{})
	stopped = make(chan struct{})
	go func() { other.Stop(); close(stopped) }()
	receive(t, stopped)
	await.Until(t, "the counts stay", func() bool { return lists(other) == 0 })
}
