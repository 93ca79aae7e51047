package queue_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

func outage(d time.Duration) outcome.Next {
	next := backoff(d)
	next.Outage = true
	return next
}

func TestEndOfAnOutageShortensItsBackoffsInTheirOrder(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		var want []string
		for i := range 10 {
			name := fmt.Sprint(i)
			w.add(name, abi.ReasonPrimary)
			w.expectRun(name, abi.ReasonPrimary)
			w.done(name, outage(15*time.Minute-time.Duration(i)*time.Second)) // the last one is due first
			want = append([]string{name}, want...)
		}
		w.OutageEnded()
		var got []string
		for range 10 {
			w.advance(0)
			w.expectLen(1) // not all at once
			item, _ := w.Next()
			got = append(got, item.Name)
			w.Done(item.Key, outcome.Next{})
			w.advance(500 * time.Millisecond)
		}
		if !slices.Equal(got, want) {
			t.Errorf("order %v, want %v", got, want)
		}
	})
}

func TestEndOfAnOutageLeavesOtherDeadlines(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		for name, next := range map[string]outcome.Next{
			"failed": backoff(time.Hour), "interval": after(time.Hour), "soon": outage(100 * time.Millisecond),
		} {
			w.add(name, abi.ReasonPrimary)
			w.expectRun(name, abi.ReasonPrimary)
			w.done(name, next)
		}
		w.OutageEnded()
		w.advance(200 * time.Millisecond)
		w.run("soon", outcome.Next{}, abi.ReasonRetry)
		w.advance(59 * time.Minute)
		w.expectLen(0)
	})
}

// A run that began during the outage fails although it has ended.
func TestRunOfAnOutageThatHasEndedBacksOffForSeconds(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.add("a", abi.ReasonPrimary)
		w.expectRun("a", abi.ReasonPrimary)
		w.OutageEnded()
		w.done("a", outage(15*time.Minute))
		w.advance(5 * time.Second)
		w.expectRun("a", abi.ReasonRetry)
		w.done("a", outage(15*time.Minute)) // the next outage
		w.advance(time.Minute)
		w.expectLen(0)
	})
}

func TestEndOfAnOutageOfManyKeysIsSpreadFurther(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		for i := range 2000 {
			w.add(fmt.Sprint(i), abi.ReasonPrimary)
			w.expectRun(fmt.Sprint(i), abi.ReasonPrimary)
			w.done(fmt.Sprint(i), outage(15*time.Minute))
		}
		w.OutageEnded()
		w.advance(time.Second)
		w.expectLen(201)
		w.advance(9 * time.Second)
		w.expectLen(2000)
	})
}

// For any deadlines: no key becomes due later than it would have, all within
// five seconds, and in the same order.
func TestEndOfAnOutageOnlyShortens(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		delays := rapid.SliceOfN(rapid.IntRange(1, 20_000), 1, 30).Draw(r, "delays")
		scenario(t, queue.Config{}, func(w *world) {
			for i, ms := range delays {
				w.add(fmt.Sprint(i), abi.ReasonPrimary)
				w.expectRun(fmt.Sprint(i), abi.ReasonPrimary)
				w.done(fmt.Sprint(i), outage(time.Duration(ms)*time.Millisecond))
			}
			start, last := time.Now(), 0
			w.OutageEnded()
			for range delays {
				item, _ := w.Next() // blocks until one is due
				i, _ := strconv.Atoi(item.Name)
				if took := time.Since(start); took > min(time.Duration(delays[i])*time.Millisecond, 5*time.Second) || delays[i] < last {
					t.Fatalf("of %v the key %d was due after %v", delays, i, took)
				}
				last = delays[i]
				w.Done(item.Key, outcome.Next{})
			}
		})
	})
}
