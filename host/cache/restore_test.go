package cache

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktest "k8s.io/utils/clock/testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/object"
)

// restorable is a peer with an informer that has seen it at two states.
type restorable struct {
	*peer
	*recorder
	informer *Informer
	logs     *logtest.Log
	noticed  atomic.Int32 // calls of Hooks.Restored
	saved    saved
	last     string // the version of before the restore
}

// newRestorable saves the state with a/changed, a/removed and a/same.
func newRestorable(t *testing.T, config Config) *restorable {
	r := &restorable{peer: newPeer(t), logs: logtest.New(hclog.Info)}
	r.put("a", "changed")
	r.put("a", "removed")
	r.put("a", "same")
	r.saved = r.save()
	config.Logger = r.logs.Logger
	restored := func(kind abi.Kind) {
		if kind != widget {
			t.Errorf("%s was restored", kind)
		}
		r.noticed.Add(1)
	}
	r.informer = acquire(t, open(t, r.peer, config, Hooks{Restored: restored}))
	r.recorder = record(t, r.informer)
	r.expect("initial a/changed", "initial a/removed", "initial a/same")
	r.put("a", "added")
	r.remove("a", "removed")
	r.last = r.put("a", "changed", `"labels":{"after":"save"}`)
	r.expect("add a/added", "delete a/removed", "update a/changed")
	return r
}

// expectRestored expects that the store has the saved state and follows the server
// from there.
func (r *restorable) expectRestored(t *testing.T) {
	t.Helper()
	got := []string{receive(t, r.events), receive(t, r.events), receive(t, r.events)}
	slices.Sort(got)
	if want := []string{"add a/removed", "lose a/added", "update a/changed"}; !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
	r.put("a", "later")
	r.expect("add a/later")
	r.expectNone()
	if o, ok := r.informer.Get(object.Key{Namespace: "a", Name: "changed"}); !ok || len(o.Labels) != 0 {
		t.Errorf("a/changed is %v", o)
	}
	if r.noticed.Load() != 1 || r.informer.parts[0].Restores() != 1 || r.informer.parts[0].cache.Stats()[0].Restores != 1 {
		t.Errorf("Restored was called %d times, Restores %d", r.noticed.Load(), r.informer.parts[0].Restores())
	}
	r.logs.ExpectNext(t, hclog.Warn, "from", r.last)
	r.logs.ExpectNone(t)
}

// A server that was restored accepts a watch from a version that it has not
// reached yet, and is silent.
func TestRestoredServerIsListedAgain(t *testing.T) {
	for name, restored := range map[string]int{
		"to an older version":                           103,
		"and its version has reached that of the cache": 200,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRestorable(t, Config{})
			before := len(r.received())
			r.restore(r.saved, restored)
			r.expectRestored(t)
			// The server would wait until it has reached a version.
			for _, q := range r.received()[before:] {
				if isWatchList(q) && q.Get("resourceVersion") != "" {
					t.Errorf("listed from version %s", q.Get("resourceVersion"))
				}
			}
		})
	}
}

// The server is replaced between two requests, the connection of the second one waits for
// the new server. What was read from the old one says nothing about it.
func TestServerThatIsRestoredAsAWatchBeginsIsListedAgain(t *testing.T) {
	r := newRestorable(t, Config{})
	var once sync.Once
	r.set(true, func(req *http.Request) http.HandlerFunc {
		if isRewatch(req.URL.Query()) {
			once.Do(func() { r.replace(r.saved, 103) })
		}
		return nil
	})
	r.cutWatches()
	r.expectRestored(t)
}

// A stream that begins with all objects is one of a state that is not older than a
// version, for which the restored server waits.
func TestServerThatIsRestoredAsAListBeginsIsListedAgain(t *testing.T) {
	r := newRestorable(t, Config{})
	var failed, restored sync.Once
	r.set(true, func(req *http.Request) (handler http.HandlerFunc) {
		q := req.URL.Query()
		switch {
		case isRewatch(q):
			failed.Do(func() {
				handler = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
			})
		case isWatchList(q) && q.Get("resourceVersion") != "":
			restored.Do(func() { r.replace(r.saved, 103) })
			handler = func(w http.ResponseWriter, req *http.Request) {
				w.WriteHeader(http.StatusOK)
				w.(http.Flusher).Flush()
				<-req.Context().Done()
			}
		}
		return handler
	})
	r.cutWatches()
	r.logs.ExpectNext(t, hclog.Warn, "reason", string(metav1.StatusReasonInternalError))
	r.logs.ExpectNext(t, hclog.Info, "after", string(metav1.StatusReasonInternalError))
	r.expectRestored(t)
}

// etcdutl can increase the version of what it restores and make all older ones
// expire.
func TestRestoreWithIncreasedVersionIsNoticed(t *testing.T) {
	r := newRestorable(t, Config{})
	r.set(true, func(req *http.Request) http.HandlerFunc {
		if !isCheck(req.URL.Query()) && !isRewatch(req.URL.Query()) {
			return nil
		}
		return func(w http.ResponseWriter, _ *http.Request) {
			if isCheck(req.URL.Query()) {
				fmt.Fprintln(w, `{"kind":"WidgetList","apiVersion":"example.dev/v1","metadata":{"resourceVersion":"1000000000"},"items":[]}`)
				return
			}
			writeStatus(w, http.StatusGone, metav1.StatusReasonExpired)
		}
	})
	r.restore(r.saved, 1_000_000_000)
	r.expectRestored(t)
}

// A replica of the API server that lags behind refuses versions that it has not
// reached, but not a consistent read.
func TestLaggingReplicaIsNoRestore(t *testing.T) {
	r := newRestorable(t, Config{})
	var refused atomic.Bool
	r.set(true, func(req *http.Request) http.HandlerFunc {
		q := req.URL.Query()
		switch {
		case isRewatch(q):
			return func(w http.ResponseWriter, _ *http.Request) {
				writeStatus(w, http.StatusGone, metav1.StatusReasonExpired)
			}
		case isWatchList(q) && q.Get("resourceVersion") != "":
			refused.Store(true)
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusGatewayTimeout)
				fmt.Fprintln(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504,`+
					`"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}}`)
			}
		}
		return nil
	})
	r.cutWatches()
	await.Until(t, "the replica refuses a version", refused.Load)
	r.set(true, nil)
	r.put("a", "later")
	r.expect("add a/later")
	if r.informer.parts[0].Restores() != 0 || r.informer.Err() != nil {
		t.Errorf("%d restores, %v", r.informer.parts[0].Restores(), r.informer.Err())
	}
	r.logs.ExpectNone(t)
}

// The versions of a server are not always numbers.
func TestVersionsThatCannotBeComparedAreNoRestore(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	p.set(true, func(req *http.Request) http.HandlerFunc {
		if !isCheck(req.URL.Query()) {
			return nil
		}
		return func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, `{"kind":"WidgetList","apiVersion":"example.dev/v1","metadata":{},"items":[{"metadata":{"name":"x","namespace":"a","uid":"uid-x","resourceVersion":"v0"}}]}`)
		}
	})
	i := acquire(t, open(t, p, Config{}))
	p.put("a", "y") // a watch that ends without an event counts as failed
	await.Until(t, "the event arrives", func() bool { return i.parts[0].store.get(object.Key{Namespace: "a", Name: "y"}) != nil })
	p.cutWatches()
	p.next(isRewatch)
	p.next(isCheck)
	if i.parts[0].Restores() != 0 {
		t.Errorf("%d restores", i.parts[0].Restores())
	}
}

// A server without bookmarks is silent whenever nothing changes.
func TestSilentWatchWithoutBookmarksIsContinued(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	fake := clocktest.NewFakeClock(time.Now())
	i := acquire(t, open(t, p, Config{Clock: fake}))
	p.next(isWatchList)
	r := record(t, i)
	r.expect("initial a/x")
	for _, name := range []string{"first", "second"} {
		p.freezeWatches()
		p.put("a", name)
		p.nextAfter(isRewatch, func() { fake.Step(5 * time.Second) })
		r.expect("add a/" + name)
	}
	if lists := slices.DeleteFunc(p.received(), isRewatch); len(lists) != 1 {
		t.Errorf("listed again: %v", lists)
	}
}
