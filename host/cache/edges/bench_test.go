package edges

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/object"
)

const many = 100_000

// heap returns the bytes in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (x *Index) readEach(edges int, read func(r *Run, k *Kind, i, n int)) *Kind {
	k := x.Kind(widget)
	for i := range many {
		run := x.Begin(Owner{Controller: "p/c", Key: object.Key{Namespace: "team-1", Name: fmt.Sprint("widget-", i)}})
		for n := range edges {
			read(run, k, i, n)
		}
		run.Commit()
	}
	return k
}

// BenchmarkEdge reports the heap of a key with edges, beside what is counted for it.
func BenchmarkEdge(b *testing.B) {
	reads := map[string]func(r *Run, k *Kind, i, n int){
		"objects": func(r *Run, k *Kind, i, n int) {
			r.Get(k, object.Key{Namespace: "team-1", Name: fmt.Sprintf("widget-%d-%d", i, n)}, whole)
		},
		"lists": func(r *Run, k *Kind, i, n int) {
			r.List(k, "team-1", Selection{Labels: selector(b, fmt.Sprintf("app=widget-%d-%d", i, n))}, whole)
		},
		"shared": func(r *Run, k *Kind, _, n int) {
			r.Get(k, object.Key{Namespace: "team-1", Name: fmt.Sprint(n)}, whole)
		},
	}
	for _, name := range []string{"objects", "lists", "shared"} {
		for _, edges := range []int{1, 2, 10} {
			b.Run(fmt.Sprintf("%s/edges=%d", name, edges), func(b *testing.B) {
				for b.Loop() {
					before := heap()
					x := New(Config{PluginBytes: 1 << 40, HostBytes: 1 << 40})
					k := x.readEach(edges, reads[name])
					b.ReportMetric(float64(heap()-before)/many, "heap-B/key")
					b.ReportMetric(float64(x.Bytes())/many, "counted-B/key")
					runtime.KeepAlive(k)
				}
			})
		}
	}
}

// BenchmarkEventForNobody is an event of a kind of which 100,000 keys have read others,
// by label, by field and by name.
func BenchmarkEventForNobody(b *testing.B) {
	x := New(Config{PluginBytes: 1 << 40, HostBytes: 1 << 40})
	k := x.readEach(3, func(r *Run, k *Kind, i, n int) {
		switch n {
		case 0:
			r.Get(k, object.Key{Namespace: "team-1", Name: fmt.Sprint(i)}, whole)
		case 1:
			r.List(k, "team-1", Selection{Labels: selector(b, fmt.Sprint("a=", i))}, whole)
		case 2:
			r.List(k, "team-1", Selection{Labels: selector(b, fmt.Sprint("a=none,b=", i))}, whole)
		}
	})
	o := obj("team-1", "other", "a=other,b=other,c=z")
	b.ReportAllocs()
	for b.Loop() {
		k.Changed(Change{Old: o, Updated: o})
	}
}

// BenchmarkBulk is an event of an object that 100,000 keys have read: how long the
// informer is occupied by it, and the longest that the kind is locked.
func BenchmarkBulk(b *testing.B) {
	woken := make(chan struct{}, many)
	x := New(Config{PluginBytes: 1 << 40, HostBytes: 1 << 40, Wake: func(Owner, Change, bool) { woken <- struct{}{} }})
	k := x.readEach(1, func(r *Run, k *Kind, _, _ int) { r.Get(k, object.Key{Name: "shared"}, whole) })
	o := obj("", "shared", "")
	var locked time.Duration
	for b.Loop() {
		k.Changed(Change{Old: o, Updated: o})
		b.StopTimer()
		for range many {
			<-woken
		}
		began := time.Now()
		(&bulkWake{kind: k, id: k.hash('o', "", "shared"), left: -1}).take()
		locked = max(locked, time.Since(began))
		b.StartTimer()
	}
	b.ReportMetric(float64(locked.Microseconds()), "max-locked-us")
	x.Stop()
}
