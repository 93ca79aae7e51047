package dispatch

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/rights"
)

// Access is what the service account of a plugin may do with objects of the kinds that the
// plugin follows, as the API server decides. It is safe for concurrent use.
type Access interface {
	// May returns nil if the account may use a verb on an object, on all objects of a
	// namespace if the key has no name, or on all that there are if it has no namespace
	// either. The error is one of [access.Denied], or that of asking.
	May(ctx context.Context, verb string, kind abi.Kind, key object.Key) error
	// Known is May without asking: known is false if the answer is not remembered. It is
	// called for each event, and must not block.
	Known(verb string, kind abi.Kind, key object.Key) (allowed, known bool)
}

// question is whether the account may use one of some verbs on an object.
type question struct {
	verbs verbs
	kind  abi.Kind
	key   object.Key
}

// verbs are one or two; "" is none.
type verbs [2]string

var (
	toGet   = verbs{rights.Get}
	toList  = verbs{rights.List}
	toWatch = verbs{rights.Watch}
	toRead  = verbs{rights.Get, rights.List} // a run may have read the object either way
)

// questionOf returns the question for an object. Its names may be those of a guest, and are
// remembered: with one that is too long for a name it is about all that could be meant.
func questionOf(v verbs, kind abi.Kind, key object.Key) question {
	switch {
	case len(key.Namespace) > maxNamespace:
		key = object.Key{}
	case len(key.Name) > maxName:
		key.Name = ""
	}
	return question{v, kind, key}
}

// maxName is the length of a name of an object, but for those of very few kinds.
const maxName = validation.DNS1123SubdomainMaxLength

// known returns the answer if it is remembered.
func (q question) known(a Access) (allowed, known bool) {
	known = true
	for _, verb := range q.verbs {
		if verb == "" {
			break
		}
		may, remembered := a.Known(verb, q.kind, q.key)
		if may && remembered {
			return true, true
		}
		known = known && remembered
	}
	return false, known
}

// ask returns nil if the account may. The error is that of [Access].May for the first verb
// that it has one for other than a missing right, else for the first verb.
func (q question) ask(ctx context.Context, a Access) (denied error) {
	// The answer is remembered for longer than the message of a guest is there.
	kind := abi.Kind{APIVersion: strings.Clone(q.kind.APIVersion), Kind: strings.Clone(q.kind.Kind)}
	key := object.Key{Namespace: strings.Clone(q.key.Namespace), Name: strings.Clone(q.key.Name)}
	for _, verb := range q.verbs {
		if verb == "" {
			break
		}
		err := a.May(ctx, verb, kind, key)
		switch {
		case err == nil:
			return nil
		case !access.Denied(err):
			return err
		case denied == nil:
			denied = err
		}
	}
	return denied
}

// Bounds of how long runs wait for answers. Keys whose answers are known need the workers.
const (
	answerTimeout = 2 * time.Second
	// afterSlow is for how long no run asks after one has waited for answerTimeout.
	afterSlow = 10 * time.Second
)

var errNoAnswer = errors.New("the API server has not answered in time what the service account of the plugin may read")

// allowed returns nil if a run may do what is asked.
func (c *Controller) allowed(ctx context.Context, a Access, q question) error {
	if a == nil {
		return nil
	}
	allowed, known := q.known(a)
	switch {
	case allowed && known:
		return nil
	case !known && time.Now().UnixNano() < c.slowUntil.Load():
		return errNoAnswer
	}
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := q.ask(bounded, a)
	if err != nil && !access.Denied(err) && bounded.Err() != nil && ctx.Err() == nil {
		c.slowUntil.Store(time.Now().Add(afterSlow).UnixNano())
		return errNoAnswer
	}
	return err
}

// readsPrimary makes the run fail before the guest is called if the account may not read the
// primary, or if that is not known.
func (r *run) readsPrimary(ctx context.Context) {
	err := r.c.allowed(ctx, r.revision.Access, question{toGet, r.revision.Controller.For.Kind, r.item.Key})
	switch {
	case err == nil:
	case access.Denied(err):
		r.unread, r.fault = false, &outcome.Fault{Class: abi.ClassDenied, Message: err.Error()}
	default:
		r.cannotRead(err)
	}
}

// cannotRead makes the run fail because of the API server.
func (r *run) cannotRead(err error) {
	r.unread, r.fault = true, &outcome.Fault{Reason: "Unavailable", Message: err.Error()}
}

// may returns 0 if the account may do what the guest asks, else the code of the read.
func (g *guestCall) may(ctx context.Context, v verbs, kind abi.Kind, key object.Key) int64 {
	if g.revision.Access == nil {
		return 0
	}
	err := g.c.allowed(ctx, g.revision.Access, questionOf(v, kind, key))
	switch {
	case err == nil:
		return 0
	case access.Denied(err):
		return g.forbidden(kind, err)
	}
	g.incomplete = err
	g.warn("it is not known whether the service account of the plugin may read; the run is repeated", "kind", kind.String(), "error", err)
	return abi.CodeUnavailable
}

// mayList is may for a list of the namespaces, nil for all that there are.
func (g *guestCall) mayList(ctx context.Context, kind abi.Kind, namespaces []string) int64 {
	if namespaces == nil {
		return g.may(ctx, toList, kind, object.Key{})
	}
	for _, namespace := range namespaces {
		if code := g.may(ctx, toList, kind, object.Key{Namespace: namespace}); code != 0 {
			return code
		}
	}
	return 0
}

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
