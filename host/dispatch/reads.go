package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/objects"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
)

// refresh reads the objects from the API server that a lost write of the last run
// may have changed, so that this run sees whether it did. s is the state of the key.
func (c *Controller) refresh(ctx context.Context, key object.Key, s *keyState) error {
	for s != nil && s.carried != nil && len(s.uncertain) > 0 {
		bounded, cancel := context.WithTimeout(ctx, refreshTimeout)
		err := c.Cache.Refresh(bounded, key, s.uncertain[0])
		cancel()
		if err != nil {
			return err
		}
		s.uncertain = s.uncertain[1:]
	}
	return nil
}

// stateOf returns what is remembered of a key, nil if nothing is.
func (c *Controller) stateOf(key object.Key) *keyState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys[key]
}

// refreshTimeout bounds one read from the API server, which ends most requests
// after 60 s itself.
const refreshTimeout = 30 * time.Second

var _ sandbox.HostCalls = (*guestCall)(nil)

// Get implements the host function get from the cache (SPEC.md, "get").
func (g *guestCall) Get(ctx context.Context, served sandbox.ReadCall) (sandbox.Reply, int64) {
	call, err := abi.DecodeGetCall(served.Message)
	if err != nil {
		return g.invalid("get", err)
	}
	part, err := partOf(call.Fields)
	if err != nil {
		return g.invalid("get", err)
	}
	kind := abi.Kind{APIVersion: call.Ref.APIVersion, Kind: call.Ref.Kind}
	key := object.Key{Namespace: call.Ref.Namespace, Name: call.Ref.Name}
	var scopes scope.Reads
	_, code := g.mayRead(ctx, rights.Get, kind, &key, func(in []string) (_ []string, code int64) {
		if scopes, err = g.revision.Scopes.Reads[kind].Get(scope.Read{Namespace: key.Namespace, Part: call.Fields}); err != nil {
			code = g.denied(kind, err)
		}
		return in, code
	})
	if code != 0 {
		return sandbox.Reply{}, code
	}
	obj, code := g.find(ctx, scopes, kind, key, edgePart(scopes, call.Fields, part))
	switch {
	case code != 0:
		return sandbox.Reply{}, code
	case call.Ref.UID != "" && call.Ref.UID != string(obj.UID):
		return sandbox.Reply{}, abi.CodeNotFound
	case part.All() && scopes.IsMetadataOnly(obj):
		part = metadataPart
	}
	if !part.All() && served.Pay != nil {
		served.Pay(objects.ReadingCost(obj))
	}
	text, err := part.Project(obj.Raw)
	if err != nil {
		return sandbox.Reply{}, g.unavailable("get", kind, err)
	}
	return sandbox.Bytes(text), 0
}

// find returns the object of a get if it is in one of the scopes. One that is owned
// may lack the label by which such objects are followed: it is read from the API server.
func (g *guestCall) find(ctx context.Context, scopes scope.Reads, kind abi.Kind, key object.Key, edge fieldpath.Set) (*object.Object, int64) {
	obj, err := g.reads.Get(kind, key, edge)
	switch {
	case err != nil:
		return nil, g.unavailable("get", kind, err)
	case obj != nil && scopes.Has(obj):
		return obj, 0
	case !scopes.Selects():
		return nil, abi.CodeNotFound
	case scopes.HasManaged():
		return g.live(ctx, kind, key)
	}
	return nil, g.denied(kind, fmt.Errorf("%s is not among the objects that are followed: it does not exist, or is not selected by %s", key, scopes[0]))
}

// live reads an object from the API server. Each further read of the run returns the
// same.
func (g *guestCall) live(ctx context.Context, kind abi.Kind, key object.Key) (*object.Object, int64) {
	ref := kind.Ref(key.Namespace, key.Name)
	obj, known := g.liveReads[ref]
	switch {
	case known && obj == nil:
		return nil, abi.CodeNotFound
	case known:
		return obj, 0
	case len(g.liveReads) == maxLiveReads, g.liveBytes >= maxLiveBytes:
		return nil, g.denied(kind, fmt.Errorf("the run has asked for %d objects that are not labelled %s, and read %d bytes of them: list what the plugin owns, or name the kind in Reads of the controller",
			len(g.liveReads), abi.LabelManagedBy, g.liveBytes))
	}
	obj, err := g.revision.Effects.Live(ctx, kind, key)
	switch {
	case apierrors.IsForbidden(err):
		return nil, g.forbidden(kind, explain.Forbidden(err))
	case err != nil:
		return nil, g.unavailable("get", kind, err)
	}
	if g.liveReads == nil {
		g.liveReads = map[abi.Ref]*object.Object{}
	}
	g.liveReads[ownedRef(ref)] = obj
	if obj != nil {
		g.liveBytes += len(obj.Raw)
	}
	return g.live(ctx, kind, key)
}

// Bounds of how much a run asks of the API server, which is as much as it may apply unless the
// administrator allows more, and of what it keeps of the replies.
const (
	maxLiveReads = abi.MaxIntents
	maxLiveBytes = 4 << 20
)

// ownedRef returns a reference that does not alias the message of the guest.
func ownedRef(ref abi.Ref) abi.Ref {
	return abi.Ref{
		APIVersion: strings.Clone(ref.APIVersion), Kind: strings.Clone(ref.Kind),
		Namespace: strings.Clone(ref.Namespace), Name: strings.Clone(ref.Name),
	}
}

// metadataPart is what is read of an object of which only metadata is followed.
var metadataPart, _ = partOf([]string{"metadata"})

// edgePart returns what an edge depends on: what is read, and the labels by which an
// object is selected.
func edgePart(scopes scope.Reads, fields []string, part fieldpath.Set) fieldpath.Set {
	if part.All() || !scopes.Selects() {
		return part
	}
	if with, err := partOf(append(slices.Clone(fields), "/metadata/labels")); err == nil {
		return with
	}
	return fieldpath.Set{}
}

// List implements the host function list from the cache (abi/spec/reads.md, "list").
func (g *guestCall) List(ctx context.Context, served sandbox.ReadCall) (sandbox.Reply, int64) {
	call, err := abi.DecodeListCall(served.Message)
	if err != nil {
		return g.invalid("list", err)
	}
	wanted, err := g.reading(call)
	if err != nil {
		return g.invalid("list", err)
	}
	in, code := g.mayRead(ctx, rights.List, wanted.Kind, &object.Key{Namespace: call.Namespace}, func(in []string) ([]string, int64) {
		return g.narrow(&wanted, call, in)
	})
	if code != 0 {
		return sandbox.Reply{}, code
	}
	wanted.Namespaces = in
	wanted.MaxBytes, wanted.Look = max(1, served.MaxReply-aroundList), served.Pay
	found, err := g.reads.List(wanted)
	if errors.Is(err, cache.ErrTooLarge) {
		g.warn("list refused: the objects have more bytes together than a reply may have; read them by read.Pages, or some of their fields by read.Fields",
			"kind", wanted.Kind.String(), "limitBytes", served.MaxReply)
	}
	if err != nil {
		return sandbox.Reply{}, g.unavailable("list", wanted.Kind, err)
	}
	next := ""
	if found.More {
		next = g.pages.add(call, found.Items[len(found.Items)-1])
	}
	return listReply(found, wanted.Part, next), 0
}

// narrow makes a list, which is allowed in some namespaces, one of what the controller follows, and returns the
// namespaces that are left, nil for all that there are.
func (g *guestCall) narrow(l *cache.Reading, call *abi.ListCall, in []string) (_ []string, code int64) {
	asked := scope.Read{Labels: l.Selector, Fields: l.Fields, Part: call.Fields}
	if len(in) == 1 {
		asked.Namespace = in[0]
	}
	within, err := g.revision.Scopes.Reads[l.Kind].List(asked)
	if err != nil {
		return nil, g.denied(l.Kind, err)
	}
	narrowed := within.Narrow(asked)
	l.Selector, l.Fields = narrowed.Labels, narrowed.Fields
	if err = g.revision.Controller.CheckSelector(l.Kind, l.Fields); err == nil {
		l.Part, err = partOf(narrowed.Part)
	}
	if err != nil {
		_, code = g.invalid("list", err)
	}
	return within.Within(in).Namespaces, code
}

// partOf returns the fields of a call, which do not alias its message.
func partOf(fields []string) (fieldpath.Set, error) {
	own := make([]string, len(fields))
	for i, field := range fields {
		own[i] = strings.Clone(field)
	}
	return fieldpath.Parse(own)
}

// invalid returns the code of a call that is not as SPEC.md says.
func (g *guestCall) invalid(verb string, err error) (sandbox.Reply, int64) {
	g.warn(verb+": the message is not valid", "error", err)
	return sandbox.Reply{}, abi.CodeInvalid
}

// LimitReads tells that a key reads more of a kind than is remembered by itself: the
// change of any object of a namespace, or of the kind, makes the key due from now on.
func (c *Controller) LimitReads(key object.Key, kind abi.Kind) {
	c.Metrics.Limited("reads")
	if c.LogLines == nil || c.LogLines.Allow(0) {
		c.Logger.Warn("the object's runs read too much to remember it all: any change of the kind leads to a run; list instead of many gets, or read less",
			"object", key.String(), "kind", kind.String())
	}
}

// LimitIndexes tells that the plugin has no room for an index of a kind that a list needs:
// such lists look at every object, which they pay for.
func (c *Controller) LimitIndexes(kind abi.Kind) {
	c.Metrics.Limited("indexes")
	if c.LogLines == nil || c.LogLines.Allow(0) {
		c.Logger.Warn("a list looks at every object of the kind: the plugin lists it by more labels and fields than its share of the indexes allows; list by fewer", "kind", kind.String())
	}
}

// unavailable returns the code of a read that failed. If another run will be able to
// read, the run is repeated without counting as an attempt.
func (g *guestCall) unavailable(verb string, kind abi.Kind, err error) int64 {
	switch {
	case errors.Is(err, cache.ErrTooLarge):
		return abi.CodeTooLarge
	case errors.Is(err, cache.ErrNotSynced), errors.Is(err, cache.ErrExpired), errors.Is(err, cache.ErrNotFollowed):
		g.incomplete = err
	default:
		g.warn(verb+" failed", "kind", kind.String(), "error", err)
	}
	return abi.CodeUnavailable
}
