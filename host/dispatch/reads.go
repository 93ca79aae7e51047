package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// current returns the primary as the cache has it once the cache contains what
// the previous run wrote. If that takes longer than Config.CatchUp, the primary
// is read from the API server. Writes that the cache still lacks after that are
// waited for again by the next run.
func (c *Controller) current(ctx context.Context, key object.Key) (*object.Object, error) {
	c.mu.Lock()
	s := c.keys[key]
	c.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, c.CatchUp)
	defer cancel()
	for s != nil && len(s.unseen) > 0 {
		if c.Cache.CaughtUp(bounded, s.unseen[0]) != nil {
			return c.live(ctx, key, s, bounded.Err() == nil)
		}
		s.unseen = s.unseen[1:]
	}
	obj, _ := c.Cache.Get(key)
	return obj, nil
}

// live reads the primary from the API server. From then on only writes of the
// primary are waited for, so that no later run sees an older state of it; the
// informer of another kind may lag for ever. With hopeless, which means that no
// waiting helps, nothing is waited for.
func (c *Controller) live(ctx context.Context, key object.Key, s *keyState, hopeless bool) (*object.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	obj, err := c.Cache.Live(ctx, key)
	if err == nil {
		s.unseen = slices.DeleteFunc(s.unseen, func(w effect.Write) bool {
			return hopeless || obj == nil || w.Kind != obj.Kind || w.Key != key
		})
	}
	return obj, err
}

// liveTimeout bounds one read from the API server, which ends most requests
// after 60 s itself.
const liveTimeout = 30 * time.Second

// awaitWrites adds the writes of a run to those that the next run waits for. The
// latest write of a kind stands for those before it, since an informer reaches
// them in order. A write whose resourceVersion is unknown cannot be waited for.
func (s *keyState) awaitWrites(writes []effect.Write) {
	writes = slices.DeleteFunc(slices.Clone(writes), func(w effect.Write) bool { return w.ResourceVersion == "" })
	superseded := func(before effect.Write) bool {
		return slices.ContainsFunc(writes, func(w effect.Write) bool { return w.Kind == before.Kind })
	}
	s.unseen = append(slices.DeleteFunc(s.unseen, superseded), writes...)
}

var _ sandbox.HostCalls = (*run)(nil)

// Get implements the host function get from the cache (SPEC.md, "get").
func (r *run) Get(ctx context.Context, message []byte) ([]byte, int64) {
	call, err := abi.DecodeGetCall(message)
	if err != nil {
		r.warn("get: the message cannot be decoded", "error", err)
		return nil, abi.CodeInvalid
	}
	kind := abi.Kind{APIVersion: call.Ref.APIVersion, Kind: call.Ref.Kind}
	namespace := call.Ref.Namespace
	if namespace == "" {
		namespace = r.given.Namespace
	}
	namespace, code := r.readScope(ctx, kind, namespace)
	if code != 0 {
		return nil, code
	}
	obj, ok, err := r.reads.Get(ctx, kind, object.Key{Namespace: namespace, Name: call.Ref.Name})
	switch {
	case err != nil:
		return nil, r.unavailable("get", kind, err)
	case !ok || call.Ref.UID != "" && call.Ref.UID != string(obj.UID):
		return nil, abi.CodeNotFound
	}
	return obj.Raw, int64(len(obj.Raw))
}

// List implements the host function list from the cache (SPEC.md, "list").
func (r *run) List(ctx context.Context, message []byte) ([]byte, int64) {
	call, err := abi.DecodeListCall(message)
	if err != nil {
		r.warn("list: the message cannot be decoded", "error", err)
		return nil, abi.CodeInvalid
	}
	selector, err := labels.Parse(call.LabelSelector)
	if err != nil {
		r.warn("list: the label selector cannot be parsed", "selector", call.LabelSelector, "error", err)
		return nil, abi.CodeInvalid
	}
	kind := abi.Kind{APIVersion: call.APIVersion, Kind: call.Kind}
	namespace, code := r.readScope(ctx, kind, call.Namespace)
	if code != 0 {
		return nil, code
	}
	objects, err := r.reads.List(ctx, kind, namespace, selector)
	if err != nil {
		return nil, r.unavailable("list", kind, err)
	}
	reply := abi.ListReply{Items: make([][]byte, 0, len(objects))}
	for _, o := range objects {
		reply.Items = append(reply.Items, o.Raw)
	}
	text := abi.EncodeListReply(&reply)
	return text, int64(len(text))
}

// readScope checks a read against the manifest and returns the namespace to read
// in, "" for all. A namespaced primary reads in its own namespace and cluster-
// scoped kinds, unless the policy lets it cross namespaces.
func (r *run) readScope(ctx context.Context, kind abi.Kind, namespace string) (string, int64) {
	c := &r.revision.Controller
	if kind != c.For && !slices.Contains(c.Owns, kind) && !slices.Contains(c.Reads, kind) {
		r.warn("read denied: the manifest does not declare the kind in owns or reads", "kind", kind.String())
		return "", abi.CodeDenied
	}
	namespaced, err := r.c.Cache.Namespaced(ctx, kind)
	if err != nil {
		return "", r.unavailable("read", kind, err)
	}
	own := r.given.Namespace
	switch {
	case !namespaced:
		return "", 0
	case own == "" || r.revision.CrossNamespace:
		return namespace, 0
	case namespace != "" && namespace != own:
		r.warn("read denied: outside of the namespace of the object; crossNamespace in the plugin's policy allows it", "kind", kind.String(), "namespace", namespace)
		return "", abi.CodeDenied
	}
	return own, 0
}

// unavailable returns the code of a read that failed. If the informer of the kind
// has not synced, the run is repeated without counting as an attempt.
func (r *run) unavailable(verb string, kind abi.Kind, err error) int64 {
	if errors.Is(err, cache.ErrNotSynced) {
		r.notSynced = true
		return abi.CodeUnavailable
	}
	r.warn(verb+" failed", "kind", kind.String(), "error", err)
	return abi.CodeUnavailable
}
