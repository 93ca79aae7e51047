package cache

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	operator "k8s.io/apimachinery/pkg/selection"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/object"
)

// This file finds or starts the informers for what a user follows.

// selected identifies what an informer follows: of one namespace, or of all.
type selected struct {
	kind           abi.Kind
	namespace      string
	labels, fields string // selectors as text
	metadataOnly   bool
}

func selectedBy(s scope.Scope) selected {
	return selected{s.Kind, strings.Join(s.Namespaces, ","), s.LabelSelector(), s.FieldSelector(), s.MetadataOnly}
}

// Acquire returns an informer of what a scope has, and starts what of it is not
// running. Users with the same scope share it; one that has more serves those who need
// less, if it runs and has synced. It does not wait until the informer has synced. The
// caller must call [Informer.Release]. The error is an [*object.UnknownKindError] while
// the API server does not serve the kind, which may change at any time, or a
// [*NotListableError] or [*ScopeError]. A kind that cannot be watched is listed at an interval,
// see [Informer.PollEvery].
func (c *Cache) Acquire(ctx context.Context, s scope.Scope) (*Informer, error) {
	// Once: what is started must be of the scope by which the parts were made.
	followable := sync.OnceValues(func() (object.Resource, error) { return c.Followable(ctx, s.Kind) })
	parts, err := c.split(s, followable)
	if err != nil {
		return nil, err
	}
	i := &Informer{scope: s}
	for n, part := range parts {
		shared, err := c.acquire(part, followable)
		if err != nil {
			i.Release()
			return nil, err
		}
		if shared.scope.Namespaces == nil && !shared.Namespaced() { // the next ones would show the same objects
			i.add(shared, s.Within(s.Namespaces[n:]))
			break
		}
		i.add(shared, part.Within(s.Namespaces))
	}
	return i, nil
}

// split returns the scopes of the informers for a scope: one for each namespace, or one for
// all. A cluster-scoped kind is followed as a whole, so that nothing is missing or there
// twice if its CRD is made again with the other scope.
func (c *Cache) split(s scope.Scope, followable func() (object.Resource, error)) (parts []scope.Scope, err error) {
	only, whole := c.config.Namespace, s
	whole.Namespaces = nil
	switch {
	case only != "" && !s.HasNamespace(only):
		return nil, &ScopeError{Scope: s, Reason: fmt.Sprintf("the host is restricted to the namespace %q", only)}
	case only != "":
		return []scope.Scope{whole.Within([]string{only})}, nil
	case s.Namespaces == nil:
		return []scope.Scope{s}, nil
	}
	// If the kind cannot be looked up, informers that run already serve it all the same.
	if r, err := followable(); err == nil && !r.Namespaced {
		return []scope.Scope{whole}, nil
	}
	for _, namespace := range s.Namespaces {
		parts = append(parts, whole.Within([]string{namespace}))
	}
	return parts, nil
}

// acquire returns an informer that follows a scope of one namespace or of all, for one
// more user.
func (c *Cache) acquire(s scope.Scope, followable func() (object.Resource, error)) (*informer, error) {
	if i := c.running(s); i != nil {
		return i, nil
	}
	resource, err := followable()
	if err != nil {
		return nil, err
	}
	return c.start(resource, s)
}

// running returns a running informer for one more user, nil if there is none.
func (c *Cache) running(s scope.Scope) *informer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runningLocked(s)
}

func (c *Cache) runningLocked(s scope.Scope) *informer {
	i := c.informers[selectedBy(informerScope(s))]
	if i == nil {
		i = c.wider(s)
	}
	if i == nil {
		return nil
	}
	i.users++
	if i.idle != nil {
		i.idle.Stop()
		i.idle = nil
	}
	return i
}

// wider returns an informer that follows more than a scope, nil if there is none. One
// that does not work is not used: the narrower one may need other rights.
func (c *Cache) wider(s scope.Scope) (found *informer) {
	for _, i := range c.informers {
		if i.scope.Covers(s) && i.HasSynced() && i.Err() == nil &&
			(found == nil || cmp.Compare(i.scope.String(), found.scope.String()) < 0) {
			found = i
		}
	}
	return found
}

// informerScope returns the scope of the informer for a scope. What plugins own is followed once
// for all of them.
func informerScope(s scope.Scope) scope.Scope {
	if s.Managed {
		exists, _ := labels.NewRequirement(abi.LabelManagedBy, operator.Exists, nil) // cannot fail
		s.Managed, s.Labels = false, labels.NewSelector().Add(*exists)
	}
	return s
}

func (c *Cache) start(resource object.Resource, s scope.Scope) (*informer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, ErrStopped
	}
	if i := c.runningLocked(s); i != nil {
		return i, nil // started by another goroutine meanwhile
	}
	i, err := c.newInformer(resource, informerScope(s))
	if err != nil {
		return nil, err
	}
	c.informers[i.selected] = i
	i.start()
	return c.runningLocked(s), nil
}

func (c *Cache) newInformer(resource object.Resource, s scope.Scope) (*informer, error) {
	client, err := c.client(resource.Kind, s.MetadataOnly)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", s, err)
	}
	i := c.makeInformer(resource, s)
	i.client = client
	if resource.Polled {
		i.pollsInto(c.pollCountsOf(resource.Kind))
	}
	return i, nil
}

// release removes one user of an informer. The last one starts the timer that
// stops the informer.
func (c *Cache) release(i *informer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.users--; i.users > 0 || c.ctx.Err() != nil {
		return
	}
	// In a goroutine of its own, because a fake clock calls with its lock held.
	i.idle = c.config.Clock.AfterFunc(c.config.IdleAfter, func() { go c.retire(i) })
}

// retire stops an informer unless it has users again.
func (c *Cache) retire(i *informer) {
	c.mu.Lock()
	if i.users > 0 || c.ctx.Err() != nil || c.informers[i.selected] != i {
		c.mu.Unlock()
		return
	}
	delete(c.informers, i.selected)
	c.stopping.Add(1)
	c.mu.Unlock()
	defer c.stopping.Done()
	i.stop()
}

// Objects yields the objects of a kind that running informers have, each once. It starts
// none.
func (c *Cache) Objects(kind abi.Kind) iter.Seq[*object.Object] {
	return func(yield func(*object.Object) bool) {
		seen := map[object.Key]bool{}
		for _, i := range c.synced(kind) {
			for o := range i.store.each {
				if key := o.Key(); !seen[key] {
					seen[key] = true
					if !yield(o) {
						return
					}
				}
			}
		}
	}
}

// synced returns the informers of a kind that have synced, in some order that stays.
func (c *Cache) synced(kind abi.Kind) (all []*informer) {
	c.mu.Lock()
	running := slices.Collect(maps.Values(c.informers))
	c.mu.Unlock()
	for _, i := range running {
		if i.scope.Kind == kind && i.HasSynced() {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b *informer) int { return cmp.Compare(a.scope.String(), b.scope.String()) })
	return all
}

// ScopeError is returned for a scope that cannot be followed.
type ScopeError struct {
	Scope  scope.Scope
	Reason string
}

func (e *ScopeError) Error() string {
	return fmt.Sprintf("%s cannot be followed: %s", e.Scope, e.Reason)
}
