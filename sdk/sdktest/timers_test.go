package sdktest

import (
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/timers"
)

// timed returns a world with one object, for a controller with the timers probe, each minute
// from the tenth second on, and tidy, an hour after the last change.
func timed(tb testing.TB) (*World, *script) {
	tb.Helper()
	s := newScript()
	s.controller.Sections = []abi.Section{{Name: contract.Name, Value: contract.Encode([]contract.Timer{
		{Name: "probe", Interval: 60_000, InitialDelay: 10_000, Sharp: true},
		{Name: "tidy", Interval: 600_000, Idle: 3_600_000},
	})}}
	w := NewWith(tb, s)
	w.createOne()
	return w, s
}

// expectTimers runs the object and expects that these timers are due, and when the next one is.
func (s *script) expectTimers(w *World, next time.Duration, due ...string) *Run {
	w.tb.Helper()
	r := w.Reconcile("ns/one")
	named, _ := contract.DecodeDue(s.request.Section(contract.Name))
	if !slices.Equal(r.Timers, due) || !slices.Equal(named, due) {
		w.tb.Errorf("the timers %q are due, and %q in the request, expected %q", r.Timers, named, due)
	}
	if named := slices.Contains(s.request.Reasons, abi.ReasonTimer); named != (len(due) > 0) {
		w.tb.Errorf("the reasons are %q", s.request.Reasons)
	}
	if r.NextTimer != next {
		w.tb.Errorf("the next timer is due after %s, expected %s", r.NextTimer, next)
	}
	return r
}

func TestTimersAreDueByTheTimeOfTheWorld(t *testing.T) {
	w, s := timed(t)
	s.expectTimers(w, 10*time.Second)
	w.Advance(10 * time.Second)
	r := s.expectTimers(w, time.Minute, "probe")
	w.Advance(r.NextTimer)
	s.expectTimers(w, time.Minute, "probe")
	w.Advance(90 * time.Second)
	s.expectTimers(w, 30*time.Second, "probe")
	s.expectTimers(w, 30*time.Second)
}

func TestARunThatFailsHasItsTimersAgain(t *testing.T) {
	w, s := timed(t)
	w.Advance(11 * time.Second)
	s.code = abi.CodeRetry
	s.expectTimers(w, time.Hour-11*time.Second, "probe")
	s.code = abi.CodeStalled
	s.expectTimers(w, 0, "probe")
	s.code = abi.CodeOK
	s.expectTimers(w, 59*time.Second, "probe")
}

func TestAChangeOfTheWorldPostponesATimerWithIdle(t *testing.T) {
	w, s := timed(t)
	s.expectTimers(w, 10*time.Second)
	w.Advance(30 * time.Minute)
	w.Change(theOne, `{"status":{"a":1}}`)
	w.Change(theOne, `{"spec":{"a":2}}`)
	s.expectTimers(w, 10*time.Second, "probe")
	w.Advance(time.Hour - time.Second)
	w.Change(theOne, `{"status":{"a":2}}`)
	s.expectTimers(w, time.Second, "probe")
	w.Advance(time.Second)
	s.expectTimers(w, 10*time.Second, "tidy")
}

func TestARestartOfTheWorldMakesUpForNoTimer(t *testing.T) {
	w, s := timed(t)
	s.expectTimers(w, 10*time.Second)
	w.Advance(5*time.Minute + 30*time.Second)
	w.Restart()
	s.expectTimers(w, 40*time.Second)
}

func TestACleanupOfTheWorldHasNoTimers(t *testing.T) {
	w, s := timed(t)
	s.result.Status = []byte(`{}`)
	s.expectTimers(w, 10*time.Second)
	w.Advance(time.Minute)
	w.Delete(theOne)
	s.code = abi.CodeRetry
	s.expectTimers(w, 0)
}
