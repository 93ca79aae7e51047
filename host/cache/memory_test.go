package cache

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// randomText returns n random characters.
func randomText(r *rand.Rand, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = letters[r.IntN(len(letters))]
	}
	return string(text)
}

func randomUID(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-4000-8000-%012x", r.Uint32(), r.Uint32N(1<<16), r.Uint64N(1<<48))
}

// halfRandom is a custom resource of 2.3 KB, of which half is of this object alone.
func halfRandom(i int) *object.Object {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	return parsed(sampleOf(i, randomUID(r), map[string]any{"replicas": 3, "ports": []int{80, 443}, "data": randomText(r, 1150)}), widget)
}

// childOf is the ConfigMap of [halfRandom].
func childOf(i int) *object.Object {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	owner, name := randomUID(r), fmt.Sprintf("widget-%05d", i)
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": name, "namespace": fmt.Sprintf("team-%d", i%50), "uid": randomUID(r),
			"resourceVersion": fmt.Sprint(300_000 + i), "creationTimestamp": "2026-01-02T03:04:05Z",
			"labels":      map[string]any{"thole.dev/managed-by": "widgets"},
			"annotations": map[string]any{"thole.dev/applied": randomText(r, 22)},
			"ownerReferences": []any{map[string]any{
				"apiVersion": widget.APIVersion, "kind": widget.Kind, "name": name, "uid": owner, "controller": true, "blockOwnerDeletion": true,
			}},
		},
		"data": map[string]any{"name": name},
	})
	if err != nil {
		panic(err)
	}
	return parsed(raw, abi.Kind{APIVersion: "v1", Kind: "ConfigMap"})
}

func parsed(raw []byte, kind abi.Kind) *object.Object {
	o, err := object.Parse(raw, kind)
	if err != nil {
		panic(err)
	}
	return o
}

// BenchmarkHeap reports the heap that an object of a kind takes in a store, when it was
// read and when it was not read for a minute, beside that in a store of client-go.
func BenchmarkHeap(b *testing.B) {
	const count = 20_000
	for _, kind := range []struct {
		name string
		make func(i int) *object.Object
	}{{"half-random", halfRandom}, {"child", childOf}, {"regular", func(i int) *object.Object { return parsed(sample(i), widget) }}} {
		measure := func(name string, fill func(b *testing.B) (keep any)) {
			b.Run(kind.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					before := heap()
					keep := fill(b)
					b.ReportMetric(float64(heap()-before)/count, "heap-B/object")
					if s, ok := keep.(*store); ok {
						objects, _ := s.memory()
						b.ReportMetric(float64(objects)/count, "estimated-B/object")
					}
				}
			})
		}
		fill := func(b *testing.B) *store {
			s := newStore()
			for i := range count {
				if err := s.Add(kind.make(i)); err != nil {
					b.Fatal(err)
				}
			}
			return s
		}
		measure("parsed", func(b *testing.B) any { return fill(b) })
		measure("packed", func(b *testing.B) any {
			s := fill(b)
			for range 6 {
				s.sweep(b.Context())
			}
			return s
		})
		measure("client-go", func(*testing.B) any {
			s := cache.NewThreadSafeStore(cache.Indexers{}, cache.Indices{})
			for i := range count {
				o := kind.make(i)
				s.Add(o.Key().String(), o)
			}
			return s
		})
	}
}

// BenchmarkStores measures how long a store is locked, and how long a read takes, among
// 100,000 objects, here and in the store of client-go.
func BenchmarkStores(b *testing.B) {
	const count = 100_000
	keys := make([]object.Key, count)
	ours, theirs := newStore(), cache.NewThreadSafeStore(cache.Indexers{}, cache.Indices{})
	for i := range keys {
		o := childOf(i)
		keys[i] = o.Key()
		if err := ours.Add(o); err != nil {
			b.Fatal(err)
		}
		theirs.Add(o.Key().String(), o)
	}
	next := 0
	key := func() object.Key {
		next = (next + 7919) % count
		return keys[next]
	}
	for _, c := range []struct {
		name string
		work func()
	}{
		{"get/ours", func() { ours.get(key()) }},
		{"get/client-go", func() { theirs.Get(key().String()) }},
		{"state-of-all/ours", func() { ours.close(ours.open()) }},
		{"state-of-all/client-go", func() { theirs.List() }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.work()
			}
		})
	}
}
