package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// writtenWorld has a plugin that writes widgets.
type writtenWorld struct {
	t      *testing.T
	server refusingServer
	cache  *cache.Cache
	p      plugin
}

func newWrittenWorld(t *testing.T) *writtenWorld {
	server, url := startRefusingServer(t)
	c, err := cache.New(cache.Config{REST: &rest.Config{Host: url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return &writtenWorld{t: t, server: server, cache: c}
}

// acquire acquires the informer of what the plugin writes.
func (w *writtenWorld) acquire(scopes ...scope.Scope) *cache.Informer {
	w.t.Helper()
	byKind, err := acquireWritten(w.t.Context(), w.cache, &scope.Plugin{Written: scopes})
	if err != nil {
		w.t.Fatal(err)
	}
	w.p.written.replace(byKind)
	return byKind[widgets]
}

func (w *writtenWorld) store() effectStore {
	return effectStore{w.cache, "p", &w.p.informers, &w.p.ownWrites, &w.p.written}
}

// write records that the plugin has written so many widgets.
func (w *writtenWorld) write(n int) {
	w.t.Helper()
	own := controllerCache{cache: w.cache, primaries: primariesOf(&w.p), informers: &w.p.informers, ownWrites: &w.p.ownWrites, written: &w.p.written}
	for n := range n {
		o, err := object.Parse(fmt.Appendf(nil, `{"metadata":{"namespace":"a","name":"w%d","uid":"u%d","resourceVersion":"2"}}`, n, n), widgets)
		if err != nil {
			w.t.Fatal(err)
		}
		own.Wrote(o.Key(), effect.Write{Kind: widgets, Key: o.Key(), UID: o.UID, ResourceVersion: "2", Object: o})
	}
	if own.Full() {
		w.t.Error("runs have to wait for what the plugin only writes")
	}
}

func (w *writtenWorld) expect(name string, want effect.Presence) {
	w.t.Helper()
	o, got := w.store().Get(widgets, object.Key{Namespace: "a", Name: name})
	if got != want || (o != nil) != (want == effect.Present) {
		w.t.Errorf("%s is %d, want %d: %v", name, got, want, o)
	}
}

// The host may lack the right to list a kind that a plugin only writes. What no informer
// will ever show must not fill the writes that wait for one, or no run could begin.
func TestWritesOfAKindThatCannotBeListedAreNotKept(t *testing.T) {
	w := newWrittenWorld(t)
	w.server.refuse()
	informer := w.acquire(scope.Scope{Kind: widgets, MetadataOnly: true})
	await.Until(t, "the informer fails", func() bool { return informer.Err() != nil })
	w.write(200)
	if n := w.p.written.own.Len(); n != 0 {
		t.Errorf("%d writes wait for an informer that shows nothing", n)
	}
	if got := w.p.informers.problems(); len(got) != 0 {
		t.Errorf("the plugin cannot follow what it only writes: %q", got)
	}
	w.expect("w", effect.Unknown)
}

// An informer that has lost its rights shows what was there. Effects must not be decided by
// that, and no run may wait for it.
func TestAnInformerOfWritesThatHasFailedIsNotUsed(t *testing.T) {
	w := newWrittenWorld(t)
	informer := w.acquire(scope.Scope{Kind: widgets, MetadataOnly: true})
	await.Until(t, "the informer has synced", informer.HasSynced)
	w.write(3)
	w.expect("w", effect.Present)
	w.expect("w0", effect.Present) // as the plugin has written it
	w.expect("none", effect.Absent)
	w.server.refuse()
	await.Until(t, "the informer fails", func() bool { return informer.Err() != nil })
	w.expect("w", effect.Unknown)
	w.expect("w0", effect.Unknown)
	w.write(200)
	if n := w.p.written.own.Len(); n != 200 {
		t.Errorf("%d writes are kept for when the informer is back", n)
	}
	if got := w.p.informers.problems(); len(got) != 0 {
		t.Errorf("the plugin cannot follow what it only writes: %q", got)
	}
	w.write(10_000)
	if n := w.p.written.own.Len(); n != 0 || w.p.written.synced(widgets) != nil {
		t.Errorf("%d writes are kept, and the informer may be used without others", n)
	}
	w.write(10)
	if n := w.p.written.own.Len(); n != 0 {
		t.Errorf("then %d writes are kept", n)
	}
	if w.acquire(scope.Scope{Kind: widgets, MetadataOnly: true}); w.p.written.synced(widgets) == nil {
		t.Error("the informer is not used by the next revision")
	}
}

// What a plugin selects of a kind is not all that it writes of it.
func TestWhatIsWrittenAndNotSelectedIsThere(t *testing.T) {
	w := newWrittenWorld(t)
	wide, err := w.cache.Acquire(t.Context(), scope.All(widgets)) // the server does not select
	if err == nil {
		err = wide.WaitForSync(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &abi.Manifest{Name: "p", Controllers: []abi.Controller{{
		Name: "c", For: gadgets.All(), Writes: []abi.Kind{widgets},
		Reads: []abi.Followed{{Kind: widgets, Selector: abi.Selector{LabelSelector: "app"}}},
	}}}
	follows, err := scope.OfManifest(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	selected, err := w.cache.Acquire(t.Context(), follows.Controllers[0].Reads[widgets][0])
	if err != nil {
		t.Fatal(err)
	}
	w.p.informers.replace(map[abi.Kind]*cache.Informer{widgets: selected})
	w.expect("none", effect.Unselected)
	w.acquire(follows.Written...)
	w.expect("none", effect.Absent)
	o, shown := w.store().Get(widgets, object.Key{Namespace: "a", Name: "w"})
	if shown != effect.Unselected || o == nil || !o.MetadataOnly {
		t.Errorf("the object is %d: %v", shown, o)
	}
	if all := slices.Collect(w.store().All(widgets)); len(all) != 1 {
		t.Errorf("there are %v", all)
	}
	w.write(1)
	if o, shown := w.store().Get(widgets, object.Key{Namespace: "a", Name: "w0"}); shown != effect.Unselected || o == nil || o.ResourceVersion != "2" {
		t.Errorf("what the plugin has written is %d: %v", shown, o)
	}
}

// At a start nothing waits for the list of what is only written. The fields of a primary
// that has gone meanwhile are released when it is there.
func TestSharersAreFoundWhenTheListIsLate(t *testing.T) {
	listed, released := make(chan struct{}), make(chan struct{}, 1)
	annotations := make(chan string, 1) // of the object that the primary shares
	var items string
	url := startServer(t, func(out http.ResponseWriter, request *http.Request) bool {
		switch {
		case request.URL.Path == "/apis/test.dev/v1":
			fmt.Fprint(out, gadgetResources)
		case request.Method == http.MethodPatch:
			body, _ := io.ReadAll(request.Body)
			set, _ := rawjson.Lookup(body, "metadata")
			set, _ = rawjson.Lookup(set, "annotations")
			annotations <- string(set)
			fmt.Fprint(out, `{"metadata":{"name":"g","namespace":"a","uid":"g","resourceVersion":"1"}}`)
		case strings.HasSuffix(request.URL.Path, "/gadgets/g") && items != "":
			select {
			case released <- struct{}{}:
			default:
			}
			deny(out, http.StatusNotFound, "NotFound")
		case strings.HasSuffix(request.URL.Path, "/gadgets/g"), strings.HasSuffix(request.URL.Path, "/widgets/gone"):
			deny(out, http.StatusNotFound, "NotFound")
		case strings.HasSuffix(request.URL.Path, "/gadgets") && request.URL.Query().Get("watch") == "":
			select {
			case <-listed:
			case <-request.Context().Done():
			}
			fmt.Fprintf(out, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[%s]}`, items)
		default:
			return false
		}
		return true
	})
	r := newRunner(t, url, "")
	declared := abi.Controller{Name: "c", For: widgets.All(), Writes: []abi.Kind{gadgets}}
	before, err := effect.New(effect.Config{
		Planner: effect.Planner{Plugin: "p", Store: effectStore{r.Cache, "p", &informers{}, &cache.OwnWrites{}, &written{}}, Allow: rights.Everything()},
		REST:    r.Cluster, Recorder: noEvents{},
	})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := object.Parse([]byte(`{"apiVersion":"test.dev/v1","kind":"Widget","metadata":{"name":"gone","namespace":"a","uid":"u"}}`), widgets)
	if err != nil {
		t.Fatal(err)
	}
	_, failure := before.PerformIntents(t.Context(), effect.Target{Controller: &declared, Object: gone}, &abi.Result{
		Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"test.dev/v1","kind":"Gadget","metadata":{"name":"g"}}`)}},
	})
	if failure != nil {
		t.Fatal(failure)
	}
	items = `{"metadata":{"name":"g","namespace":"a","uid":"g","resourceVersion":"1","annotations":` + <-annotations + `}}`

	policy := config.Policy{Allow: rights.Everything()}
	policy.Limits.Concurrency = 1
	if err := r.Start(t.Context(), &Revision{
		Revision: events.Revision{Plugin: "p", Number: 1, Digest: "d"}, Policy: policy,
		Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{declared}},
	}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	close(listed)
	select {
	case <-released:
	case <-time.After(await.Limit):
		t.Error("nobody has looked at the object")
	}
}

// The start of a revision that ends while the API server is asked for a kind must not go on
// without it.
func TestAStartThatIsInterruptedDoesNotGoOnWithoutWhatIsWritten(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	url := startServer(t, func(out http.ResponseWriter, request *http.Request) bool {
		if request.URL.Path == "/apis/other.dev/v1" {
			interrupt()
			<-request.Context().Done()
			return true
		}
		return false
	})
	r := newRunner(t, url, "")
	policy := config.Policy{Allow: rights.Everything()}
	policy.Limits.Concurrency = 1
	err := r.Start(ctx, &Revision{
		Revision: events.Revision{Plugin: "p", Number: 1, Digest: "d"}, Policy: policy,
		Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{
			{Name: "c", For: widgets.All(), Writes: []abi.Kind{{APIVersion: "other.dev/v1", Kind: "Other"}}},
		}},
	}, func() error { return nil })
	if !errors.Is(err, context.Canceled) || r.running("p") != nil {
		t.Errorf("the start ended with %v, and the plugin runs: %t", err, r.running("p") != nil)
	}
}
