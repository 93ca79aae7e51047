package dispatch

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Breaker is the circuit breaker of one revision of a plugin, shared by its
// controllers. While the plugin itself fails for nearly every object, keys wait
// in their queues and one run at a time probes the plugin. A nil *Breaker is
// always closed. It is safe for concurrent use.
type Breaker struct {
	changed func(BreakerStatus)

	mu        sync.Mutex
	circuit   circuit
	lastFault *FaultReport
	wake      chan struct{} // closed and replaced when waiting workers must check again
	retired   bool
}

// BreakerStatus is the state of a breaker, in /plugins.
type BreakerStatus struct {
	State     BreakerState `json:"state"`
	Since     time.Time    `json:"since"`               // when it closed, or opened
	Reason    string       `json:"reason,omitempty"`    // why it opened
	NextProbe time.Time    `json:"nextProbe,omitzero"`  // no probe is made before; zero when closed
	LastFault *FaultReport `json:"lastFault,omitempty"` // of the revision, in any state
}

// NewBreaker returns a closed breaker. changed is called when it opens and when
// it closes, with a lock held: it must not call the breaker.
func NewBreaker(changed func(BreakerStatus)) *Breaker {
	return &Breaker{changed: changed, circuit: newCircuit(time.Now()), wake: make(chan struct{})}
}

// Status returns the present state.
func (b *Breaker) Status() BreakerStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status()
}

func (b *Breaker) status() BreakerStatus {
	c := &b.circuit
	return BreakerStatus{
		State: c.stateAt(time.Now()), Since: c.since.UTC(), Reason: c.reason, NextProbe: c.pausedUntil.UTC(), LastFault: b.lastFault,
	}
}

// wait blocks until a run may be admitted, the breaker is retired, or ctx is
// done.
func (b *Breaker) wait(ctx context.Context) {
	if b == nil {
		return
	}
	for {
		b.mu.Lock()
		ready := b.retired || b.circuit.admits(time.Now())
		until, wake := b.circuit.pausedUntil, b.wake
		b.mu.Unlock()
		if ready || !sleep(ctx, time.Until(until), wake) {
			return
		}
	}
}

// sleep blocks for a duration, if it is positive, and no longer than until wake
// is closed. It returns false if ctx is done.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	var expired <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-expired:
	case <-wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// retire must be called when the revision of the breaker is replaced. Workers that
// wait for the breaker stop waiting.
func (b *Breaker) retire() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retired = true
	b.wakeAll()
}

// wakeAll makes all waiting workers check again. b.mu is held.
func (b *Breaker) wakeAll() {
	close(b.wake)
	b.wake = make(chan struct{})
}

// permit allows one run. It is ended by the first call of report or cancel; later
// calls do nothing.
type permit struct {
	breaker *Breaker
	epoch   uint64 // of the circuit
	ended   bool
}

// admit returns a permit if a run is allowed now.
func (b *Breaker) admit() (*permit, bool) {
	if b == nil {
		return &permit{ended: true}, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retired {
		return &permit{ended: true}, true
	}
	epoch, ok := b.circuit.admit(time.Now())
	return &permit{breaker: b, epoch: epoch}, ok
}

// cancel ends a run that does not count.
func (p *permit) cancel() {
	p.end(func(c *circuit) { c.cancel(p.epoch) })
}

// report ends a run of an object that spent the given time in the guest. fault is
// nil unless the plugin itself failed.
func (p *permit) report(s subject, fault *FaultReport, took time.Duration) {
	p.end(func(c *circuit) {
		if fault != nil {
			p.breaker.lastFault = fault
		}
		c.report(time.Now(), p.epoch, s, fault != nil, took, rand.Float64())
	})
}

func (p *permit) end(change func(*circuit)) {
	if p.ended {
		return
	}
	p.ended = true
	b := p.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.circuit.state
	change(&b.circuit)
	after := b.circuit.state
	if after != BreakerClosed || before != BreakerClosed {
		b.wakeAll()
	}
	if (after == BreakerClosed) != (before == BreakerClosed) && !b.retired {
		b.changed(b.status())
	}
}
