package access

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/thole-dev/thole/host/internal/explain"
)

// This file decides who may get metrics, states and other paths of the host, also while the API
// server cannot be asked: that is when one looks.

const (
	// viewedFor is for how long who was allowed to get a path may get it in an outage.
	viewedFor = time.Hour
	// viewerPatience bounds the wait of such a request, and for viewerPause after one has waited in
	// vain the others do not.
	viewerPatience = 2 * time.Second
	viewerPause    = 10 * time.Second
	// maxViewers bounds the tokens that are remembered.
	maxViewers = 256
)

// Viewers decides who may get paths of the host. It is safe for concurrent use.
type Viewers struct {
	tokens *Tokens
	access *Reviewer
	clock  clock.PassiveClock

	mu     sync.Mutex
	seen   *lru.Cache // of *viewer, by SHA-256 of the token
	paused time.Time  // until then nobody who was allowed waits for the API server
}

// viewer is who has a token, and when they were allowed to get a path.
type viewer struct {
	caller  *Caller
	allowed map[string]time.Time
}

// NewViewers returns viewers of whom nobody is known yet.
func NewViewers(tokens *Tokens, reviewer *Reviewer) *Viewers {
	return &Viewers{tokens: tokens, access: reviewer, clock: tokens.Clock, seen: lru.New(maxViewers)}
}

// MayGet returns whose token it is, nil if it is not accepted, and whether they may get a path. In
// an outage that is who was allowed in the last hour. After an error nothing is allowed. from is the
// address that the token comes from.
func (v *Viewers) MayGet(ctx context.Context, from, token, path string) (caller *Caller, allowed bool, err error) {
	id := sha256.Sum256([]byte(token))
	before, paused := v.before(id, path)
	if paused {
		return before, true, nil
	}
	bounded := ctx
	if before != nil {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, viewerPatience)
		defer cancel()
	}
	if caller, err = v.tokens.Caller(bounded, from, token); err == nil && caller != nil {
		allowed, err = v.access.MayGet(bounded, caller, path)
	}
	switch {
	case err == nil:
		v.note(id, path, caller, allowed)
	case before != nil && ctx.Err() == nil && explain.Outage(err):
		v.pause()
		return before, true, nil
	}
	return caller, allowed, err
}

// before returns who was allowed to get a path lately, nil if nobody was, and whether they need not
// wait.
func (v *Viewers) before(id [sha256.Size]byte, path string) (caller *Caller, paused bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.clock.Now()
	known, ok := v.seen.Get(id)
	if !ok {
		return nil, false
	}
	at, ok := known.(*viewer).allowed[path]
	if !ok || now.Sub(at) > viewedFor {
		return nil, false
	}
	return known.(*viewer).caller, now.Before(v.paused)
}

// note remembers an answer. Nothing is left of a token that is not accepted any more.
func (v *Viewers) note(id [sha256.Size]byte, path string, caller *Caller, allowed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.paused = time.Time{}
	known, ok := v.seen.Get(id)
	switch {
	case caller == nil:
		v.seen.Remove(id)
	case allowed && !ok:
		v.seen.Add(id, &viewer{caller, map[string]time.Time{path: v.clock.Now()}})
	case allowed:
		known.(*viewer).allowed[path] = v.clock.Now()
	case ok:
		delete(known.(*viewer).allowed, path)
	}
}

func (v *Viewers) pause() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.paused = v.clock.Now().Add(viewerPause)
}
