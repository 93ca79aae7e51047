package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/object"
)

// informers are the informers that the running revision of a plugin reads.
type informers struct {
	mu     sync.RWMutex
	byKind map[abi.Kind]*cache.Informer
}

func (i *informers) get(kind abi.Kind) *cache.Informer {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.byKind[kind]
}

// replace sets the informers and releases those before. An informer in both sets
// keeps running: it was acquired twice for a moment.
func (i *informers) replace(byKind map[abi.Kind]*cache.Informer) {
	i.mu.Lock()
	before := i.byKind
	i.byKind = byKind
	i.mu.Unlock()
	release(before)
}

func release(byKind map[abi.Kind]*cache.Informer) {
	for _, informer := range byKind {
		informer.Release()
	}
}

// problems describes for each kind that cannot be followed now why not.
func (i *informers) problems() (all []string) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for kind, informer := range i.byKind {
		if err := informer.Err(); err != nil {
			all = append(all, fmt.Sprintf("%s: %s", kind, advise(err)))
		}
	}
	slices.Sort(all)
	return all
}

// kindsOf returns the kinds that the controllers of a manifest read, sorted.
func kindsOf(m *abi.Manifest) []abi.Kind {
	var kinds []abi.Kind
	for _, c := range m.Controllers {
		for w := range c.Follows() {
			kinds = append(kinds, w.Kind)
		}
	}
	slices.SortFunc(kinds, func(a, b abi.Kind) int {
		return slices.Compare([]string{a.APIVersion, a.Kind}, []string{b.APIVersion, b.Kind})
	})
	return slices.Compact(kinds)
}

// acquireInformers acquires an informer for each kind and blocks until all have
// synced. The error covers every kind that is missing. Informers that the running
// revision uses already are not waited for: if one of them can no longer follow
// its kind, that concerns the running code as much as the new code. waitsFor is
// called with what is waited for next.
func acquireInformers(ctx context.Context, c *cache.Cache, kinds []abi.Kind, running *informers, waitsFor func(string)) (map[abi.Kind]*cache.Informer, error) {
	byKind := map[abi.Kind]*cache.Informer{}
	var problems []error
	for _, kind := range kinds {
		waitsFor("the API server to state how it serves " + kind.String())
		informer, err := c.Acquire(ctx, kind)
		if err == nil {
			byKind[kind] = informer
			continue
		}
		if problems = append(problems, err); !concernsOneKind(err) {
			break // the next kinds would fail likewise, after the same timeout
		}
	}
	for _, kind := range kinds { // in their order, so that the same problems have the same text
		if informer := byKind[kind]; informer != nil && running.get(kind) == nil {
			waitsFor("the first list of " + kind.String())
			if err := informer.WaitForSync(ctx); err != nil {
				problems = append(problems, err)
			}
		}
	}
	if err := acquireError(ctx, problems); err != nil {
		release(byKind)
		return nil, err
	}
	return byKind, nil
}

// concernsOneKind reports whether an error does not affect other kinds.
func concernsOneKind(err error) bool {
	var unknown *object.UnknownKindError
	var notWatchable *cache.NotWatchableError
	return errors.As(err, &unknown) || errors.As(err, &notWatchable)
}

// acquireError makes one error of all, a [catalog.WaitError] unless another
// attempt cannot help.
func acquireError(ctx context.Context, problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var reasons []string
	for _, err := range problems {
		if notWatchable := (*cache.NotWatchableError)(nil); errors.As(err, &notWatchable) {
			return kindError{err}
		}
		reasons = append(reasons, advise(err))
	}
	return &catalog.WaitError{Reason: strings.Join(slices.Compact(reasons), "; ")}
}

// kindError is a manifest with a kind that cannot be followed.
type kindError struct{ error }

// LoadStep names the step for metrics.
func (kindError) LoadStep() string { return "kind" }

func (e kindError) Unwrap() error { return e.error }

// advise describes an error and what to do about it. The text does not change
// while the problem stays the same, so that it is reported once.
func advise(err error) string {
	if apierrors.IsUnauthorized(err) {
		return fmt.Sprintf("the API server does not accept the credentials of the host, trying again: renew those in --kubeconfig or the token of the service account (%v)", err)
	}
	if text, ok := explain.Unreachable(err); ok {
		return text + ", trying again: check that it runs and that --kubeconfig names it"
	}
	return err.Error()
}

// controllerCache implements [dispatch.Cache] for one controller.
type controllerCache struct {
	cache      *cache.Cache
	controller string // plugin/controller, the owner of the edges
	primary    abi.Kind
	informers  *informers
	ownWrites  *cache.OwnWrites
}

var _ dispatch.Cache = controllerCache{}

// Get returns nothing for a controller that has been stopped: an event that is
// being delivered to it may still arrive.
func (c controllerCache) Get(key object.Key) (*object.Object, bool) {
	informer := c.informers.get(c.primary)
	if informer == nil {
		return nil, false
	}
	o := c.ownWrites.Get(informer, key)
	return o, o != nil
}

// Wrote ignores a kind without an informer, which is written and not read.
func (c controllerCache) Wrote(key object.Key, w effect.Write) {
	informer := c.informers.get(w.Kind)
	switch {
	case informer == nil:
	case w.Gone():
		c.ownWrites.Deleted(informer, w.Key, w.UID, w.ResourceVersion)
	default:
		c.ownWrites.Wrote(informer, w.Object)
		informer.WakeIfSkipped(c.owner(key), w.ResourceVersion)
	}
}

func (c controllerCache) Full() bool { return c.ownWrites.Full() }

func (c controllerCache) Refresh(ctx context.Context, reader object.Key, ref abi.Ref) error {
	informer := c.informers.get(abi.Kind{APIVersion: ref.APIVersion, Kind: ref.Kind})
	if informer == nil {
		return nil
	}
	key := object.Key{Namespace: ref.Namespace, Name: ref.Name}
	o, err := informer.Live(ctx, key)
	switch shown := c.ownWrites.Get(informer, key); {
	case err == nil:
		c.ownWrites.Wrote(informer, o)
		informer.WakeIfSkipped(c.owner(reader), o.ResourceVersion)
	case !apierrors.IsNotFound(err):
		return explain.Forbidden(err, "get")
	case shown != nil:
		c.ownWrites.Deleted(informer, key, shown.UID, shown.ResourceVersion)
	}
	return nil
}

func (c controllerCache) Begin(key object.Key) dispatch.Reads {
	return c.cache.Begin(c.owner(key), c.ownWrites, c.informers.get)
}

func (c controllerCache) Namespaced(kind abi.Kind) (bool, error) {
	informer := c.informers.get(kind)
	if informer == nil {
		return false, cache.ErrNotFollowed
	}
	return informer.Namespaced(), nil
}

func (c controllerCache) Forget(key object.Key) { c.cache.Forget(c.owner(key)) }

func (c controllerCache) owner(key object.Key) cache.Owner {
	return cache.Owner{Controller: c.controller, Key: key}
}

// effectStore implements [effect.Store] for one plugin.
type effectStore struct {
	*cache.Cache
	informers *informers
	ownWrites *cache.OwnWrites
}

var _ effect.Store = effectStore{}

func (s effectStore) Get(kind abi.Kind, key object.Key) (*object.Object, bool) {
	informer := s.informers.get(kind)
	if informer == nil || !informer.HasSynced() {
		return nil, false
	}
	return s.ownWrites.Get(informer, key), true
}

func (s effectStore) List(kind abi.Kind) []*object.Object {
	informer := s.informers.get(kind)
	if informer == nil || !informer.HasSynced() {
		return nil
	}
	return informer.List("", nil)
}
