package sdktest

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
)

// asHost is the run as the guest sees it.
type asHost struct{ *Run }

// Get answers a get of the run.
func (r asHost) Get(message []byte) ([]byte, int64) {
	call, err := abi.DecodeGetCall(message)
	if err != nil {
		return nil, abi.CodeInvalid
	}
	at := idOf(sdk.Ref(call.Ref))
	namespace, code := r.scope(at.kind, at.namespace)
	if code != 0 {
		return nil, code
	}
	at.namespace = namespace
	o := r.world.objects[at]
	if o == nil || call.Ref.UID != "" && call.Ref.UID != o.meta.UID {
		return nil, abi.CodeNotFound
	}
	return slices.Clone(o.raw), int64(len(o.raw))
}

// List answers a list of the run.
func (r asHost) List(message []byte) ([]byte, int64) {
	call, err := abi.DecodeListCall(message)
	if err != nil {
		return nil, abi.CodeInvalid
	}
	matches, err := parseSelector(call.LabelSelector)
	if err != nil {
		return nil, abi.CodeInvalid
	}
	kind := sdk.Kind{APIVersion: call.APIVersion, Kind: call.Kind}
	namespace, code := r.scope(kind, call.Namespace)
	if code != 0 {
		return nil, code
	}
	var reply abi.ListReply
	wanted := func(o *object) bool {
		return o.kind == kind && (namespace == "" || namespace == o.namespace) && matches(o.meta.Labels)
	}
	for _, o := range r.world.sorted(wanted) {
		reply.Items = append(reply.Items, o.raw)
	}
	text := abi.EncodeListReply(&reply)
	return text, int64(len(text))
}

// scope holds a read against the manifest, and fills in the namespace: a
// namespaced primary reads in its own, and what has none, unless the policy
// lets it cross namespaces.
func (r *Run) scope(kind sdk.Kind, namespace string) (string, int64) {
	c := &r.world.controller
	if k := abi.Kind(kind); k != c.For && !slices.Contains(c.Owns, k) && !slices.Contains(c.Reads, k) {
		return "", abi.CodeDenied
	}
	if code := r.world.reads[kind]; code != 0 {
		r.unread = r.unread || code == abi.CodeUnavailable
		return "", code
	}
	switch own := r.primary.namespace; {
	case r.world.cluster[kind]:
		return "", 0
	case own == "" || r.world.crosses:
		return namespace, 0
	case namespace != "" && namespace != own:
		return "", abi.CodeDenied
	default:
		return own, 0
	}
}
