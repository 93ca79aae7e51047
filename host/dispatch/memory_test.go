package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/edges"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

const manyKeys = 100_000

// BenchmarkIdleKeys reports the heap that each key takes in the stages that remember
// keys. Each has run: it has read two objects, owns one child, and has a status with
// conditions. The events of its writes have come and led to a second run, which had
// nothing to write. Nothing is pending.
func BenchmarkIdleKeys(b *testing.B) {
	for name, asks := range map[string]abi.Controller{
		"plain":                   {},
		"a state of a capability": {Sections: section(laterAlarm("a"), laterAlarm("b"), laterAlarm("c"))},
	} {
		b.Run(name, func(b *testing.B) { benchmarkIdleKeys(b, asks) })
	}
}

// laterAlarm is not due before the benchmark has ended.
func laterAlarm(name string) alarm { return alarm{Name: name, Every: time.Hour, First: time.Hour} }

func benchmarkIdleKeys(b *testing.B, asks abi.Controller) {
	for b.Loop() {
		m := newManyWidgets(b, asks)
		m.runAll(b)
		m.announce()
		writes := m.writes
		if m.runAll(b); m.writes != writes || writes != 3*manyKeys {
			b.Fatalf("%d writes, and %d after that", writes, m.writes-writes)
		}
		m.objects = nil
		left := heapInUse()
		report := func(part string) {
			now := heapInUse()
			b.ReportMetric((float64(left)-float64(now))/manyKeys, part+"-B/key")
			left = now
		}
		all := left
		m.c.Config.Cache, m.edges, m.kind = nil, nil, nil
		report("edges")
		m.c.revision.Store(nil)
		report("effect")
		m.queue.ShutDown()
		m.queue, m.c.queue = nil, nil
		report("queue")
		m.c.keys = nil
		report("dispatch")
		b.ReportMetric(float64(all-left)/manyKeys, "heap-B/key")
		runtime.KeepAlive(m)
	}
}

// heapInUse returns the bytes in use after a collection.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// manyWidgets is a controller of many widgets with real stages: the queue, edges and
// effects. Its API server stores what is sent, and its cache shows it at once.
type manyWidgets struct {
	noTurns
	c       *Controller
	queue   *queue.Queue
	edges   *edges.Index
	kind    *edges.Kind
	objects map[id]*object.Object
	writes  int
}

func newManyWidgets(b *testing.B, c abi.Controller) *manyWidgets {
	m := &manyWidgets{queue: queue.New(queue.Config{}), objects: map[id]*object.Object{}}
	c.Name, c.For, c.Owns = "c", widget.All(), abi.AllOf(gadget)
	m.edges = edges.New(edges.Config{PluginBytes: 1 << 40, HostBytes: 1 << 40})
	m.kind = m.edges.Kind(gadget)
	effects, err := effect.New(effect.Config{
		Planner: effect.Planner{Plugin: "p", Store: m, Now: func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }},
		REST:    &rest.Config{Host: "http://localhost", Transport: m}, Recorder: nobody{},
	})
	if err != nil {
		b.Fatal(err)
	}
	_, hooks := newAlarms()
	m.c = New(Config{Hooks: []Hooks{hooks}, Plugin: "p", Name: "c", Workers: 1, Cache: manyCache{m}, Metrics: testMetrics{&fixture{}}, Logger: hclog.NewNullLogger()}, m.queue,
		&Revision{Number: 1, Guest: m, Effects: effects, Controller: c})
	for i := range manyKeys {
		o := m.put(widget, fmt.Appendf(nil, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"team-1","name":"widget-%d","generation":1},"spec":{"x":%d}}`, i, i))
		m.c.Observe(nil, o, true)
	}
	return m
}

func (m *manyWidgets) OwnedBy(abi.Kind, string, types.UID) ([]*object.Object, bool) { return nil, true }

func (m *manyWidgets) StatusSchema(context.Context, abi.Kind, time.Duration) (*object.Schema, error) {
	return nil, nil
}

// put stores what was sent. The server gives an object its uid and version.
func (m *manyWidgets) put(kind abi.Kind, sent []byte) *object.Object {
	m.writes++
	o := parsed(kind, sent)
	uid := fmt.Sprintf("0f9a7c1e-0000-4000-8000-%012x", m.writes)
	if have := m.objects[id{kind, o.Key()}]; have != nil {
		uid = string(have.UID)
	}
	o = parsed(kind, merged(sent, fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":"%d"}}`, uid, 10_000_000+m.writes)))
	m.objects[id{kind, o.Key()}] = o
	return o
}

func parsed(kind abi.Kind, raw []byte) *object.Object {
	o, err := object.Parse(raw, kind)
	if err != nil {
		panic(err)
	}
	return o
}

func merged(raw, patch []byte) []byte {
	out, err := rawjson.MergePatch(raw, patch)
	if err != nil {
		panic(err)
	}
	return out
}

// runAll runs every key once.
func (m *manyWidgets) runAll(b *testing.B) {
	for range manyKeys {
		item, _ := m.c.take(b.Context())
		m.c.process(b.Context(), item)
	}
	if m.queue.Len() > 0 {
		b.Fatal("more runs are due")
	}
}

// announce sends the events of what the runs have written.
func (m *manyWidgets) announce() {
	for of, o := range m.objects {
		if of.kind == gadget {
			m.c.ObserveOwned(nil, o)
			continue
		}
		before := parsed(of.kind, o.Raw)
		before.ResourceVersion = "1"
		m.c.Observe(before, o, false)
	}
}

// Reconcile is the plugin.
func (*manyWidgets) Reconcile(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
	r := call.Host.(*guestCall)
	for _, name := range []string{r.given.Name, r.given.Name + "-settings"} {
		if _, err := r.reads.Get(gadget, object.Key{Namespace: r.given.Namespace, Name: name}, fieldpath.Set{}); err != nil {
			return sandbox.Return{}, err
		}
	}
	return returns(&abi.Result{
		Status: []byte(`{"ready":true}`),
		Apply:  []abi.Apply{{Object: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Gadget","metadata":{"name":%q},"data":{"x":"y"}}`, r.given.Name)}},
	})
}

// RoundTrip is the API server.
func (m *manyWidgets) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	of := id{kind: gadget}
	path, isStatus := strings.CutSuffix(r.URL.Path, "/status")
	if isStatus {
		of.kind = widget
	}
	of.key = object.Key{Namespace: "team-1", Name: path[strings.LastIndex(path, "/")+1:]}
	if have := m.objects[of]; have != nil {
		sent = merged(have.Raw, sent)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(m.put(of.kind, sent).Raw)), Request: r,
	}, nil
}

// The store of the effects.

func (m *manyWidgets) Resource(_ context.Context, kind abi.Kind) (object.Resource, error) {
	gv, err := schema.ParseGroupVersion(kind.APIVersion)
	return object.Resource{Kind: kind, GVR: gv.WithResource(strings.ToLower(kind.Kind) + "s"), Namespaced: true, Status: true}, err
}

func (m *manyWidgets) Get(kind abi.Kind, key object.Key) (*object.Object, effect.Presence) {
	if o := m.objects[id{kind, key}]; o != nil {
		return o, effect.Present
	}
	return nil, effect.Absent
}

func (*manyWidgets) All(abi.Kind) iter.Seq[*object.Object] {
	return func(func(*object.Object) bool) {}
}

// manyCache is the cache of the controller.
type manyCache struct{ *manyWidgets }

func (c manyCache) LastKnown(shown *object.Object) *object.Object { return shown }

func (c manyCache) Exists(context.Context, object.Key, object.Hash) (bool, error) { return false, nil }

func (c manyCache) Get(key object.Key) (*object.Object, bool) {
	o := c.objects[id{widget, key}]
	return o, o != nil
}

func (c manyCache) Begin(key object.Key, _ map[abi.Kind]scope.Reads) Reads {
	return manyReads{Run: c.edges.Begin(edges.Owner{Controller: "p/c", Key: key}), kind: c.kind}
}

func (c manyCache) BeginUnrecorded(key object.Key, follows map[abi.Kind]scope.Reads) Reads {
	return c.Begin(key, follows)
}

func (manyCache) Wrote(object.Key, effect.Write)                     {}
func (manyCache) Full() bool                                         { return false }
func (manyCache) Refresh(context.Context, object.Key, abi.Ref) error { return nil }
func (manyCache) Namespaced(abi.Kind) (bool, error)                  { return true, nil }
func (manyCache) Forget(object.Key)                                  {}

type manyReads struct {
	*edges.Run
	kind *edges.Kind
}

func (r manyReads) Get(_ abi.Kind, key object.Key, part fieldpath.Set) (*object.Object, error) {
	r.Run.Get(r.kind, key, part)
	return nil, nil
}

func (manyReads) List(cache.Reading) (cache.List, error) { return cache.List{}, cache.ErrNotSynced }
func (manyReads) Close()                                 {}

// nobody records Kubernetes Events.
type nobody struct{}

func (nobody) Event(k8sruntime.Object, string, string, string) {}

func (c manyCache) Shown(key object.Key) (*object.Object, bool) { return c.Get(key) }

func (manyCache) PrimariesBy(string, fieldpath.Path, string) []object.Key { return nil }
