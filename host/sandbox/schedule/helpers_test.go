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

// scene is a scheduler in fake time, and what has happened on it.
type scene struct {
	t *testing.T
	*Scheduler
	plugins map[string]*Plugin
	metrics map[string]*counted

	mu  sync.Mutex
	log []string
}

func newScene(t *testing.T, slots int) *scene {
	return &scene{
		t: t, Scheduler: New(Config{Slots: slots, Quantum: quantum}),
		plugins: map[string]*Plugin{}, metrics: map[string]*counted{},
	}
}

// counted is a plugin's metrics.
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

func (s *scene) plugin(name string) *Plugin {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plugins[name] == nil {
		s.metrics[name] = &counted{}
		s.plugins[name] = s.Scheduler.Plugin(s.metrics[name])
	}
	return s.plugins[name]
}

func (s *scene) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, what)
}

// noted is what was noted since the last time, for a test that goes on.
func (s *scene) noted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// expect compares what was noted since the last time.
func (s *scene) expect(want string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.log, " "); got != want {
		s.t.Errorf("what happened: %s\nwant:          %s", got, want)
	}
	s.log = nil
}

// began says that the last thing noted is that one.
func (s *scene) began(want string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.log) == 0 || s.log[len(s.log)-1] != want {
		s.t.Errorf("what happened: %v\nwant %s at the end", s.log, want)
	}
	s.log = nil
}

// holds compares the numbers now.
func (s *scene) holds(inUse, waiting int) {
	s.t.Helper()
	synctest.Wait()
	if got, want := s.Stats(), (Stats{Slots: s.slots, InUse: inUse, Waiting: waiting}); got != want {
		s.t.Errorf("stats are %+v, want %+v", got, want)
	}
}

// hold is a call that has a slot and does nothing more.
func (s *scene) hold(plugin string) *Turn {
	s.t.Helper()
	turn, err := s.plugin(plugin).Acquire(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return turn
}

// short starts a call that notes its plugin when it has its slot, and then
// runs for d without a tick.
func (s *scene) short(plugin string, d time.Duration) {
	p := s.plugin(plugin)
	go func() {
		turn, err := p.Acquire(context.Background())
		if err != nil {
			s.t.Error(err)
			return
		}
		s.note(plugin)
		time.Sleep(d) // fake time
		turn.Release()
	}()
	synctest.Wait()
}

// spin starts a call that ticks ten times in a quantum for so many quanta,
// and notes its plugin at the begin of each tenure of a slot.
func (s *scene) spin(ctx context.Context, plugin string, quanta int) {
	p := s.plugin(plugin)
	go func() {
		turn, err := p.Acquire(ctx)
		if err != nil {
			s.note(plugin + "!")
			return
		}
		defer turn.Release()
		s.note(plugin)
		for range 10 * quanta {
			time.Sleep(quantum / 10) // fake time
			waited, err := turn.Yield(ctx)
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

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d) // fake time
	synctest.Wait()
}
