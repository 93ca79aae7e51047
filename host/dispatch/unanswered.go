package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/object"
)

// unanswered are the changes that wait for what the account may see.
type unanswered struct {
	due chan struct{} // capacity 1; received by [Controller.Run], which then starts answer

	mu      sync.Mutex
	changes map[question]map[woken]change // nil: none
	order   []question                    // the keys of changes, in the order in which they are asked
	size    int                           // of all maps in changes
	missed  bool                          // there was no room for a change
	asking  bool                          // answer runs, or is due
}

// woken is a key that a change makes due.
type woken struct {
	key    object.Key
	reason abi.Reason
}

// maxUnanswered bounds the size of [unanswered], to some MiB.
const maxUnanswered = 16 << 10

func (u *unanswered) add(q question, made change, keys []object.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.changes[q] == nil {
		if u.size == maxUnanswered {
			u.missed = true
			return
		}
		if u.changes == nil {
			u.changes = map[question]map[woken]change{}
		}
		u.changes[q] = map[woken]change{}
		u.order = append(u.order, q)
	}
	for _, key := range keys {
		w := woken{key, made.Reason}
		before, waits := u.changes[q][w]
		switch {
		case waits:
			u.changes[q][w] = before.and(made)
		case u.size == maxUnanswered:
			u.missed = true
		default:
			u.changes[q][w] = made
			u.size++
		}
	}
	if !u.asking {
		u.asking = true
		u.due <- struct{}{}
	}
}

// first returns the question to ask now.
func (u *unanswered) first() (q question, waits bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.asking = len(u.order) > 0; !u.asking {
		u.changes, u.order = nil, nil // which may have been large
		return question{}, false
	}
	return u.order[0], true
}

// postpone makes the first question the last one.
func (u *unanswered) postpone() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.order = append(u.order[1:], u.order[0])
}

// take removes the first question and returns the changes that wait for it. missed is set if
// there was no room for others, and is now.
func (u *unanswered) take() (changes map[woken]change, missed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	q := u.order[0]
	changes, u.order = u.changes[q], u.order[1:]
	delete(u.changes, q)
	u.size -= len(changes)
	if missed = u.missed && u.size <= maxUnanswered/2; missed {
		u.missed = false
	}
	return changes, missed
}

// Pauses after a question that failed, while changes wait for it.
const (
	minAskPause = time.Second
	maxAskPause = 30 * time.Second
)

// answer asks what changes wait for, and makes keys due. It returns when no change waits.
func (c *Controller) answer(ctx context.Context) {
	pause := minAskPause
	for {
		q, waits := c.unanswered.first()
		if !waits {
			return
		}
		err := c.maySee(ctx, q)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !access.Denied(err):
			if c.LogLines == nil || c.LogLines.Allow(0) {
				c.Logger.Warn("changes of objects lead to no runs until it is known whether the service account of the plugin may see them", "kind", q.kind.String(), "error", err, "again", pause.String())
			}
			c.unanswered.postpone()
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, maxAskPause)
			continue
		}
		pause = minAskPause
		c.answered(err == nil)
	}
}

// answered makes the keys due that the changes concern which wait for the first question,
// and all keys if some changes could not be kept.
func (c *Controller) answered(allowed bool) {
	changes, missed := c.unanswered.take()
	if allowed {
		for w, made := range changes {
			c.changed(w.key, made)
		}
	}
	if missed {
		c.missedReads()
		c.Resync(c.keysWithState())
	}
}

// maySee returns nil if the account of the revision that now runs may do what is asked.
func (c *Controller) maySee(ctx context.Context, q question) error {
	for {
		revision := c.revision.Load()
		switch {
		case revision.Access == nil:
			return nil
		case !revision.Controller.MayRead(q.kind): // any more: it is not known how the kind is served
			return &access.DeniedError{}
		}
		bounded, cancel := context.WithTimeout(ctx, refreshTimeout)
		err := q.ask(bounded, revision.Access)
		cancel()
		if c.revision.Load() == revision {
			return err
		}
	}
}

// keysWithState returns the keys that have run. All others are due anyway.
func (c *Controller) keysWithState() (keys []object.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.keys {
		keys = append(keys, key)
	}
	return keys
}
