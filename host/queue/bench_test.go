package queue_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/queue"
)

func keys(n int) []queue.Key {
	all := make([]queue.Key, n)
	for i := range all {
		all[i] = key(strconv.Itoa(i))
	}
	return all
}

// BenchmarkRun is one key from its trigger to the end of its run.
func BenchmarkRun(b *testing.B) {
	for name, next := range map[string]queue.Next{
		"await": {}, "after": {After: time.Hour}, "backoff": {After: time.Hour, Backoff: true},
	} {
		b.Run(name, func(b *testing.B) {
			q := queue.New(queue.Config{})
			defer q.ShutDown()
			all := keys(10_000)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				q.Trigger(all[i%len(all)], abi.ReasonPrimary)
				item, _ := q.Next()
				q.Settle(item.Key, next)
			}
		})
	}
}

// BenchmarkBurst is a trigger of a key that is due already.
func BenchmarkBurst(b *testing.B) {
	q := queue.New(queue.Config{})
	defer q.ShutDown()
	b.ReportAllocs()
	for b.Loop() {
		q.Trigger(key("a"), abi.ReasonRead)
	}
}

// BenchmarkContended is [BenchmarkRun] with every processor as a worker.
func BenchmarkContended(b *testing.B) {
	q := queue.New(queue.Config{})
	defer q.ShutDown()
	all := keys(10_000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			q.Trigger(all[i%len(all)], abi.ReasonPrimary)
			if q.Len() > 0 {
				item, shutdown := q.Next()
				if shutdown {
					return
				}
				q.Settle(item.Key, queue.Next{After: time.Hour})
			}
		}
	})
}
