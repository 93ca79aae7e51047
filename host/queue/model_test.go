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
// deadlines, by looking at every key in every step.
type model struct {
	now    time.Time
	keys   map[queue.Key]*modelKey
	last   int                // the place of the last key in any lane
	first  int                // the place of the first key in any lane
	inARow map[string]*[4]int // keys of a lane that were returned while keys of lower lanes waited, by group; "" for those that are not held
}

const (
	background = iota
	timed
	repeated
	fresh
)

var lanes = map[abi.Reason]int{
	abi.ReasonPrimary: fresh, abi.ReasonRequest: fresh, abi.ReasonOwned: fresh, abi.ReasonRead: fresh, abi.ReasonStatus: fresh,
	abi.ReasonRequeue: timed, abi.ReasonRetry: timed,
	abi.ReasonPlugin: background, abi.ReasonResync: background,
}

type modelKey struct {
	running, due           bool
	group                  string    // in which it is held; "": it is not
	lane, place            int       // place: in the lane; keys with the same place are in any order
	since                  time.Time // it is due
	reasons                []abi.Reason
	reset                  bool
	edge, spread, deadline time.Time
	latest                 time.Time
	next                   outcome.Next
	forgotten              bool
	deferred               []abi.Reason
	own                    time.Time // the earliest edge of an own change during the run
	takenFrom              int       // the lane, when Next returned it,
	came                   time.Time // and since when it had been due
}

func (m *model) key(k queue.Key) *modelKey {
	if m.keys[k] == nil {
		m.keys[k] = &modelKey{}
	}
	return m.keys[k]
}

func (k *modelKey) backingOff() bool { return !k.deadline.IsZero() && k.next.Kind == outcome.Backoff }

func (k *modelKey) addReason(r abi.Reason) {
	if !slices.Contains(k.reasons, r) {
		k.reasons = append(k.reasons, r)
	}
}

// admit makes a key due in a lane, behind all others.
func (m *model) admit(k *modelKey, lane int) {
	switch {
	case !k.due:
		k.due, k.since = true, m.now
	case lane <= k.lane:
		return
	}
	m.last++
	k.lane, k.place = lane, m.last
}

// laneFor returns in which lane a reason makes a key due now.
func (k *modelKey) laneFor(r abi.Reason) int {
	lane := lanes[r]
	if r == abi.ReasonPlugin && k.backingOff() {
		return timed
	}
	if lane == fresh && (k.running || k.backingOff() || k.due && k.lane == repeated) {
		return repeated
	}
	return lane
}

func (m *model) add(key queue.Key, r abi.Reason) {
	k := m.key(key)
	switch r {
	case abi.ReasonResync, abi.ReasonStatus:
		if k.backingOff() {
			return
		}
		if k.running && !k.due {
			k.deferred = append(k.deferred, r)
			return
		}
	case abi.ReasonOwned, abi.ReasonRead:
		k.addReason(r)
		k.edgeAt(m.now.Add(100 * time.Millisecond))
		return
	default:
	}
	k.addReason(r)
	m.admit(k, k.laneFor(r))
	k.reset = k.reset || r == abi.ReasonPrimary || r == abi.ReasonRequest
}

func (m *model) addOwn(key queue.Key, r abi.Reason, pause time.Duration) {
	k, until := m.key(key), m.now.Add(max(pause, 100*time.Millisecond))
	switch {
	case k.backingOff():
		return
	case k.running:
		if k.own.IsZero() || until.Before(k.own) {
			k.own = until
		}
	default:
		k.edgeAt(until)
	}
	k.addReason(r)
}

// edgeAt makes the key due at a time, unless it is due before.
func (k *modelKey) edgeAt(until time.Time) {
	if (k.edge.IsZero() || until.Before(k.edge)) && !(k.due && k.lane >= repeated) {
		k.edge = until
	}
}

func (m *model) addPlugin(key queue.Key, delay time.Duration) {
	k := m.key(key)
	if delay == 0 || k.backingOff() {
		m.add(key, abi.ReasonPlugin)
		return
	}
	k.addReason(abi.ReasonPlugin)
	if until := m.now.Add(delay); !k.due && (k.spread.IsZero() || until.Before(k.spread)) {
		k.spread = until
	}
}

// advance lets time pass from one timer to the next.
func (m *model) advance(d time.Duration) {
	end := m.now.Add(d)
	for {
		at := end
		for _, k := range m.keys {
			for _, t := range k.times() {
				if !k.running && !t.IsZero() && t.Before(at) {
					at = t
				}
			}
		}
		m.now = at
		place := m.last + 1
		for _, k := range m.keys {
			if before := k.place; !k.running && m.fire(k) && k.place != before {
				k.place = place // like that of all whose time has come now
			}
		}
		if at.Equal(end) {
			return
		}
	}
}

// times are those at which the key becomes due; zero for none.
func (k *modelKey) times() []time.Time { return []time.Time{k.edge, k.spread, k.deadline, k.latest} }

// waits reports whether the key becomes due at a time.
func (k *modelKey) waits() bool {
	return !k.running && slices.ContainsFunc(k.times(), func(t time.Time) bool { return !t.IsZero() })
}

// fire makes a key due whose time has come.
func (m *model) fire(k *modelKey) (fired bool) {
	past := func(t time.Time) bool { return !t.IsZero() && !t.After(m.now) }
	if past(k.edge) {
		k.edge, fired = time.Time{}, true
		m.admit(k, k.laneFor(abi.ReasonOwned))
	}
	if past(k.spread) {
		k.spread, fired = time.Time{}, true
		m.admit(k, k.laneFor(abi.ReasonPlugin))
	}
	if past(k.deadline) {
		k.deadline, fired = time.Time{}, true
		k.addReason(k.next.Reason)
		lane := timed
		if k.next.Yields {
			lane = background
		}
		m.admit(k, lane)
	}
	if past(k.latest) {
		k.latest, fired = time.Time{}, true
		k.addReason(abi.ReasonTimer)
		m.admit(k, timed)
	}
	return fired
}

func (m *model) start(key queue.Key) (reasons []abi.Reason, reset bool) {
	k := m.keys[key]
	m.count("", k.lane)
	reasons, reset = k.reasons, k.reset
	*k = modelKey{running: true, takenFrom: k.lane, came: k.since}
	return reasons, reset
}

// count counts the keys of a lane that were returned or released while keys of lower
// lanes waited.
func (m *model) count(group string, lane int) {
	inARow := m.inARowOf(group)
	for l := fresh; l > lane; l-- {
		inARow[l] = 0
	}
	inARow[lane]++
	for l := lane - 1; l >= 0; l-- {
		if len(m.front(group, l)) > 0 {
			return
		}
	}
	inARow[lane] = 0
}

func (m *model) inARowOf(group string) *[4]int {
	if m.inARow[group] == nil {
		m.inARow[group] = &[4]int{}
	}
	return m.inARow[group]
}

// hold is putBack, unless the key became due meanwhile.
func (m *model) hold(item queue.Item, group string) (held bool) {
	k := m.keys[item.Key]
	if !k.due {
		k.group = group
	}
	m.putBack(item)
	if k.group != "" {
		m.last++
		k.place = m.last
	}
	return k.group != ""
}

// releaseFirst releases one of the keys that may be the first of a group.
func (m *model) releaseFirst(key queue.Key) {
	k := m.keys[key]
	group := k.group
	k.group = ""
	m.count(group, k.lane)
	m.first--
	k.place = m.first
	if len(m.held(group)) == 0 {
		delete(m.inARow, group)
	}
}

// releaseAll releases all keys. The order of those that became due at the same time is not defined.
func (m *model) releaseAll() {
	var all []*modelKey
	for _, k := range m.keys {
		if k.group != "" {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b *modelKey) int { return b.since.Compare(a.since) })
	for i, k := range all {
		if i == 0 || !k.since.Equal(all[i-1].since) {
			m.first--
		}
		k.place = m.first
		delete(m.inARow, k.group)
		k.group = ""
	}
}

func (m *model) held(group string) (keys []queue.Key) {
	for l := range fresh + 1 {
		keys = append(keys, m.inLane(group, l)...)
	}
	return keys
}

func (m *model) putBack(item queue.Item) {
	k := m.keys[item.Key]
	came, lane := append(k.reasons, k.deferred...), k.takenFrom
	if k.due {
		lane = max(lane, k.lane)
	}
	for _, r := range k.deferred {
		lane = max(lane, min(lanes[r], repeated))
	}
	m.first--
	k.running, k.forgotten, k.deferred, k.own = false, false, nil, time.Time{}
	k.due, k.lane, k.place, k.since, k.reasons = true, lane, m.first, k.came, slices.Clone(item.Reasons)
	for _, r := range came {
		k.addReason(r)
	}
	k.reset = k.reset || item.ResetTries
	m.fire(k)
}

func (m *model) done(key queue.Key, next outcome.Next) {
	k := m.keys[key]
	if k.forgotten {
		next = outcome.Next{}
	}
	k.next = next
	if next.Kind != outcome.AwaitChange && next.After > 0 {
		k.deadline = m.now.Add(next.After)
	}
	if next.Latest > 0 {
		k.latest = m.now.Add(next.Latest)
	}
	if !k.own.IsZero() && !k.backingOff() {
		k.edgeAt(k.own)
	}
	k.own = time.Time{}
	if k.backingOff() {
		k.deferred = nil
		if !k.spread.IsZero() {
			k.spread = m.now
		}
	}
	for _, r := range k.deferred {
		k.addReason(r)
		m.admit(k, min(lanes[r], repeated))
	}
	k.running, k.forgotten, k.deferred = false, false, nil
	m.fire(k)
	m.last++
	k.place, k.since = m.last, m.now
}

func (m *model) forget(key queue.Key) {
	if k := m.keys[key]; k != nil {
		k.deadline, k.latest, k.forgotten = time.Time{}, time.Time{}, k.running
		if !k.running && !k.due && !k.waits() {
			delete(m.keys, key) // with the reasons of own changes that were dropped
		}
	}
}

// due lists the keys that are due, also those that are held.
func (m *model) due() (due []queue.Key) {
	for key, k := range m.keys {
		if k.due && !k.running {
			due = append(due, key)
		}
	}
	return due
}

func (m *model) inLane(group string, lane int) (keys []queue.Key) {
	for key, k := range m.keys {
		if k.due && !k.running && k.group == group && k.lane == lane {
			keys = append(keys, key)
		}
	}
	return keys
}

// front lists the first key of a lane; several if their order is not defined.
func (m *model) front(group string, lane int) (front []queue.Key) {
	keys := m.inLane(group, lane)
	for _, key := range keys {
		if !slices.ContainsFunc(keys, func(other queue.Key) bool { return m.keys[other].place < m.keys[key].place }) {
			front = append(front, key)
		}
	}
	return front
}

// next lists the keys that Next may return, or that may be the first of a group.
func (m *model) next(group string) []queue.Key {
	if m.ambiguous(group) {
		return m.held(group)
	}
	lane := fresh
	for ; lane > background; lane-- {
		if len(m.front(group, lane)) > 0 && !(m.inARowOf(group)[lane] >= 3 && m.agedBelow(group, lane)) {
			break
		}
	}
	return m.front(group, lane)
}

func (m *model) agedBelow(group string, lane int) bool {
	for l, after := range []time.Duration{background: 10 * time.Second, timed: 10 * time.Second, repeated: 0} {
		for _, key := range m.front(group, l) {
			if l < lane && m.now.Sub(m.keys[key].since) >= after {
				return true
			}
		}
	}
	return false
}

// ambiguous reports whether the age of the first key of a lane depends on an order
// that is not defined.
func (m *model) ambiguous(group string) bool {
	for l := range fresh + 1 {
		front := m.front(group, l)
		if slices.ContainsFunc(front, func(k queue.Key) bool { return !m.keys[k].since.Equal(m.keys[front[0]].since) }) {
			return true
		}
	}
	return false
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
			s := &session{T: t, q: queue.New(queue.Config{}), m: &model{now: time.Now(), keys: map[queue.Key]*modelKey{}, inARow: map[string]*[4]int{}}, items: map[queue.Key]queue.Item{}}
			defer s.q.ShutDown()
			t.Repeat(map[string]func(*rapid.T){
				"add": s.add, "add own": s.addOwn, "add plugin": s.addPlugin, "next": s.next, "done": s.done, "put back": s.putBack, "hold": s.hold, "release": s.releaseFirst, "release all": s.releaseAll, "forget": s.forget, "advance": s.advance, "": s.check,
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
	return key(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "key"))
}

func (s *session) add(t *rapid.T) {
	k, r := s.anyKey(t), rapid.SampledFrom(reasons).Draw(t, "reason")
	s.q.Add(k, queue.Cause{Reason: r})
	s.m.add(k, r)
}

func (s *session) addOwn(t *rapid.T) {
	k, r := s.anyKey(t), rapid.SampledFrom(reasons).Draw(t, "reason")
	pause := rapid.SampledFrom(durations).Draw(t, "pause")
	s.q.Add(k, queue.Cause{Reason: r, Own: true, Pause: pause})
	s.m.addOwn(k, r, pause)
}

func (s *session) addPlugin(t *rapid.T) {
	k, d := s.anyKey(t), rapid.SampledFrom(durations).Draw(t, "delay")
	s.q.Add(k, queue.Cause{Reason: abi.ReasonPlugin, Pause: d})
	s.m.addPlugin(k, d)
}

func (s *session) next(t *rapid.T) {
	due := s.m.next("")
	if len(due) == 0 {
		t.Skip("nothing may be taken")
	}
	item, _ := s.q.Next()
	if !slices.Contains(due, item.Key) {
		t.Fatalf("Next returned %s, want one of %v", item.Key, due)
	}
	s.items[item.Key] = item
	want, reset := s.m.start(item.Key)
	if !slices.Equal(item.Reasons, want) || item.ResetTries != reset {
		t.Fatalf("Next returned %+v, want %v reset %v", item, want, reset)
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
		Latest: rapid.SampledFrom(durations).Draw(t, "timer"),
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

func (s *session) hold(t *rapid.T) {
	running := s.m.running()
	if len(running) == 0 {
		t.Skip("nothing is running")
	}
	k, group := rapid.SampledFrom(running).Draw(t, "key"), rapid.SampledFrom(groups).Draw(t, "group")
	if held, want := s.q.Hold(s.items[k], group), s.m.hold(s.items[k], group); held != want {
		t.Fatalf("Hold returned %v for %s, want %v", held, k, want)
	}
}

func (s *session) releaseFirst(t *rapid.T) {
	group := rapid.SampledFrom(groups).Draw(t, "group")
	want := s.m.next(group)
	k, ok := s.q.ReleaseFirst(group)
	if ok != (len(want) > 0) || ok && !slices.Contains(want, k) {
		t.Fatalf("released %s %v, want one of %v", k, ok, want)
	}
	if ok {
		s.m.releaseFirst(k)
	}
}

func (s *session) releaseAll(*rapid.T) {
	s.q.ReleaseAll()
	s.m.releaseAll()
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
	due := s.m.due()
	if n := s.q.Len(); n != len(due) {
		t.Fatalf("%d keys are due, want %v", n, due)
	}
	keys, deadlines := 0, 0
	for _, k := range s.m.keys {
		if k.running || k.due || k.waits() {
			keys++
		}
		if k.waits() {
			deadlines++
		}
	}
	if k, n := s.q.Known(); k != keys || n != deadlines {
		t.Fatalf("%d keys and %d deadlines are kept, want %d and %d", k, n, keys, deadlines)
	}
}
