package schedule

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/host/internal/await"
)

func TestMain(m *testing.M) { await.Main(m, func() error { return goleak.Find() }) }

const quantum = time.Millisecond

// simulation is a scheduler in fake time with a log of events.
type simulation struct {
	t *testing.T
	*Scheduler
	plugins map[string]*Plugin
	metrics map[string]*counted

	mu  sync.Mutex
	log []string
}

func newSimulation(t *testing.T, slots int) *simulation {
	s := New(slots)
	s.quantum = quantum
	return &simulation{
		t: t, Scheduler: s,
		plugins: map[string]*Plugin{}, metrics: map[string]*counted{},
	}
}

// counted records a plugin's metrics.
type counted struct {
	mu        sync.Mutex
	waits     []time.Duration
	handovers int
}

func (c *counted) Waited(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = append(c.waits, d)
}

func (c *counted) HandedOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handovers++
}

func (s *simulation) plugin(name string) *Plugin {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plugins[name] == nil {
		s.metrics[name] = &counted{}
		s.plugins[name] = s.Scheduler.Plugin(s.metrics[name])
	}
	return s.plugins[name]
}

func (s *simulation) note(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, event)
}

// events returns the log since the last expectation.
func (s *simulation) events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// expect compares the log since the last expectation.
func (s *simulation) expect(want string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.log, " "); got != want {
		s.t.Errorf("events: %s\nwant:   %s", got, want)
	}
	s.log = nil
}

// expectLast compares the last event of the log.
func (s *simulation) expectLast(want string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.log) == 0 || s.log[len(s.log)-1] != want {
		s.t.Errorf("events: %v\nwant %s at the end", s.log, want)
	}
	s.log = nil
}

// expectStats compares the slots in use and the waiting calls.
func (s *simulation) expectStats(inUse, waiting int) {
	s.t.Helper()
	synctest.Wait()
	if got, want := s.Stats(), (Stats{Slots: s.slots, InUse: inUse, Waiting: waiting}); got != want {
		s.t.Errorf("stats are %+v, want %+v", got, want)
	}
}

// acquire starts a call that has a slot and does nothing.
func (s *simulation) acquire(plugin string) *Task {
	s.t.Helper()
	task, err := s.plugin(plugin).Acquire(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return task
}

// short starts a call that logs its plugin when it has a slot, and then runs for
// d without a tick.
func (s *simulation) short(plugin string, d time.Duration) {
	p := s.plugin(plugin)
	go func() {
		task, err := p.Acquire(context.Background())
		if err != nil {
			s.t.Error(err)
			return
		}
		s.note(plugin)
		time.Sleep(d) // fake time
		task.Release()
	}()
	synctest.Wait()
}

// spin starts a call that ticks ten times in a quantum, for so many quanta. It
// logs its plugin each time that it gets a slot, with "!" when its context has
// ended, and with "." at its end.
func (s *simulation) spin(ctx context.Context, plugin string, quanta int) {
	p := s.plugin(plugin)
	go func() {
		task, err := p.Acquire(ctx)
		if err != nil {
			s.note(plugin + "!")
			return
		}
		defer task.Release()
		s.note(plugin)
		for range 10 * quanta {
			time.Sleep(quantum / 10) // fake time
			waited, err := task.Yield(ctx)
			if err != nil || ctx.Err() != nil {
				s.note(plugin + "!")
				return
			}
			if waited > 0 {
				s.note(plugin)
			}
		}
		s.note(plugin + ".")
	}()
	synctest.Wait()
}

// pass advances the fake clock.
func pass(d time.Duration) {
	time.Sleep(d) // fake time
	synctest.Wait()
}
