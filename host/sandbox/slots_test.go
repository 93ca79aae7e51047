package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

var errEnough = errors.New("enough")

// endless is for guests that a test stops itself.
var endless = Limits{Deadline: 24 * time.Hour, Fuel: math.MaxInt64 / 2}

// spinner is a guest that asks the host once and then spins.
func spinner(name string) []byte {
	h := newHand(name)
	get := h.Import(abi.ImportModule, abi.ImportGet, two, answer)
	return h.wasm(nil, tck.I32Const(0), tck.I32Const(4), tck.Call(get), tck.Drop, tck.Loop, tck.Branch(0), tck.End, tck.I32Const(0))
}

// spin starts calls that spin until stop, which answers their errors; they
// are in the guest when it returns.
func spin(t *testing.T, g *Guest, calls int) (stop func() []error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	begun := make(chan struct{}, calls)
	errs := make([]error, calls)
	var ended sync.WaitGroup
	for i := range calls {
		ended.Go(func() {
			_, errs[i] = g.Reconcile(ctx, Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) {
				begun <- struct{}{}
				return nil, 0
			})})
		})
	}
	for range calls {
		<-begun
	}
	stop = sync.OnceValue(func() []error {
		cancel(errEnough)
		ended.Wait()
		return errs
	})
	t.Cleanup(func() { stop() })
	return stop
}

// withProcessors runs a test with that many processors, and as many slots.
func withProcessors(t *testing.T, n int) Config {
	t.Helper()
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	return Config{Slots: n}
}

// expectSlots compares how many slots are in use.
func expectSlots(t *testing.T, s *Sandbox, inUse int) {
	t.Helper()
	if got := s.Slots(); got.InUse != inUse || got.Waiting != 0 {
		t.Errorf("slots: %+v, want %d in use", got, inUse)
	}
}

// TestANeighbourRunsBesideSpinners: as many calls spin as there are
// processors, and more; a neighbour is loaded, called and closed meanwhile.
func TestANeighbourRunsBesideSpinners(t *testing.T) {
	for _, n := range []int{1, 2} {
		for _, spins := range []int{n, n + 1} {
			t.Run(fmt.Sprintf("processors=%d,spinners=%d", n, spins), func(t *testing.T) {
				s := newSandbox(t, withProcessors(t, n))
				limits := endless
				limits.Instances = spins
				stop := spin(t, load(t, s, Plugin{Name: "spinner", Wasm: spinner("spinner"), Limits: limits}), spins)
				neighbour := load(t, s, Plugin{Name: "neighbour", Wasm: asking("neighbour", 3)})
				asked := 0
				for range 10 {
					reconcile(t, neighbour, Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) {
						asked++
						runtime.GC()
						return nil, 0
					})})
				}
				closeGuest(t, neighbour)
				if asked != 30 {
					t.Errorf("asked %d times", asked)
				}
				for _, err := range stop() {
					if !errors.Is(err, errEnough) {
						t.Errorf("a spinner ended with %v before it was stopped", err)
					}
				}
				expectSlots(t, s, 0)
			})
		}
	}
}

// TestSpinnersOfTwoPluginsBothGetOn: neither starves, though each would keep
// every slot for itself.
func TestSpinnersOfTwoPluginsBothGetOn(t *testing.T) {
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint("processors=", n), func(t *testing.T) {
			config := withProcessors(t, n)
			var seen [2]counting
			config.Metrics = func(plugin string) Metrics { return &seen[plugin[len(plugin)-1]-'a'] }
			s := newSandbox(t, config)
			var stops []func() []error
			for _, name := range []string{"plugin-a", "plugin-b"} {
				limits := endless
				limits.Instances = n
				stops = append(stops, spin(t, load(t, s, Plugin{Name: name, Wasm: spinner(name), Limits: limits}), n))
			}
			for i := range seen {
				seen[i].reach(5)
			}
			for _, stop := range stops {
				stop()
			}
			expectSlots(t, s, 0)
		})
	}
}

// counting are metrics that a test waits for.
type counting struct {
	mu        sync.Mutex
	changed   chan struct{}
	handovers int
	limits    []string
	waits     int
}

func (c *counting) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

func (c *counting) Waited(time.Duration) { c.note(func() { c.waits++ }) }
func (c *counting) HandedOver()          { c.note(func() { c.handovers++ }) }
func (c *counting) Limited(limit string) { c.note(func() { c.limits = append(c.limits, limit) }) }

// reach waits until so many slots were handed over.
func (c *counting) reach(handovers int) {
	for {
		c.mu.Lock()
		if c.handovers >= handovers {
			c.mu.Unlock()
			return
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		<-changed
	}
}

// TestABlockedHostFunctionHoldsNoSlot: the only slot is used by a neighbour
// while a call waits for the host.
func TestABlockedHostFunctionHoldsNoSlot(t *testing.T) {
	s := newSandbox(t, Config{Slots: 1})
	blocked := load(t, s, Plugin{Name: "blocked", Wasm: asking("blocked", 1), Limits: endless})
	neighbour := load(t, s, Plugin{Name: "neighbour", Wasm: asking("neighbour", 0)})
	begun, answer, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := blocked.Reconcile(t.Context(), Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) {
			close(begun)
			<-answer
			return nil, 0
		})})
		ended <- err
	}()
	<-begun
	for range 10 {
		reconcile(t, neighbour, Call{})
	}
	close(answer)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	expectSlots(t, s, 0)
}

// TestSlotsComeBackFromCallsThatFail, in every way that a call can end.
func TestSlotsComeBackFromCallsThatFail(t *testing.T) {
	s := newSandbox(t, Config{Slots: 1})
	trapping := newHand("trapping")
	for name, c := range map[string]struct {
		wasm []byte
		host hostFunc
	}{
		"trapping":  {wasm: trapping.wasm(nil, tck.Unreachable)},
		"spinner":   {wasm: spinner("spinner")},
		"panicking": {wasm: asking("panicking", 1), host: func(context.Context, []byte) ([]byte, int64) { panic("host") }},
		"late": {wasm: asking("late", 1), host: func(ctx context.Context, _ []byte) ([]byte, int64) {
			<-ctx.Done()
			return nil, 0
		}},
	} {
		g := load(t, s, Plugin{Name: name, Wasm: c.wasm})
		if c.host == nil {
			c.host = func(context.Context, []byte) ([]byte, int64) { return nil, 0 }
		}
		for range 3 {
			if _, err := g.Reconcile(t.Context(), Call{Host: c.host, Deadline: 10 * time.Millisecond}); err == nil {
				t.Errorf("%s succeeded", name)
			}
		}
		closeGuest(t, g)
		expectSlots(t, s, 0)
	}
}

// TestGrowthDoesNotWaitForItself: taking a new image needs a slot while calls
// of the same plugin wait for the image.
func TestGrowthDoesNotWaitForItself(t *testing.T) {
	s := newSandbox(t, Config{Slots: 1})
	h := newHand("growing")
	wasm := h.wasm(nil, tck.I32Const(1), tck.MemoryGrow, tck.Drop, h.ok())
	g := load(t, s, Plugin{Name: "growing", Wasm: wasm, Limits: Limits{Instances: 8}})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 4 * growthsToEnlarge {
				if _, err := g.Reconcile(t.Context(), Call{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	closeGuest(t, g)
	expectSlots(t, s, 0)
}

// TestLimitsAreCounted: each limit that ends or bounds a call, once per call.
func TestLimitsAreCounted(t *testing.T) {
	var seen counting
	s := newSandbox(t, Config{Metrics: func(string) Metrics { return &seen }})
	growing, talking, chatty := newHand("growing"), newHand("talking"), newHand("chatty")
	line := chatty.Import(abi.ImportModule, abi.ImportLog, logging, none)
	say := slices.Concat(tck.I32Const(1), tck.I32Const(0), tck.I32Const(20), tck.Call(line))
	big := hostFunc(func(context.Context, []byte) ([]byte, int64) { return make([]byte, 100), 0 })
	for _, c := range []struct {
		limit  string
		name   string
		wasm   []byte
		limits Limits
	}{
		{LimitMemory, "growing", growing.wasm(nil, tck.I32Const(5), tck.MemoryGrow, tck.Drop, growing.ok()), Limits{MemoryBytes: 4 * pageBytes}},
		{LimitTimeout, "spinner", spinner("spinner"), Limits{Deadline: 300 * time.Millisecond, Fuel: endless.Fuel}}, // of the load, too
		{LimitFuel, "spinner", spinner("spinner"), Limits{Deadline: endless.Deadline, Fuel: 1_000_000}},
		{LimitOutput, "talking", talking.wasm(nil, talking.say(0, 2048), talking.ok()), Limits{OutputBytes: 1024}},
		{LimitReply, "asking", asking("asking", 2), Limits{ReplyBytes: 99}},
		{LimitHostCalls, "asking", asking("asking", 4), Limits{HostCalls: 2}},
		{LimitLog, "chatty", chatty.wasm(nil, say, say, say, chatty.ok()), Limits{LogBytes: 100}},
	} {
		g := load(t, s, Plugin{Name: c.name, Wasm: c.wasm, Limits: c.limits})
		if len(seen.limits) > 0 {
			t.Errorf("%s: counted %v by the load", c.limit, seen.limits)
		}
		for range 2 {
			_, _ = g.Reconcile(t.Context(), Call{Host: big})
		}
		if !slices.Equal(seen.limits, []string{c.limit, c.limit}) {
			t.Errorf("%s: counted %v, want twice", c.limit, seen.limits)
		}
		seen.limits = nil
	}
}

// TestWaitingForAnInstanceIsCounted, as the limit of instances.
func TestWaitingForAnInstanceIsCounted(t *testing.T) {
	var seen counting
	s := newSandbox(t, Config{Slots: 2, Metrics: func(string) Metrics { return &seen }})
	limits := endless
	limits.Instances = 1
	g := load(t, s, Plugin{Name: "spinner", Wasm: spinner("spinner"), Limits: limits})
	stop := spin(t, g, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	if _, err := g.Reconcile(ctx, Call{}); !errors.Is(err, errEnough) {
		t.Errorf("got %v", err)
	}
	stop()
	if !slices.Equal(seen.limits, []string{LimitInstances}) {
		t.Errorf("counted %v", seen.limits)
	}
}
