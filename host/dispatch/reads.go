package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/objects"
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
func (r *run) Get(_ context.Context, served sandbox.ReadCall) (sandbox.Reply, int64) {
	call, err := abi.DecodeGetCall(served.Message)
	if err == nil {
		err = call.CheckFeatures(r.revision.Features)
	}
	if err != nil {
		return r.invalid("get", err)
	}
	part, err := partOf(call.Fields)
	if err != nil {
		return r.invalid("get", err)
	}
	kind := abi.Kind{APIVersion: call.Ref.APIVersion, Kind: call.Ref.Kind}
	namespace := call.Ref.Namespace
	if namespace == "" {
		namespace = r.given.Namespace
	}
	namespace, code := r.readScope(kind, namespace)
	if code != 0 {
		return sandbox.Reply{}, code
	}
	obj, err := r.reads.Get(kind, object.Key{Namespace: namespace, Name: call.Ref.Name}, part)
	switch {
	case err != nil:
		return sandbox.Reply{}, r.unavailable("get", kind, err)
	case obj == nil || call.Ref.UID != "" && call.Ref.UID != string(obj.UID):
		return sandbox.Reply{}, abi.CodeNotFound
	}
	if !part.All() && served.Pay != nil {
		served.Pay(objects.ReadingCost(obj))
	}
	text, err := part.Project(obj.Raw)
	if err != nil {
		return sandbox.Reply{}, r.unavailable("get", kind, err)
	}
	return sandbox.Bytes(text), 0
}

// List implements the host function list from the cache (SPEC.md, "list").
func (r *run) List(_ context.Context, served sandbox.ReadCall) (sandbox.Reply, int64) {
	call, err := abi.DecodeListCall(served.Message)
	if err == nil {
		err = call.CheckFeatures(r.revision.Features)
	}
	if err != nil {
		return r.invalid("list", err)
	}
	wanted, err := r.reading(call)
	if err != nil {
		return r.invalid("list", err)
	}
	var code int64
	if wanted.Namespace, code = r.readScope(wanted.Kind, call.Namespace); code != 0 {
		return sandbox.Reply{}, code
	}
	wanted.MaxBytes, wanted.Look = max(1, served.MaxReply-aroundList), served.Pay
	found, err := r.reads.List(wanted)
	if err != nil {
		return sandbox.Reply{}, r.unavailable("list", wanted.Kind, err)
	}
	next := ""
	if found.More {
		next = r.pages.add(call, found.Items[len(found.Items)-1])
	}
	return listReply(found, wanted.Part, next), 0
}

// reading returns what a list asks for. The error says what is wrong with the call.
func (r *run) reading(call *abi.ListCall) (l cache.Reading, err error) {
	l.Kind, l.Limit = abi.Kind{APIVersion: call.APIVersion, Kind: call.Kind}, call.Limit
	if l.Selector, err = labels.Parse(call.LabelSelector); err != nil {
		return l, fmt.Errorf("the label selector %q cannot be parsed: %w", call.LabelSelector, err)
	}
	if l.Fields, err = fieldpath.ParseSelector(call.FieldSelector); err == nil {
		err = r.revision.Controller.CheckSelector(l.Kind, l.Fields)
	}
	if err == nil {
		l.Part, err = partOf(call.Fields)
	}
	if err == nil && call.Continue != "" {
		l.After, err = r.pages.find(call)
	}
	return l, err
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
func (r *run) invalid(verb string, err error) (sandbox.Reply, int64) {
	r.warn(verb+": the message is not valid", "error", err)
	return sandbox.Reply{}, abi.CodeInvalid
}

// readScope checks a read against the manifest and returns the namespace to read
// in, "" for all. A namespaced primary reads in its own namespace and cluster-
// scoped kinds, unless the policy lets it cross namespaces.
func (r *run) readScope(kind abi.Kind, namespace string) (string, int64) {
	c := &r.revision.Controller
	if !c.MayRead(kind) {
		r.warn("read denied: the manifest does not declare the kind in owns or reads", "kind", kind.String())
		return "", abi.CodeDenied
	}
	namespaced, err := r.c.Cache.Namespaced(kind) // fails while the revision is replaced by one that does not read the kind
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

// LimitReads tells that a key reads more of a kind than is remembered by itself: the
// change of any object of a namespace, or of the kind, makes the key due from now on.
func (c *Controller) LimitReads(key object.Key, kind abi.Kind) {
	c.Metrics.Limited("reads")
	if c.LogLines == nil || c.LogLines.Allow() {
		c.Logger.Warn("the object's runs read too much to remember it all: any change of the kind leads to a run; list instead of many gets, or read less",
			"object", key.String(), "kind", kind.String())
	}
}

// unavailable returns the code of a read that failed. If another run will be able to
// read, the run is repeated without counting as an attempt.
func (r *run) unavailable(verb string, kind abi.Kind, err error) int64 {
	switch {
	case errors.Is(err, cache.ErrTooLarge):
		return abi.CodeTooLarge
	case errors.Is(err, cache.ErrNotSynced), errors.Is(err, cache.ErrExpired), errors.Is(err, cache.ErrNotFollowed):
		r.incomplete = err
	default:
		r.warn(verb+" failed", "kind", kind.String(), "error", err)
	}
	return abi.CodeUnavailable
}
