package queue_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

func keys(n int) []queue.Key {
	all := make([]queue.Key, n)
	for i := range all {
		all[i] = key(strconv.Itoa(i))
	}
	return all
}

// BenchmarkRun measures one key from Add to Done.
func BenchmarkRun(b *testing.B) {
	for name, next := range map[string]outcome.Next{
		"await": {}, "after": after(time.Hour), "backoff": backoff(time.Hour),
	} {
		b.Run(name, func(b *testing.B) {
			q := queue.New(queue.Config{})
			defer q.ShutDown()
			all := keys(10_000)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				q.Add(all[i%len(all)], queue.Cause{Reason: abi.ReasonPrimary})
				item, _ := q.Next()
				q.Done(item.Key, next)
			}
		})
	}
}

// BenchmarkBurst measures Add for a key that is due already.
func BenchmarkBurst(b *testing.B) {
	q := queue.New(queue.Config{})
	defer q.ShutDown()
	b.ReportAllocs()
	for b.Loop() {
		q.Add(key("a"), queue.Cause{Reason: abi.ReasonRead})
	}
}

// BenchmarkContended is [BenchmarkRun] with one worker for each processor.
func BenchmarkContended(b *testing.B) {
	q := queue.New(queue.Config{})
	defer q.ShutDown()
	all := keys(10_000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			q.Add(all[i%len(all)], queue.Cause{Reason: abi.ReasonPrimary})
			if q.Len() > 0 {
				item, shutdown := q.Next()
				if shutdown {
					return
				}
				q.Done(item.Key, after(time.Hour))
			}
		}
	})
}
