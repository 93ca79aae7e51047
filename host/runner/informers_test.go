package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
)

// refusingServer is an API server that serves one suspended widget until refuse is called.
type refusingServer struct {
	refused chan struct{}
	refuse  func()
}

func startRefusingServer(t *testing.T) (s refusingServer, url string) {
	s.refused = make(chan struct{})
	s.refuse = sync.OnceFunc(func() { close(s.refused) })
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(s.refuse) // ends the watches, which Close waits for
	return s, server.URL
}

// startServer starts an API server of Widgets that refuses nothing. answers sees each request
// first and reports whether it has answered it.
func startServer(t *testing.T, answers func(http.ResponseWriter, *http.Request) bool) (url string) {
	s, _ := startRefusingServer(t)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		if !answers(out, request) {
			s.ServeHTTP(out, request)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(s.refuse) // ends the watches
	return server.URL
}

const widgetResources = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"test.dev/v1","resources":[` +
	`{"name":"widgets","namespaced":true,"kind":"Widget","verbs":["get","list","watch"]}]}`

// ServeHTTP implements http.Handler.
func (s refusingServer) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	query := request.URL.Query()
	if request.URL.Path == "/apis/test.dev/v1" {
		fmt.Fprint(out, widgetResources)
		return
	}
	select {
	case <-s.refused:
		deny(out, http.StatusForbidden, "Forbidden")
		return
	default:
	}
	switch {
	case query.Get("sendInitialEvents") != "": // this server does not stream lists
		deny(out, http.StatusUnprocessableEntity, "Invalid")
	case query.Get("watch") != "":
		out.(http.Flusher).Flush()
		select {
		case <-s.refused:
		case <-request.Context().Done():
		}
	default:
		fmt.Fprint(out, `{"kind":"WidgetList","apiVersion":"test.dev/v1","metadata":{"resourceVersion":"1"},"items":[`+
			`{"metadata":{"name":"w","namespace":"a","uid":"u","resourceVersion":"1","annotations":{"reconcile.thole.dev/suspend":"true"}}}]}`)
	}
}

func deny(out http.ResponseWriter, code int, reason string) {
	out.WriteHeader(code)
	fmt.Fprintf(out, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"not for you","code":%d}`, reason, code)
}

// allOf is what a plugin follows that reads all of a kind.
func allOf(kind abi.Kind) *scope.Plugin {
	return &scope.Plugin{Followed: []scope.Scope{scope.All(kind)}}
}

// primariesOf returns the widgets as those that a controller of a plugin reconciles.
func primariesOf(p *plugin) *atomic.Pointer[cache.Informer] {
	var primaries atomic.Pointer[cache.Informer]
	primaries.Store(p.informers.get(widgets))
	return &primaries
}

// unconnected returns a cache that follows nothing.
func unconnected(t *testing.T) *cache.Cache {
	t.Helper()
	c, err := cache.New(cache.Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// followWidgets returns a cache with the informer of widgets, which has synced.
func followWidgets(t *testing.T, config cache.Config, hooks cache.Hooks) (*cache.Cache, map[abi.Kind]*cache.Informer) {
	t.Helper()
	c, err := cache.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	c.Subscribe(hooks)
	byKind, err := acquireInformers(t.Context(), c, allOf(widgets), &informers{}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return c, byKind
}

// Otherwise a right that was taken away would keep a policy from being narrowed, or
// bad code from being rolled back, while the old code keeps running.
func TestInformersOfTheRunningRevisionAreNotWaitedFor(t *testing.T) {
	server, url := startRefusingServer(t)
	c, err := cache.New(cache.Config{REST: &rest.Config{Host: url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	kinds, running := allOf(widgets), &informers{}
	first, err := acquireInformers(t.Context(), c, kinds, running, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	running.replace(first)
	server.refuse()
	await.Until(t, "the informer fails", func() bool { return first[widgets].Err() != nil })

	r := New(Config{Cache: unconnected(t)})
	r.plugins["p"] = &plugin{}
	r.plugins["p"].informers.replace(first)
	if got := r.Statuses()["p"].CannotFollow; len(got) != 1 || got[0] != "test.dev/v1 Widget: not for you" {
		t.Errorf("the problems are %q", got)
	}
	if got := r.Statuses()["q"].CannotFollow; len(got) != 0 {
		t.Errorf("the problems of a plugin that does not run are %q", got)
	}
	for n := range 10_000 {
		o, err := object.Parse(fmt.Appendf(nil, `{"metadata":{"namespace":"a","name":"%d","resourceVersion":"1000"}}`, n), widgets)
		if err != nil {
			t.Fatal(err)
		}
		r.plugins["p"].ownWrites.Wrote(first[widgets], o)
	}
	if s := r.Statuses()["p"]; s.WaitsFor != "informers that are late: they do not show 10000 objects yet that it has written" || s.OwnWrites != 10_000 {
		t.Errorf("with 10,000 writes that the informer does not show: %+v", s)
	}

	again, err := acquireInformers(t.Context(), c, kinds, running, func(string) {})
	if err != nil {
		t.Errorf("another revision of the plugin: %v", err)
	}
	release(again)
	_, err = acquireInformers(t.Context(), c, kinds, &informers{}, func(string) {})
	if _, waits := errors.AsType[*catalog.WaitError](err); !waits {
		t.Errorf("another plugin: %v", err)
	}
}

// Otherwise an effect would be decided on what the plugin has replaced itself.
func TestEffectsFindWhatThePluginWrote(t *testing.T) {
	_, url := startRefusingServer(t)
	c, byKind := followWidgets(t, cache.Config{REST: &rest.Config{Host: url}}, cache.Hooks{})
	var p plugin
	p.informers.replace(byKind)
	store := effectStore{c, "p", &p.informers, &p.ownWrites, &p.written}
	key := object.Key{Namespace: "a", Name: "w"}
	version := func() string {
		switch o, shown := store.Get(widgets, key); shown {
		case effect.Present:
			return o.ResourceVersion
		case effect.Absent:
			return "none"
		default:
			return "not synced"
		}
	}
	before := version()
	own := controllerCache{cache: c, primaries: primariesOf(&p), informers: &p.informers, ownWrites: &p.ownWrites, written: &p.written}
	shown, _ := own.Get(key)
	written := *shown
	written.ResourceVersion = "2"
	own.Wrote(key, effect.Write{Kind: widgets, Key: key, UID: "u", ResourceVersion: "2", Object: &written})
	after := version()
	own.Wrote(key, effect.Write{Kind: widgets, Key: key, UID: "u", ResourceVersion: "2"})
	if got, want := [3]string{before, after, version()}, [3]string{"1", "2", "none"}; got != want {
		t.Errorf("found the versions %q, want %q", got, want)
	}
}

type eventCounter int

// Event implements [effect.Recorder].
func (n *eventCounter) Event(runtime.Object, string, string, string) { *n++ }

// unlocked is a queue whose keys are added while the runner is not locked: every wake-up
// of every plugin waits for that lock.
type unlocked struct {
	*queue.Queue
	t *testing.T
	r *Runner
}

func (q unlocked) Add(key object.Key, why queue.Cause) {
	if q.r.mu.TryLock() {
		q.r.mu.Unlock()
	} else {
		q.t.Error("the runner is locked while keys become due")
	}
	q.Queue.Add(key, why)
}

// What was written may be lost after a restore, also where nothing is read.
func TestARestoreForgetsWritesAndMakesEveryObjectDue(t *testing.T) {
	_, url := startRefusingServer(t)
	cluster := &rest.Config{Host: url}
	c, byKind := followWidgets(t, cache.Config{REST: cluster}, cache.Hooks{})
	var sent eventCounter
	performer, err := effect.New(effect.Config{REST: cluster, Planner: effect.Planner{Plugin: "p", Store: effectStore{Cache: c}}, Recorder: &sent})
	if err != nil {
		t.Fatal(err)
	}
	r := New(Config{Cache: unconnected(t)})
	q := unlocked{queue.New(queue.Config{}), t, r}
	t.Cleanup(q.ShutDown)
	r.plugins["p"] = &plugin{}
	r.plugins["p"].informers.replace(byKind)
	r.plugins["p"].effects.Store(performer)
	r.controllers["p/c"] = &controller{id: "p/c", Controller: dispatch.New(
		dispatch.Config{Plugin: "p", Name: "c", Workers: 1}, q, &dispatch.Revision{Controller: abi.Controller{Name: "c", For: widgets.All()}},
	)}
	r.controllers["p/c"].primaries.Store(byKind[widgets])
	w, _ := byKind[widgets].Get(object.Key{Namespace: "a", Name: "w"})
	emit := func() {
		performer.EmitEvent(effect.Target{Controller: &abi.Controller{Name: "c"}, Object: w}, &abi.Event{Type: abi.EventWarning, Reason: "R"})
	}
	emit()
	r.restored(abi.Kind{APIVersion: "test.dev/v1", Kind: "Gadget"})
	if emit(); q.Len() != 0 || sent != 1 {
		t.Errorf("of a kind that is not read: %d keys are due, %d events were sent", q.Len(), sent)
	}
	r.restored(widgets)
	if emit(); q.Len() != 1 || sent != 2 {
		t.Errorf("%d keys are due, %d events were sent", q.Len(), sent)
	}
}

// A child that a run has made, or has found after a lost reply, is deleted while the
// watch shows nothing. A list goes past both.
func TestAKeyIsWokenForAChildThatNoEventShows(t *testing.T) {
	child := []byte(`{"metadata":{"name":"child","namespace":"a","uid":"c","resourceVersion":"2"}}`)
	primary := object.Key{Namespace: "a", Name: "w"}
	for name, learn := range map[string]func(controllerCache) error{
		"made": func(c controllerCache) error {
			o, err := object.Parse(child, widgets)
			c.Wrote(primary, effect.Write{Kind: widgets, Key: o.Key(), UID: o.UID, ResourceVersion: "2", Object: o})
			return err
		},
		"found": func(c controllerCache) error {
			return c.Refresh(context.Background(), primary, widgets.Ref("a", "child"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			expired := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
				out.Header().Set("Content-Type", "application/json")
				version := 1
				select {
				case <-expired:
					version = 3
				default:
				}
				switch query := request.URL.Query(); {
				case request.URL.Path == "/apis/test.dev/v1":
					fmt.Fprint(out, widgetResources)
				case strings.HasSuffix(request.URL.Path, "/child"):
					_, _ = out.Write(child)
				case query.Get("sendInitialEvents") != "":
					deny(out, http.StatusUnprocessableEntity, "Invalid")
				case query.Get("watch") == "":
					fmt.Fprintf(out, `{"kind":"WidgetList","apiVersion":"test.dev/v1","metadata":{"resourceVersion":"%d"},"items":[]}`, version)
				case query.Get("resourceVersion") == "3":
					out.(http.Flusher).Flush()
					<-request.Context().Done()
				default:
					out.(http.Flusher).Flush()
					<-expired
					fmt.Fprint(out, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`)
				}
			}))
			t.Cleanup(server.Close)
			woken := make(chan cache.Owner, 10)
			c, byKind := followWidgets(t, cache.Config{REST: &rest.Config{Host: server.URL}}, cache.Hooks{Wake: func(o cache.Owner, _ cache.Event, _ bool) { woken <- o }})
			var p plugin
			p.informers.replace(byKind)
			if err := learn(controllerCache{cache: c, controller: "p/c", primaries: primariesOf(&p), informers: &p.informers, ownWrites: &p.ownWrites, written: &p.written}); err != nil {
				t.Fatal(err)
			}
			close(expired)
			select {
			case o := <-woken:
				if want := (cache.Owner{Controller: "p/c", Key: primary}); o != want {
					t.Errorf("woken: %v", o)
				}
			case <-time.After(await.Limit):
				t.Error("nobody was woken")
			}
		})
	}
}

// What a plugin follows of a kind in some namespaces says nothing of what it has written in
// another one: no run may fail for that.
func TestALostWriteWhereNothingIsFollowedIsNotRead(t *testing.T) {
	w := newFollowWorld(t)
	w.serve(scope.Scope{Kind: widgets, Namespaces: []string{"a"}})
	if err := w.c.Cache.Refresh(t.Context(), object.Key{Namespace: "a", Name: "w"}, widgets.Ref("b", "w")); err != nil {
		t.Error(err)
	}
}

// What is derived from objects is read without an entry of the revision.
func TestRunsReadDerivedObjects(t *testing.T) {
	_, url := startRefusingServer(t)
	c, err := cache.New(cache.Config{REST: &rest.Config{Host: url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	kind := cache.DerivedKind(widgets, "p/x")
	reads := controllerCache{cache: c, controller: "p/c", informers: &informers{}, ownWrites: &cache.OwnWrites{}}
	list := func() error {
		run := reads.BeginUnrecorded(object.Key{}, nil)
		defer run.Close()
		_, err := run.List(cache.Reading{Kind: kind})
		return err
	}
	if err := list(); !errors.Is(err, cache.ErrNotFollowed) {
		t.Errorf("without objects: %v", err)
	}
	derived, err := c.Derive(kind, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := list(); !errors.Is(err, cache.ErrNotSynced) {
		t.Errorf("before all are there: %v", err)
	}
	derived.Complete()
	if err := list(); err != nil {
		t.Error(err)
	}
}
