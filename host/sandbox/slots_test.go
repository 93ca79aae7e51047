package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

var errStop = errors.New("stop")

// untilStopped are the limits of guests that a test stops itself.
var untilStopped = Limits{Deadline: 24 * time.Hour, Fuel: math.MaxInt64 / 2}

// startSpinning starts calls that loop until stop is called, which returns their
// errors. When startSpinning returns, all calls have entered the guest.
func startSpinning(t *testing.T, g *Guest, calls int) (stop func() []error) {
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
		cancel(errStop)
		ended.Wait()
		return errs
	})
	t.Cleanup(func() { stop() })
	return stop
}

// withProcessors makes a test run with that many processors and slots.
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

// TestPluginRunsBesideSpinningOnes: as many calls spin as there are processors, or
// more; another plugin is loaded, called and closed meanwhile.
func TestPluginRunsBesideSpinningOnes(t *testing.T) {
	for _, n := range []int{1, 2} {
		for _, spinning := range []int{n, n + 1} {
			t.Run(fmt.Sprintf("processors=%d,spinning=%d", n, spinning), func(t *testing.T) {
				s := newSandbox(t, withProcessors(t, n))
				limits := untilStopped
				limits.Instances = spinning
				stop := startSpinning(t, load(t, s, Plugin{Name: "spinning", Wasm: spinningAfterGet("spinning"), Limits: limits}), spinning)
				neighbour := load(t, s, Plugin{Name: "neighbour", Wasm: callingGet("neighbour", 3)})
				calls := 0
				for range 10 {
					reconcile(t, neighbour, Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) {
						calls++
						runtime.GC()
						return nil, 0
					})})
				}
				closeGuest(t, neighbour)
				if calls != 30 {
					t.Errorf("the host was called %d times", calls)
				}
				for _, err := range stop() {
					if !errors.Is(err, errStop) {
						t.Errorf("a spinning call ended with %v before it was stopped", err)
					}
				}
				expectSlots(t, s, 0)
			})
		}
	}
}

// TestSpinningPluginsShareTheSlots: neither starves, although each would use all
// slots.
func TestSpinningPluginsShareTheSlots(t *testing.T) {
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint("processors=", n), func(t *testing.T) {
			config := withProcessors(t, n)
			var seen [2]recordingMetrics
			config.Metrics = func(plugin string) Metrics { return &seen[plugin[len(plugin)-1]-'a'] }
			s := newSandbox(t, config)
			var stops []func() []error
			for _, name := range []string{"plugin-a", "plugin-b"} {
				limits := untilStopped
				limits.Instances = n
				stops = append(stops, startSpinning(t, load(t, s, Plugin{Name: name, Wasm: spinningAfterGet(name), Limits: limits}), n))
			}
			for i := range seen {
				seen[i].waitForHandovers(5)
			}
			for _, stop := range stops {
				stop()
			}
			expectSlots(t, s, 0)
		})
	}
}

// recordingMetrics records metrics, for which a test can wait.
type recordingMetrics struct {
	mu        sync.Mutex
	changed   chan struct{}
	handovers int
	limits    []string
	waits     int
}

func (c *recordingMetrics) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

func (c *recordingMetrics) Waited(time.Duration) { c.note(func() { c.waits++ }) }

func (c *recordingMetrics) HandedOver() { c.note(func() { c.handovers++ }) }

func (c *recordingMetrics) Limited(limit string) {
	c.note(func() { c.limits = append(c.limits, limit) })
}

// waitForHandovers blocks until that many slots were handed over.
func (c *recordingMetrics) waitForHandovers(handovers int) {
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

// TestBlockedHostCallHoldsNoSlot: another plugin uses the only slot while a call
// waits for the host.
func TestBlockedHostCallHoldsNoSlot(t *testing.T) {
	s := newSandbox(t, Config{Slots: 1})
	blocked := load(t, s, Plugin{Name: "blocked", Wasm: callingGet("blocked", 1), Limits: untilStopped})
	neighbour := load(t, s, Plugin{Name: "neighbour", Wasm: callingGet("neighbour", 0)})
	begun, reply, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := blocked.Reconcile(t.Context(), Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) {
			close(begun)
			<-reply
			return nil, 0
		})})
		ended <- err
	}()
	<-begun
	for range 10 {
		reconcile(t, neighbour, Call{})
	}
	close(reply)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	expectSlots(t, s, 0)
}

// TestCallThatWaitsForAReplyHoldsNoSlot from the first moment on, and its deadline, which the host can
// read, ends it.
func TestCallThatWaitsForAReplyHoldsNoSlot(t *testing.T) {
	s := newSandbox(t, Config{Slots: 1})
	c, _ := tck.CaseOf("http-request")
	const deadline = 100 * time.Millisecond
	waiting := load(t, s, Plugin{Name: c.Name, Wasm: c.Wasm()})
	_, err := waiting.Reconcile(t.Context(), Call{Deadline: deadline, Host: hostFunc(func(ctx context.Context, _ []byte) ([]byte, int64) {
		expectSlots(t, s, 0)
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > deadline {
			t.Errorf("the deadline is at %s, %t", at, ok)
		}
		<-ctx.Done()
		return nil, abi.CodeUnavailable
	})})
	if fault, ok := errors.AsType[*Fault](err); !ok || fault.Class != abi.ClassTimeout {
		t.Errorf("the call ended with %v", err)
	}
	expectSlots(t, s, 0)
}

// TestFailedCallReleasesItsSlot, whatever the reason.
func TestFailedCallReleasesItsSlot(t *testing.T) {
	s := newSandbox(t, Config{Slots: 1})
	trapping := newTestGuest("trapping")
	for name, c := range map[string]struct {
		binary []byte
		host   hostFunc
	}{
		"trapping":  {binary: trapping.build(nil, tck.Unreachable)},
		"spinning":  {binary: spinningAfterGet("spinning")},
		"panicking": {binary: callingGet("panicking", 1), host: func(context.Context, []byte) ([]byte, int64) { panic("host") }},
		"late": {binary: callingGet("late", 1), host: func(ctx context.Context, _ []byte) ([]byte, int64) {
			<-ctx.Done()
			return nil, 0
		}},
	} {
		g := load(t, s, Plugin{Name: name, Wasm: c.binary})
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
