package cache

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/objects"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/object"
)

// benchObjects is the number of objects in the store.
const benchObjects = 20_000

// sample is a custom resource of about 2.3 KB without managedFields, of 3 KB
// with them, as the API server sends it.
func sample(i int) []byte {
	return sampleOf(i, fmt.Sprintf("0f9a7c1e-0000-4000-8000-%012d", i), map[string]any{
		"replicas": 3, "containers": containers(2), "description": strings.Repeat("what it is for ", 33),
	})
}

func sampleOf(i int, uid string, spec map[string]any) []byte {
	conditions := make([]any, 3)
	for c := range conditions {
		conditions[c] = map[string]any{
			"type": fmt.Sprintf("Condition%d", c), "status": "True", "reason": "Succeeded", "observedGeneration": 3,
			"lastTransitionTime": "2026-01-02T03:04:05Z", "message": "the object is as it should be, as far as anybody knows",
		}
	}
	name := fmt.Sprintf("widget-%05d", i)
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "example.dev/v1", "kind": "Widget",
		"metadata": map[string]any{
			"name": name, "namespace": fmt.Sprintf("team-%d", i%50), "uid": uid,
			"resourceVersion": fmt.Sprint(100_000 + i), "generation": 3, "creationTimestamp": "2026-01-02T03:04:05Z",
			"labels":      map[string]any{"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop", "tier": "backend"},
			"annotations": map[string]any{"example.dev/contact": "team@example.org", "example.dev/notes": "none"},
			"managedFields": []any{map[string]any{
				"manager": "kubectl", "operation": "Update", "apiVersion": "example.dev/v1", "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1",
				"fieldsV1": map[string]any{"f:spec": map[string]any{"f:containers": map[string]any{}, "f:description": map[string]any{}, "f:replicas": map[string]any{}}},
			}},
		},
		"spec":   spec,
		"status": map[string]any{"observedGeneration": 3, "conditions": conditions, "endpoints": []string{"10.0.0.1:8080", "10.0.0.2:8080"}},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

func containers(n int) []any {
	all := make([]any, n)
	for c := range all {
		all[c] = map[string]any{
			"name": fmt.Sprintf("container-%d", c), "image": "example.org/team/application:v1.2.3", "args": []string{"serve", "--verbose", "--port=8080"},
			"env":       []any{map[string]any{"name": "REGION", "value": "north"}, map[string]any{"name": "LEVEL", "value": "info"}},
			"resources": map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "128Mi"}, "limits": map[string]any{"memory": "256Mi"}},
			"ports":     []any{map[string]any{"containerPort": 8080, "name": "http", "protocol": "TCP"}},
		}
	}
	return all
}

// benchServer streams n objects to each watch, which it leaves open.
func benchServer(b *testing.B, n int) *rest.Config {
	var stream []byte
	for i := range n {
		stream = fmt.Appendf(stream, `{"type":"ADDED","object":%s}`+"\n", sample(i))
	}
	stream = fmt.Appendf(stream, `{"type":"BOOKMARK","object":{"kind":"Widget","apiVersion":"example.dev/v1","metadata":{"resourceVersion":"900000","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/apis/example.dev/v1" {
			fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"example.dev/v1","resources":[{"name":"widgets","kind":"Widget","namespaced":true,"verbs":["get","list","watch"]}]}`)
			return
		}
		_, _ = w.Write(stream)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	b.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// heap returns the bytes in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkHeapPerObject reports the heap that one object of the sample takes, in
// this cache and in an informer of client-go with unstructured objects.
func BenchmarkHeapPerObject(b *testing.B) {
	b.Run("raw", func(b *testing.B) {
		config := benchServer(b, benchObjects)
		for b.Loop() {
			before := heap()
			c := fillRaw(b, config)
			report(b, before)
			c.Stop()
		}
	})
	b.Run("unstructured", func(b *testing.B) {
		config := benchServer(b, benchObjects)
		for b.Loop() {
			before := heap()
			factory, stop := fillUnstructured(b, config)
			report(b, before)
			close(stop)
			factory.Shutdown()
		}
	})
}

func report(b *testing.B, before uint64) {
	b.StopTimer()
	b.ReportMetric(float64(heap()-before)/benchObjects, "heap-B/object")
	b.StartTimer()
}

// TestSampleHasTheDocumentedSize checks the size that RATIONALE.md names.
func TestSampleHasTheDocumentedSize(t *testing.T) {
	o, err := object.Parse(sample(1), widget)
	if err != nil || len(o.Raw) < 2250 || len(o.Raw) > 2350 {
		t.Errorf("%d bytes, %v", len(o.Raw), err)
	}
}

func fillRaw(b *testing.B, config *rest.Config) *Cache {
	c, err := New(Config{REST: config})
	if err != nil {
		b.Fatal(err)
	}
	i, err := c.Acquire(b.Context(), scope.All(widget))
	if err != nil {
		b.Fatal(err)
	}
	if err := i.WaitForSync(b.Context()); err != nil {
		b.Fatal(err)
	}
	if s := c.Stats()[0]; s.Objects != benchObjects {
		b.Fatalf("%d objects", s.Objects)
	}
	return c
}

func fillUnstructured(b *testing.B, config *rest.Config) (dynamicinformer.DynamicSharedInformerFactory, chan struct{}) {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0)
	informer := factory.ForResource(schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "widgets"})
	// Common practice, so that the comparison is fair.
	err := informer.Informer().SetTransform(func(o any) (any, error) {
		o.(*unstructured.Unstructured).SetManagedFields(nil)
		return o, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	if all, err := informer.Lister().List(labels.Everything()); err != nil || len(all) != benchObjects {
		b.Fatal(len(all), err)
	}
	return factory, stop
}

// BenchmarkDecodeEvent measures a watch event from the bytes of the connection to
// the object.
func BenchmarkDecodeEvent(b *testing.B) {
	event := fmt.Appendf(nil, `{"type":"ADDED","object":%s}`+"\n", sample(1))
	b.SetBytes(int64(len(event)))
	b.ReportAllocs()
	info := serializer(widget, false).SupportedMediaTypes()[0]
	frames := info.StreamSerializer.NewFrameReader(io.NopCloser(&repeating{text: event}))
	decoder := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), info.Serializer)
	for b.Loop() {
		if _, o, err := decoder.Decode(); err != nil || o.(*object.Object).Name == "" {
			b.Fatal(o, err)
		}
	}
}

// repeating is a reader that repeats a text without end.
type repeating struct {
	text []byte
	at   int
}

func (r *repeating) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// BenchmarkList measures a list of one namespace of 400 objects by label.
func BenchmarkList(b *testing.B) {
	s := filled(b)
	sel := selector(b, "tier=backend")
	b.ReportAllocs()
	for b.Loop() {
		if found, _ := s.list(objects.Query{Namespace: "team-1", Selector: sel}, time.Now()); len(found) == 0 {
			b.Fatal("nothing found")
		}
	}
}

// BenchmarkRun measures a reconcile's reads: an object, a list of one, and the
// commit of its edges, while 20,000 others have edges of the kind.
func BenchmarkRun(b *testing.B) {
	c := fillRaw(b, benchServer(b, benchObjects))
	b.Cleanup(c.Stop)
	sels := make([]labels.Selector, benchObjects)
	read := func(i int) {
		run := begin(c, Owner{Controller: "bench", Key: object.Key{Name: fmt.Sprint(i)}}, &OwnWrites{})
		key := object.Key{Namespace: fmt.Sprintf("team-%d", i%50), Name: fmt.Sprintf("widget-%05d", i)}
		if o, err := run.Get(widget, key, whole); o == nil || err != nil {
			b.Fatal(o, err)
		}
		if sels[i] == nil {
			sels[i] = labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": key.Name})
		}
		if found, err := run.List(Reading{Kind: widget, Namespaces: []string{key.Namespace}, Selector: sels[i]}); len(found.Items) != 1 || err != nil {
			b.Fatal(len(found.Items), err)
		}
		run.Commit()
	}
	before := heap()
	for i := range benchObjects {
		read(i)
	}
	perEdge := float64(heap()-before) / benchObjects / 2
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		read(i)
		i = (i + 1) % benchObjects
	}
	b.ReportMetric(perEdge, "heap-B/edge")
}

func filled(b *testing.B) *store {
	s := newStore()
	for i := range benchObjects {
		o, err := object.Parse(sample(i), abi.Kind{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Add(o); err != nil {
			b.Fatal(err)
		}
	}
	return s
}
