package dispatch

import (
	"container/list"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/thole-dev/thole/host/queue"
)

// Breaker is the circuit breaker of one revision of a plugin, shared by its
// controllers. While the plugin itself fails for nearly every object, it holds keys in
// their queues, and single runs try whether the plugin works again. It holds no key whose
// namespace has credit for it: objects on which a plugin fails stop none on which it works.
// A nil *Breaker is always closed. It is safe for concurrent use.
//
// Locks are taken in this order: Breaker.mu, then those of the queues.
type Breaker struct {
	changed func(BreakerStatus)

	mu        sync.Mutex
	circuit   circuit
	credits   credits
	probes    lines
	trials    lines              // of objects that ran well, in namespaces without credit for them
	queues    map[Queue]struct{} // that hold keys
	lastFault *FaultReport
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
	b := &Breaker{changed: changed, circuit: newCircuit(time.Now()), credits: credits{}, queues: map[Queue]struct{}{}}
	b.probes = lines{pacer: &b.circuit.probe, byLine: map[line]*list.Element{}}
	b.trials = lines{pacer: &b.circuit.trial, byLine: map[line]*list.Element{}}
	return b
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
		State: c.stateAt(time.Now()), Since: c.since.UTC(), Reason: c.reason, NextProbe: c.probe.until.UTC(), LastFault: b.lastFault,
	}
}

// retire must be called when the revision of the breaker is replaced. All keys that it holds
// are released, and it admits every run.
func (b *Breaker) retire() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retired = true
	b.releaseAll()
}

// permit allows one run. It is ended by the first call of report or cancel; later
// calls do nothing.
type permit struct {
	breaker *Breaker
	subject
	standing
	admission
	epoch uint64 // of the circuit
	ended bool
}

// admission is why a run was admitted.
type admission uint8

const (
	counted  admission = iota // the circuit is closed, or it is the probe
	onCredit                  // its namespace has credit
	asTrial
)

// admit returns a permit if a key with a standing, which was taken from its queue, may run now.
// Otherwise the queue has it again, and holds it until its turn.
func (b *Breaker) admit(q Queue, item queue.Item, controller string, s standing) (*permit, bool) {
	if b == nil {
		return &permit{ended: true}, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retired {
		return &permit{ended: true}, true
	}
	p := &permit{breaker: b, subject: subject{controller, item.Key}, standing: s, epoch: b.circuit.epoch}
	if b.circuit.state == BreakerClosed {
		return p, true
	}
	defer b.advance()
	if b.admitOpen(p, q) {
		return p, true
	}
	l := line{q, p.tenant(), s}
	if b.queues[q] = struct{}{}; q.Hold(item, l.group()) {
		b.linesOf(s).add(l)
	}
	return nil, false
}

// admitOpen is admit while the circuit is not closed. b.mu is held.
func (b *Breaker) admitOpen(p *permit, q Queue) (ok bool) {
	taken, now := heldKey{q, p.key}, time.Now()
	probe, trial := b.probes.takes(taken), b.trials.takes(taken)
	switch {
	case b.credits.left(p.tenant(), p.standing) > 0:
		p.admission, ok = onCredit, true // even if it was its turn, which the next one has then
	case p.standing == ranWell && trial:
		p.admission = asTrial
		p.epoch, ok = b.circuit.admitTrial(now)
	case p.standing != ranWell && probe:
		p.epoch, ok = b.circuit.admit(now)
	}
	return ok
}

// turnsOf returns the turns of keys with a standing.
func (b *Breaker) linesOf(s standing) *lines {
	if s == ranWell {
		return &b.trials
	}
	return &b.probes
}

// advance gives the next keys their turns, if it is time for that. b.mu is held.
func (b *Breaker) advance() {
	if b.retired || b.circuit.state == BreakerClosed {
		return
	}
	now := time.Now()
	b.probes.advance(now, b.pauseEnded)
	b.trials.advance(now, b.pauseEnded)
}

func (b *Breaker) pauseEnded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance()
}

// releaseOnCredit releases as many keys of a namespace as it has credit for. The end of the run of
// each of them releases more. b.mu is held.
func (b *Breaker) releaseOnCredit(tenant string) {
	for _, s := range [...]standing{ranWell, notRun} {
		n, lines := b.credits.left(tenant, s), b.linesOf(s)
		if n == 0 || len(lines.byLine) == 0 {
			continue
		}
		for q := range b.queues {
			lines.release(line{q, tenant, s}, n)
		}
	}
}

// releaseAll releases every key. b.mu is held.
func (b *Breaker) releaseAll() {
	b.probes.clear()
	b.trials.clear()
	for q := range b.queues {
		q.ReleaseAll()
	}
	clear(b.queues)
}

// cancel ends a run that does not count.
func (p *permit) cancel() {
	p.end(func(b *Breaker) {
		switch p.admission {
		case counted:
			b.circuit.cancel(p.epoch)
		case asTrial:
			b.circuit.endTrial(time.Now(), p.epoch, false, 0)
		case onCredit:
		}
	})
}

// report ends a run of an object that spent the given time in the guest. fault is
// nil unless the plugin itself failed.
func (p *permit) report(fault *FaultReport, took time.Duration) {
	p.end(func(b *Breaker) {
		if fault != nil {
			b.lastFault = fault
		}
		now, fails := time.Now(), fault != nil
		b.credits.add(p.tenant(), p.standing, fails, took)
		if p.admission == counted {
			b.circuit.report(now, p.epoch, p.subject, fails, took, rand.Float64())
			return
		}
		if p.admission == asTrial {
			b.circuit.endTrial(now, p.epoch, fails, took)
		}
		if !fails {
			b.circuit.ranWell(now, p.epoch)
		}
	})
}

func (p *permit) end(change func(*Breaker)) {
	if p.ended {
		return
	}
	p.ended = true
	b := p.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retired {
		return
	}
	before := b.circuit.state
	change(b)
	after := b.circuit.state
	if after != BreakerClosed {
		b.releaseOnCredit(p.tenant())
		b.advance()
	} else if before != BreakerClosed {
		b.releaseAll()
	}
	if (after == BreakerClosed) != (before == BreakerClosed) {
		b.changed(b.status())
	}
}
