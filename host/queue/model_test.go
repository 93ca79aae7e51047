package queue_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/queue"
)

// model is what the package comment says, in the plainest words: no locks, no
// timers, every key looked at in every step.
type model struct {
	now  time.Time
	keys map[queue.Key]*modelKey
}

type modelKey struct {
	running, due, urgent bool
	reasons              []abi.Reason
	reset                bool
	edge, deadline       time.Time
	next                 queue.Next
	forgotten            bool
	held                 []abi.Reason
	since                time.Time // came into its lane
	taken                bool      // it was handed out as urgent,
	came                 time.Time // and had come into its lane
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

func (m *model) trigger(key queue.Key, r abi.Reason) {
	k := m.key(key)
	backingOff := !k.deadline.IsZero() && k.next.Backoff
	switch r {
	case abi.ReasonResync, abi.ReasonStatus:
		switch {
		case backingOff:
		case k.running && !k.due:
			k.held = append(k.held, r)
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
		reason := abi.ReasonRequeue
		if k.next.Backoff {
			reason = abi.ReasonRetry
		}
		k.add(reason, !k.next.Yields, at)
	}
}

func (m *model) handOut(key queue.Key) (reasons []abi.Reason, reset bool) {
	k := m.keys[key]
	reasons, reset = k.reasons, k.reset
	*k = modelKey{running: true, taken: k.urgent, came: k.since}
	return reasons, reset
}

func (m *model) putBack(item queue.Item) {
	k := m.keys[item.Key]
	came := append(k.reasons, k.held...)
	urgent := k.due && k.urgent || k.taken || slices.Contains(k.held, abi.ReasonStatus)
	k.running, k.forgotten, k.held = false, false, nil
	k.due, k.urgent, k.since, k.reasons = true, urgent, k.came, slices.Clone(item.Reasons)
	for _, r := range came {
		k.add(r, false, m.now)
	}
	k.reset = k.reset || item.Reset
	m.fire(k)
}

func (m *model) settle(key queue.Key, next queue.Next) {
	k := m.keys[key]
	if k.forgotten {
		next = queue.Next{}
	}
	if !(next.Backoff && next.After > 0) {
		for _, r := range k.held {
			k.add(r, r == abi.ReasonStatus, m.now)
		}
	}
	k.running, k.forgotten, k.held, k.next = false, false, nil, next
	if next.After > 0 {
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

// due lists the keys that may be handed out; any of them if none is urgent.
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

// inBubble hides from rapid that it has a *testing.T, as one in a bubble has
// no Deadline.
type inBubble struct{ rapid.TB }

// Queue and model get the same operations; whatever is due, handed out and
// known must be the same at every step.
func TestQueueBehavesLikeItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			s := &session{T: t, q: queue.New(queue.Config{}), m: &model{now: time.Now(), keys: map[queue.Key]*modelKey{}}, items: map[queue.Key]queue.Item{}}
			defer s.q.ShutDown()
			t.Repeat(map[string]func(*rapid.T){
				"trigger": s.trigger, "next": s.next, "settle": s.settle, "return": s.putBack, "forget": s.forget, "advance": s.advance, "": s.check,
			})
		})
	})
}

type session struct {
	*rapid.T
	q     *queue.Queue
	m     *model
	items map[queue.Key]queue.Item // that run
}

func (s *session) anyKey(t *rapid.T) queue.Key {
	return key(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key"))
}

func (s *session) trigger(t *rapid.T) {
	k, r := s.anyKey(t), rapid.SampledFrom(reasons).Draw(t, "reason")
	s.q.Trigger(k, r)
	s.m.trigger(k, r)
}

func (s *session) next(t *rapid.T) {
	due, urgent := s.m.due()
	if len(due) == 0 {
		t.Skip("nothing is due")
	}
	item, _ := s.q.Next()
	if !slices.Contains(due, item.Key) {
		t.Fatalf("handed out %s, due are %v", item.Key, due)
	}
	young := s.m.now.Sub(s.m.keys[item.Key].since) < 10*time.Second
	if len(urgent) > 0 && !slices.Contains(urgent, item.Key) && young {
		t.Fatalf("handed out %s before %v", item.Key, urgent)
	}
	s.items[item.Key] = item
	want, reset := s.m.handOut(item.Key)
	if !slices.Equal(item.Reasons, want) || item.Reset != reset {
		t.Fatalf("handed out %s for %v reset %v, want %v reset %v", item.Key, item.Reasons, item.Reset, want, reset)
	}
}

func (s *session) settle(t *rapid.T) {
	running := s.m.running()
	if len(running) == 0 {
		t.Skip("nothing runs")
	}
	k := rapid.SampledFrom(running).Draw(t, "key")
	next := queue.Next{
		After:   rapid.SampledFrom(durations).Draw(t, "after"),
		Backoff: rapid.Bool().Draw(t, "backoff"), Yields: rapid.Bool().Draw(t, "yields"),
	}
	s.q.Settle(k, next)
	s.m.settle(k, next)
}

func (s *session) putBack(t *rapid.T) {
	running := s.m.running()
	if len(running) == 0 {
		t.Skip("nothing runs")
	}
	k := rapid.SampledFrom(running).Draw(t, "key")
	s.q.Return(s.items[k])
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
		t.Fatalf("knows %d keys and %d timers, want %d and %d", k, n, keys, timers)
	}
}
