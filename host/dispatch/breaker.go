package dispatch

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Breaker is the circuit breaker of one generation of a plugin, shared by its
// controllers: when the plugin itself fails for nearly everything, runs wait
// in their queues, and one at a time probes whether it is better. A nil
// *Breaker is always closed. It is safe for concurrent use.
type Breaker struct {
	changed func(BreakerStatus)

	mu      sync.Mutex
	circuit circuit
	last    *FaultReport
	wake    chan struct{} // closed and made anew when a run may be let through
	retired bool
}

// BreakerStatus is what people see of a breaker.
type BreakerStatus struct {
	State     BreakerState `json:"state"`
	Since     time.Time    `json:"since"`               // of closed, or of the opening
	Reason    string       `json:"reason,omitempty"`    // of the opening
	NextProbe time.Time    `json:"nextProbe,omitzero"`  // not before; not when closed
	LastFault *FaultReport `json:"lastFault,omitempty"` // of the generation, in any state
}

// NewBreaker returns a closed breaker. changed is told when it opens and when
// it closes, one at a time; it may not call the breaker.
func NewBreaker(changed func(BreakerStatus)) *Breaker {
	return &Breaker{changed: changed, circuit: newCircuit(time.Now()), wake: make(chan struct{})}
}

// Status describes the breaker now.
func (b *Breaker) Status() BreakerStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status()
}

func (b *Breaker) status() BreakerStatus {
	c := &b.circuit
	return BreakerStatus{State: c.at(time.Now()), Since: c.since.UTC(), Reason: c.reason, NextProbe: c.until.UTC(), LastFault: b.last}
}

// wait returns when a run may be let through, the breaker was retired, or ctx
// is done.
func (b *Breaker) wait(ctx context.Context) {
	if b == nil {
		return
	}
	for {
		b.mu.Lock()
		free := b.retired || b.circuit.state == BreakerClosed || b.circuit.free(time.Now())
		until, wake := b.circuit.until, b.wake
		b.mu.Unlock()
		if free || !sleep(ctx, time.Until(until), wake) {
			return
		}
	}
}

// sleep waits for a time if it is in the future, else for wake, which may
// come earlier. It returns false when ctx is done.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// retire ends the breaker with its generation: nobody waits for it any more.
func (b *Breaker) retire() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retired = true
	b.rouse()
}

// rouse lets those who wait look again. b.mu is held.
func (b *Breaker) rouse() {
	close(b.wake)
	b.wake = make(chan struct{})
}

// pass is the leave of one run. It is ended once, by report or cancel; ending
// it again does nothing.
type pass struct {
	b       *Breaker
	stretch uint64
	ended   bool
}

// admit lets a run through, or not.
func (b *Breaker) admit() (*pass, bool) {
	if b == nil {
		return &pass{ended: true}, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retired {
		return &pass{ended: true}, true
	}
	stretch, ok := b.circuit.admit(time.Now())
	return &pass{b: b, stretch: stretch}, ok
}

// cancel ends a run that says nothing about the plugin.
func (p *pass) cancel() {
	p.end(func(c *circuit) { c.cancel(p.stretch) })
}

// report ends a run of an object, after the given time in the guest; fault is
// nil if the plugin ended it.
func (p *pass) report(s subject, fault *FaultReport, took time.Duration) {
	p.end(func(c *circuit) {
		if fault != nil {
			p.b.last = fault
		}
		c.report(time.Now(), p.stretch, s, fault != nil, took, rand.Float64())
	})
}

func (p *pass) end(how func(*circuit)) {
	if p.ended {
		return
	}
	p.ended = true
	b := p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.circuit.state
	how(&b.circuit)
	if after := b.circuit.state; after != BreakerClosed || before != BreakerClosed {
		b.rouse()
	}
	if closed := b.circuit.state == BreakerClosed; closed != (before == BreakerClosed) && !b.retired {
		b.changed(b.status())
	}
}
