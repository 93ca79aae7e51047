package memory

import (
	"fmt"
	"time"
)

// Caller is a call on an instance, as far as its memory is concerned.
type Caller interface {
	// Wait blocks until a channel is closed, or for a moment. An error ends the
	// wait for good: the call is to end.
	Wait(released <-chan struct{}) error
	// End makes the call end soon, if it still runs, with an error that wraps
	// [ErrExhausted]. It does not block.
	End(reason error)
}

const (
	// grace is how long a guest waits for an even share until calls are ended for
	// it: most calls end sooner by themselves.
	grace = 20 * time.Millisecond
	// longestWait bounds the wait for calls that have been ended, and do not end.
	longestWait = 5 * time.Second
)

// reclaim reserves bytes that are not free, if they are within an even share. What
// is missing is then with guests that have more than theirs, whose idle instances
// are dropped and whose calls are ended.
func (a *Account) reclaim(n uint64, c Caller) error {
	if c == nil || !a.owe(n) {
		return a.refuse(n)
	}
	defer a.disown(n)
	for began := time.Now(); time.Since(began) < longestWait && a.shares(n); {
		released := a.budget.awaited()
		if a.tryReserve(n) {
			return nil
		}
		if a.budget.dropIdle(true) {
			continue
		}
		if time.Since(began) >= grace {
			a.budget.endLargest()
		}
		if c.Wait(released) != nil {
			break
		}
	}
	return a.refuse(n)
}

// owe notes that a guest waits for bytes, so that they are kept from those that have
// more than an even share. It reports whether the guest has no more with them.
func (a *Account) owe(n uint64) bool {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.excess(n) > 0 {
		return false
	}
	b.owed += n
	return true
}

func (a *Account) disown(n uint64) {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.budget.owed -= n
}

// awaited returns a channel that is closed when memory is released.
func (b *Budget) awaited() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released == nil {
		b.released = make(chan struct{})
	}
	return b.released
}

// endLargest ends a call of the guest that has most beyond an even share, unless
// what is free and what ended calls will release is enough for all who wait.
func (b *Budget) endLargest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit-b.used+b.reclaiming >= b.owed {
		return
	}
	var found *Linear
	most := uint64(0)
	for a := range b.accounts {
		m, ending := a.largestRunning()
		if excess := a.excess(0); m != nil && excess > ending && excess-ending > most {
			found, most = m, excess-ending
		}
	}
	if found == nil {
		return
	}
	found.reclaimed = found.Held()
	b.reclaiming += found.reclaimed
	found.running.End(&exhaustedError{exceedsEvenShare: true, text: fmt.Sprintf(
		"the plugin has %s, which is %s more than an even share, and another one needs its own: raise guestMemoryMiB in the host's configuration, or run less at once",
		mib(found.account.used), mib(most))})
}

// largestRunning returns the largest memory with a call that was not ended yet, or
// nil, and the bytes of those that were. It must be called with the lock held.
func (a *Account) largestRunning() (found *Linear, ending uint64) {
	for m := range a.linears {
		ending += m.reclaimed
		if m.running != nil && m.reclaimed == 0 && (found == nil || m.Held() > found.Held()) {
			found = m
		}
	}
	return found, ending
}

func (a *Account) add(m *Linear) {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.linears[m] = struct{}{}
}

func (a *Account) forget(m *Linear) {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	delete(a.linears, m)
}

// setCaller begins or ends a call.
func (m *Linear) setCaller(c Caller) {
	m.caller = c
	b := m.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reclaiming -= m.reclaimed
	m.running, m.reclaimed = c, 0
}
