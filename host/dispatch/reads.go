package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// refresh reads the objects from the API server that a lost write of the last run
// may have changed, so that this run sees whether it did.
func (c *Controller) refresh(ctx context.Context, key object.Key) error {
	c.mu.Lock()
	s := c.keys[key]
	c.mu.Unlock()
	for s != nil && len(s.uncertain) > 0 {
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

// refreshTimeout bounds one read from the API server, which ends most requests
// after 60 s itself.
const refreshTimeout = 30 * time.Second

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
