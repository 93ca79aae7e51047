package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/host/object"
)

// This file measures for how long an open breaker holds objects, and what fails meanwhile.

// tenantObjects returns the keys of objects in namespaces with that prefix.
func tenantObjects(prefix string, namespaces, each int) (keys []object.Key) {
	for ns := range namespaces {
		for i := range each {
			keys = append(keys, object.Key{Namespace: fmt.Sprint(prefix, ns), Name: fmt.Sprint("o", i)})
		}
	}
	return keys
}

// touchFor touches objects each second for a time.
func (w *tenants) touchFor(d time.Duration, keys []object.Key) {
	for range d / time.Second {
		for _, key := range keys {
			w.put(key, untouched)
		}
		time.Sleep(time.Second) // fake time
	}
}

func (w *tenants) failedRuns() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.log {
		if r.failed {
			n++
		}
	}
	return n
}

// The plugin has run well for 1,000 objects of 50 namespaces and fails for all of them from now on,
// and all of them are touched each second. Each namespace has its credit, and then there are a probe
// and a trial at a time.
func TestATotalFailureOfAPluginThatRanWellIsBounded(t *testing.T) {
	const namespaces, each, workers = 50, 20, 8 // workers of two controllers
	const lasts = 10 * time.Minute
	for takes, want := range map[time.Duration]int{
		time.Millisecond: namespaces*(maxCredit+workers-1) + int(lasts/trialPause) + 80,
		10 * time.Second: namespaces*workers + int(lasts/(20*time.Second)) + 14, // a call takes all credit
	} {
		t.Run(fmt.Sprint("in ", takes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, stop := startTenants(2, workers/2, takes)
				defer stop()
				keys := tenantObjects("t", namespaces, each)
				w.touchFor(10*time.Second, keys)
				w.mu.Lock()
				for _, o := range w.objects {
					o.bad = true
				}
				w.mu.Unlock()
				w.touchFor(lasts, keys)
				n := w.failedRuns()
				t.Logf("%d runs have failed while the breaker was open, at most %d may", n, want)
				if w.opened.Load() != 1 || n > want {
					t.Errorf("the breaker has opened %d times", w.opened.Load())
				}
				if len(w.problems) > 0 {
					t.Error(w.problems)
				}
			})
		})
	}
}

// In some namespaces nothing has run well. However often somebody touches the objects there that
// have failed, the first object of another namespace waits for one of these, and for one of each
// namespace that has objects which have not run either.
func TestANewNamespaceWaitsForFewOthers(t *testing.T) {
	for name, c := range map[string]struct {
		each int // objects in each of five namespaces
		want time.Duration
	}{
		"beside those that have failed":  {10, 2 * maxPause},
		"beside those that have not run": {200, 2 * (5 + 1) * maxPause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, stop := startTenants(1, 4, 0)
				defer stop()
				others := tenantObjects("t", 5, c.each)
				for _, key := range others {
					w.put(key, isBad(true))
				}
				w.touchFor(20*time.Minute, others)
				newcomer := object.Key{Namespace: "new", Name: "o"}
				w.put(newcomer, untouched)
				w.touchFor(3*time.Minute, others)
				w.expectWait(t, newcomer, c.want)
			})
		})
	}
}

// expectWait expects that an object has run while the breaker was open, and has waited for no longer.
func (w *tenants) expectWait(t *testing.T, key object.Key, longest time.Duration) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range slices.Backward(w.log) {
		if r.key != key {
			continue
		}
		if t.Logf("%s has waited for %s, at most %s", key, r.waited, longest); r.waited > longest {
			t.Error("that is too long")
		}
		return
	}
	t.Errorf("%s has not run while the breaker was open", key)
}

// Most objects of a tenant that ran well fail now, so that its namespace has no credit. One of the
// others is tried after those that were changed before it. Each of these fails once, and nothing
// changes when they are touched again.
func TestAnObjectThatRanWellAmongThoseThatFailNowIsTried(t *testing.T) {
	const each = 20
	synctest.Test(t, func(t *testing.T) {
		w, stop := startTenants(1, 2, 0)
		defer stop()
		keys := tenantObjects("t", 1, each+1)
		w.touchFor(10*time.Second, keys)
		bad, good := keys[:each], keys[each]
		for _, key := range append(tenantObjects("u", 1, 200), bad...) {
			w.put(key, isBad(true))
		}
		w.put(good, untouched)
		w.touchFor(time.Minute, bad)
		w.expectWait(t, good, each*trialPause)
	})
}
