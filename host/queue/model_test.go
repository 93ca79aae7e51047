package queue_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// model implements the package comment as simply as possible: without locks and
// timers, by looking at every key in every step.
type model struct {
	now  time.Time
	keys map[queue.Key]*modelKey
}

type modelKey struct {
	running, due, urgent bool
	reasons              []abi.Reason
	reset                bool
	edge, deadline       time.Time
	next                 outcome.Next
	forgotten            bool
	deferred             []abi.Reason
	since                time.Time // became due with its priority
	taken                bool      // was urgent when Next returned it,
	came                 time.Time // and since when it had been due
}

func (m *model) key(k queue.Key) *modelKey {
	if m.keys[k] == nil {
		m.keys[k] = &modelKey{}
	}
	return m.keys[k]
}

func (k *modelKey) add(r abi.Reason, urgent bool, now time.Time) {
	if !slices.Contains(k.reasons, r) {
		k.reasons = append(k.reasons, r)
	}
	k.admit(urgent, now)
}

func (k *modelKey) admit(urgent bool, now time.Time) {
	if !k.due {
		k.due, k.urgent, k.since = true, false, now
	}
	k.urgent = k.urgent || urgent
}

func (m *model) add(key queue.Key, r abi.Reason) {
	k := m.key(key)
	backingOff := !k.deadline.IsZero() && k.next.Kind == outcome.Backoff
	switch r {
	case abi.ReasonResync, abi.ReasonStatus:
		switch {
		case backingOff:
		case k.running && !k.due:
			k.deferred = append(k.deferred, r)
		default:
			k.add(r, r == abi.ReasonStatus, m.now)
		}
	case abi.ReasonOwned, abi.ReasonRead:
		if !slices.Contains(k.reasons, r) {
			k.reasons = append(k.reasons, r)
		}
		if k.edge.IsZero() && !(k.due && k.urgent) {
			k.edge = m.now.Add(100 * time.Millisecond)
		}
	default:
		low := r == abi.ReasonPlugin && !backingOff
		k.add(r, !low, m.now)
		k.reset = k.reset || r == abi.ReasonPrimary || r == abi.ReasonRequest || r == abi.ReasonPlugin
	}
}

func (m *model) advance(d time.Duration) {
	m.now = m.now.Add(d)
	for _, k := range m.keys {
		if !k.running {
			m.fire(k)
		}
	}
}

func (m *model) fire(k *modelKey) {
	past := func(t time.Time) bool { return !t.IsZero() && !t.After(m.now) }
	if past(k.edge) {
		k.admit(true, k.edge)
		k.edge = time.Time{}
	}
	if past(k.deadline) {
		at := k.deadline
		k.deadline = time.Time{}
		k.add(k.next.Reason, !k.next.Yields, at)
	}
}

func (m *model) start(key queue.Key) (reasons []abi.Reason, reset bool) {
	k := m.keys[key]
	reasons, reset = k.reasons, k.reset
	*k = modelKey{running: true, taken: k.urgent, came: k.since}
	return reasons, reset
}

func (m *model) putBack(item queue.Item) {
	k := m.keys[item.Key]
	came := append(k.reasons, k.deferred...)
	urgent := k.due && k.urgent || k.taken || slices.Contains(k.deferred, abi.ReasonStatus)
	k.running, k.forgotten, k.deferred = false, false, nil
	k.due, k.urgent, k.since, k.reasons = true, urgent, k.came, slices.Clone(item.Reasons)
	for _, r := range came {
		k.add(r, false, m.now)
	}
	k.reset = k.reset || item.ResetTries
	m.fire(k)
}

func (m *model) done(key queue.Key, next outcome.Next) {
	k := m.keys[key]
	if k.forgotten {
		next = outcome.Next{}
	}
	if !(next.Kind == outcome.Backoff && next.After > 0) {
		for _, r := range k.deferred {
			k.add(r, r == abi.ReasonStatus, m.now)
		}
	}
	k.running, k.forgotten, k.deferred, k.next = false, false, nil, next
	if next.Kind != outcome.AwaitChange && next.After > 0 {
		k.deadline = m.now.Add(next.After)
	}
	m.fire(k)
	k.since = m.now
}

func (m *model) forget(key queue.Key) {
	if k := m.keys[key]; k != nil {
		k.deadline, k.forgotten = time.Time{}, k.running
	}
}

// due lists the keys that Next may return; any of them if none is urgent.
func (m *model) due() (due, urgent []queue.Key) {
	for key, k := range m.keys {
		if k.due && !k.running {
			due = append(due, key)
			if k.urgent {
				urgent = append(urgent, key)
			}
		}
	}
	return due, urgent
}

func (m *model) running() []queue.Key {
	var running []queue.Key
	for _, key := range slices.SortedFunc(maps.Keys(m.keys), compareKeys) {
		if m.keys[key].running {
			running = append(running, key)
		}
	}
	return running
}

func compareKeys(a, b queue.Key) int {
	switch {
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	default:
		return 0
	}
}

var reasons = []abi.Reason{
	abi.ReasonPrimary, abi.ReasonOwned, abi.ReasonRead, abi.ReasonRequeue,
	abi.ReasonRetry, abi.ReasonResync, abi.ReasonStatus, abi.ReasonPlugin, abi.ReasonRequest,
}

var durations = []time.Duration{
	0, time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond, time.Second, time.Minute,
}

// inBubble hides from rapid that it has a *testing.T: one in a synctest bubble
// has no Deadline.
type inBubble struct{ rapid.TB }

// Queue and model get the same random operations. What is due, returned by Next
// and kept in memory must be the same after every step.
func TestQueueBehavesLikeItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			s := &session{T: t, q: queue.New(queue.Config{}), m: &model{now: time.Now(), keys: map[queue.Key]*modelKey{}}, items: map[queue.Key]queue.Item{}}
			defer s.q.ShutDown()
			t.Repeat(map[string]func(*rapid.T){
				"add": s.add, "next": s.next, "done": s.done, "put back": s.putBack, "forget": s.forget, "advance": s.advance, "": s.check,
			})
		})
	})
}

type session struct {
	*rapid.T
	q     *queue.Queue
	m     *model
	items map[queue.Key]queue.Item // of the keys that are running
}

func (s *session) anyKey(t *rapid.T) queue.Key {
	return key(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key"))
}

func (s *session) add(t *rapid.T) {
	k, r := s.anyKey(t), rapid.SampledFrom(reasons).Draw(t, "reason")
	s.q.Add(k, r)
	s.m.add(k, r)
}

func (s *session) next(t *rapid.T) {
	due, urgent := s.m.due()
	if len(due) == 0 {
		t.Skip("nothing is due")
	}
	item, _ := s.q.Next()
	if !slices.Contains(due, item.Key) {
		t.Fatalf("Next returned %s, due are %v", item.Key, due)
	}
	young := s.m.now.Sub(s.m.keys[item.Key].since) < 10*time.Second
	if len(urgent) > 0 && !slices.Contains(urgent, item.Key) && young {
		t.Fatalf("Next returned %s before %v", item.Key, urgent)
	}
	s.items[item.Key] = item
	want, reset := s.m.start(item.Key)
	if !slices.Equal(item.Reasons, want) || item.ResetTries != reset {
		t.Fatalf("Next returned %s for %v reset %v, want %v reset %v", item.Key, item.Reasons, item.ResetTries, want, reset)
	}
}

func (s *session) done(t *rapid.T) {
	running := s.m.running()
	if len(running) == 0 {
		t.Skip("nothing is running")
	}
	k := rapid.SampledFrom(running).Draw(t, "key")
	next := outcome.Next{
		Kind:   rapid.SampledFrom([]outcome.Kind{outcome.AwaitChange, outcome.After, outcome.Backoff}).Draw(t, "kind"),
		After:  rapid.SampledFrom(durations).Draw(t, "after"),
		Reason: rapid.SampledFrom([]abi.Reason{abi.ReasonRequeue, abi.ReasonRetry}).Draw(t, "reason"),
		Yields: rapid.Bool().Draw(t, "yields"),
	}
	s.q.Done(k, next)
	s.m.done(k, next)
}

func (s *session) putBack(t *rapid.T) {
	running := s.m.running()
	if len(running) == 0 {
		t.Skip("nothing is running")
	}
	k := rapid.SampledFrom(running).Draw(t, "key")
	s.q.PutBack(s.items[k])
	s.m.putBack(s.items[k])
}

func (s *session) forget(t *rapid.T) {
	k := s.anyKey(t)
	s.q.Forget(k)
	s.m.forget(k)
}

func (s *session) advance(t *rapid.T) {
	d := rapid.SampledFrom(durations).Draw(t, "time")
	time.Sleep(d) // fake time
	s.m.advance(d)
}

func (s *session) check(t *rapid.T) {
	synctest.Wait()
	due, _ := s.m.due()
	if n := s.q.Len(); n != len(due) {
		t.Fatalf("%d keys are due, want %v", n, due)
	}
	keys, timers := 0, 0
	for _, k := range s.m.keys {
		waits := !k.running && (!k.edge.IsZero() || !k.deadline.IsZero())
		if k.running || k.due || waits {
			keys++
		}
		if waits {
			timers++
		}
	}
	if k, n := s.q.Known(); k != keys || n != timers {
		t.Fatalf("%d keys and %d timers are kept, want %d and %d", k, n, keys, timers)
	}
}
