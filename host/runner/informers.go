package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
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

// all returns the informers by kind.
func (i *informers) all() map[abi.Kind]*cache.Informer {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.byKind // is replaced, never changed
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

// acquireInformers acquires an informer for each kind that the plugin follows and blocks
// until all have synced. The error covers every kind that is missing. Informers that the
// running revision uses already are not waited for: if one of them can no longer follow
// its kind, that concerns the running code as much as the new code. waitsFor is
// called with what is waited for next.
func acquireInformers(ctx context.Context, c *cache.Cache, follows *scope.Plugin, running *informers, waitsFor func(string)) (map[abi.Kind]*cache.Informer, error) {
	byKind := map[abi.Kind]*cache.Informer{}
	var problems []error
	for _, s := range follows.Followed {
		waitsFor("the API server to state how it serves " + s.Kind.String())
		informer, err := c.Acquire(ctx, s)
		if err == nil {
			informer.PollEvery(follows.PollIntervals[s.Kind])
			byKind[s.Kind] = informer
			continue
		}
		if problems = append(problems, err); !concernsOneKind(err) {
			break // the next kinds would fail likewise, after the same timeout
		}
	}
	for _, s := range follows.Followed { // in their order, so that the same problems have the same text
		if informer := byKind[s.Kind]; informer != nil && !informer.IsServedAs(running.get(s.Kind)) {
			waitsFor("the first list of " + s.Kind.String())
			if err := explainSelector(s, informer.WaitForSync(ctx)); err != nil {
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

// explainSelector returns the error of a first list that the API server refuses because
// of its field selector, which no other attempt can change.
func explainSelector(s scope.Scope, err error) error {
	if apierrors.IsBadRequest(err) && len(s.Fields) > 0 {
		return &cache.ScopeError{Scope: s, Reason: err.Error()}
	}
	return err
}

// checkNamespaces refuses namespaces of a cluster-scoped kind.
func checkNamespaces(m *abi.Manifest, byKind map[abi.Kind]*cache.Informer) error {
	for _, c := range m.Controllers {
		for w := range c.Follows() {
			if len(w.Namespaces) > 0 && !byKind[w.Kind].Namespaced() {
				return kindError{fmt.Errorf("controller %q: %s is cluster-scoped: it has no namespaces that could be selected", c.Name, w.Kind)}
			}
		}
	}
	return nil
}

// checkVerbs refuses what a controller asks of a kind that cannot be done.
func checkVerbs(m *abi.Manifest, sections []config.Section, byKind map[abi.Kind]*cache.Informer) error {
	served := func(kind abi.Kind) (object.Resource, bool) { return byKind[kind].Resource(), true } // of what is followed
	for i := range m.Controllers {
		if err := object.CheckOwned(&m.Controllers[i], served); err != nil {
			return kindError{err}
		}
		patches := config.UsesOf(&m.Controllers[i], sections).Patches
		for w := range m.Controllers[i].Follows() {
			if err := byKind[w.Kind].Resource().Cannot(&m.Controllers[i], patches); err != nil {
				return kindError{err}
			}
		}
	}
	return nil
}

// concernsOneKind reports whether an error does not affect other kinds.
func concernsOneKind(err error) bool {
	var unknown *object.UnknownKindError
	var notListable *cache.NotListableError
	var badScope *cache.ScopeError
	return errors.As(err, &unknown) || errors.As(err, &notListable) || errors.As(err, &badScope)
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
		var notListable *cache.NotListableError
		var badScope *cache.ScopeError
		if errors.As(err, &notListable) || errors.As(err, &badScope) {
			return kindError{err}
		}
		reasons = append(reasons, advise(err))
	}
	return &catalog.WaitError{Reason: strings.Join(slices.Compact(reasons), "; ")}
}

// kindError is a manifest with a kind that cannot be followed, or that does not have a
// field.
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
	if apierrors.IsServiceUnavailable(err) {
		return fmt.Sprintf("%v, trying again: if the kind is of an aggregated API, check that its APIService is available", err)
	}
	return err.Error()
}

// controllerCache implements [dispatch.Cache] for one controller.
type controllerCache struct {
	cache      *cache.Cache
	controller string                          // plugin/controller, the owner of the edges
	primaries  *atomic.Pointer[cache.Informer] // of what the controller reconciles
	informers  *informers
	ownWrites  *cache.OwnWrites
	written    *written
}

var _ dispatch.Cache = controllerCache{}

// Get returns the primary, as the plugin has left it.
func (c controllerCache) Get(key object.Key) (*object.Object, bool) {
	o := c.ownWrites.Get(c.primaries.Load(), key)
	return o, o != nil
}

// Shown returns the primary as the informer shows it.
func (c controllerCache) Shown(key object.Key) (*object.Object, bool) {
	return c.primaries.Load().Get(key)
}

func (c controllerCache) PrimariesBy(namespace string, field fieldpath.Path, value string) (keys []object.Key) {
	for _, o := range c.primaries.Load().ListBy(c.owner(object.Key{}), namespace, field, value) {
		keys = append(keys, o.Key())
	}
	return keys
}

// LastKnown returns the last state of a primary that does not exist any more.
func (c controllerCache) LastKnown(shown *object.Object) *object.Object {
	return c.ownWrites.LastKnown(c.primaries.Load(), shown)
}

// Exists reads the primary from the API server as the host. It fails if the server does not serve
// the kind: the reply has no name then.
func (c controllerCache) Exists(ctx context.Context, key object.Key, uid object.Hash) (bool, error) {
	o, err := c.primaries.Load().Live(ctx, key)
	var reply apierrors.APIStatus
	switch {
	case err == nil:
		return o.Identity() == uid, nil
	case apierrors.IsNotFound(err) && errors.As(err, &reply) && reply.Status().Details != nil && reply.Status().Details.Name == key.Name:
		return false, nil
	}
	return false, explain.Forbidden(err, "get")
}

// Wrote ignores a kind without an informer, or with one that has read nothing: a write
// would be kept until the informer shows it.
func (c controllerCache) Wrote(key object.Key, w effect.Write) {
	c.wrote(c.informers.get(w.Kind), c.ownWrites, key, w)
	c.wrote(c.written.synced(w.Kind), &c.written.own, key, w)
	c.written.limit()
}

func (c controllerCache) wrote(informer *cache.Informer, own *cache.OwnWrites, key object.Key, w effect.Write) {
	switch {
	case informer == nil, !informer.HasSynced():
	case w.Gone():
		own.Deleted(informer, w.Key, w.UID, w.ResourceVersion)
	default:
		own.Wrote(informer, w.Object)
		informer.WakeIfSkipped(c.owner(key), w.Key, w.ResourceVersion)
	}
}

func (c controllerCache) Full() bool { return c.ownWrites.Full() }

func (c controllerCache) Refresh(ctx context.Context, reader object.Key, ref abi.Ref) error {
	kind := abi.Kind{APIVersion: ref.APIVersion, Kind: ref.Kind}
	err := c.refresh(ctx, c.informers.get(kind), c.ownWrites, reader, ref)
	if err == nil {
		err = c.refresh(ctx, c.written.synced(kind), &c.written.own, reader, ref)
	}
	return err
}

func (c controllerCache) refresh(ctx context.Context, informer *cache.Informer, own *cache.OwnWrites, reader object.Key, ref abi.Ref) error {
	if informer == nil || !informer.HasSynced() || !informer.Has(ref.Namespace) {
		return nil
	}
	key := object.Key{Namespace: ref.Namespace, Name: ref.Name}
	o, err := informer.Live(ctx, key)
	switch shown := own.Get(informer, key); {
	case err == nil:
		own.Wrote(informer, o)
		informer.WakeWhenSkipped(c.owner(reader), key, o.ResourceVersion)
	case !apierrors.IsNotFound(err):
		return explain.Forbidden(err, "get")
	case shown != nil:
		own.Deleted(informer, key, shown.UID, shown.ResourceVersion)
	}
	return nil
}

// Begin lets a run read nothing of an informer that does not have all that its revision
// follows: in a swap the next revision may have brought it, which needs less.
func (c controllerCache) Begin(key object.Key, follows map[abi.Kind]scope.Reads) dispatch.Reads {
	return c.cache.Begin(c.owner(key), c.ownWrites, c.informersFor(follows))
}

// BeginUnrecorded is Begin for what nothing is to be woken for.
func (c controllerCache) BeginUnrecorded(key object.Key, follows map[abi.Kind]scope.Reads) dispatch.Reads {
	return c.cache.BeginUnrecorded(c.owner(key), c.ownWrites, c.informersFor(follows))
}

func (c controllerCache) informersFor(follows map[abi.Kind]scope.Reads) func(abi.Kind) *cache.Informer {
	return func(kind abi.Kind) *cache.Informer {
		if _, derived := cache.SourceOf(kind); derived {
			return c.cache.Derived(kind)
		}
		if i := c.informers.get(kind); i != nil && follows[kind].AreIn(i.Scope()) {
			return i
		}
		return nil
	}
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
	plugin    string
	informers *informers
	ownWrites *cache.OwnWrites
	written   *written
}

var _ effect.Store = effectStore{}

// Get prefers what the plugin follows, which may have more than metadata.
func (s effectStore) Get(kind abi.Kind, key object.Key) (*object.Object, effect.Presence) {
	o, shown := presence(s.informers.get(kind), s.ownWrites, key)
	if shown != effect.Unknown && shown != effect.Unselected {
		return o, shown
	}
	switch metadata, written := presence(s.written.get(kind), &s.written.own, key); {
	case written == effect.Unknown:
		return o, shown
	case written == effect.Present && shown == effect.Unselected:
		return metadata, effect.Unselected
	default:
		return metadata, written
	}
}

// OwnedBy is of what the plugin follows. It leaves out what the plugin has written and the informer does
// not show yet: its owner runs again when it does.
func (s effectStore) OwnedBy(kind abi.Kind, namespace string, owner types.UID) (all []*object.Object, ok bool) {
	informer := s.informers.get(kind)
	if informer == nil || !informer.HasSynced() {
		return nil, false
	}
	return informer.OwnedBy(cache.Owner{Controller: s.plugin + "/"}, namespace, string(owner)), true
}

// All is of all that is written, if that is there.
func (s effectStore) All(kind abi.Kind) iter.Seq[*object.Object] {
	informer := s.written.synced(kind)
	if informer == nil {
		informer = s.informers.get(kind)
	}
	if informer == nil || !informer.HasSynced() {
		return func(func(*object.Object) bool) {}
	}
	return informer.All
}
