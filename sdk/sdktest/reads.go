package sdktest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/sdk"
)

// asHost implements [Host] for a run. Nothing changes the world during a run, so that all
// its reads are of one state.
type asHost struct{ *Run }

// Get returns the object of an [abi.GetCall].
func (r asHost) Get(message []byte) ([]byte, int64) {
	call, err := abi.DecodeGetCall(message)
	if err != nil {
		return r.invalid("get", err)
	}
	at := idOf(call.Ref)
	namespace, code := r.readScope(at.kind, at.namespace)
	if code != 0 {
		return nil, code
	}
	at.namespace = namespace
	scopes, err := r.allowed(at.kind, func(s *scope) error { return s.checkGet(namespace, call.Fields) })
	if err != nil {
		return r.denied("get", err)
	}
	o, err := r.find(at, scopes)
	switch {
	case err != nil:
		return r.denied("get", err)
	case o == nil || call.UID != "" && call.UID != o.meta.UID:
		return nil, abi.CodeNotFound
	}
	reply := slices.Clone(r.project(o, call.Fields))
	return reply, int64(len(reply))
}

// find returns what the scopes have of an object, nil if there is no such object. The
// error is for one that they do not have, and of which a host cannot tell whether it
// exists.
func (r *Run) find(at id, scopes []scope) (*object, error) {
	o := r.world.objects[at]
	if o != nil {
		if followed := o.in(scopes); followed != nil {
			return followed, nil
		}
	}
	if i := slices.IndexFunc(scopes, func(s scope) bool { return s.owner != "" }); i >= 0 && o != nil {
		return o.of(&scopes[i]), nil // the host asks the API server
	}
	if slices.ContainsFunc(scopes, func(s scope) bool { return s.owner != "" || !s.selects() }) {
		return nil, nil
	}
	return nil, fmt.Errorf("%s is not among the objects that are followed", at)
}

// List returns the objects of an [abi.ListCall].
func (r asHost) List(message []byte) ([]byte, int64) {
	call, err := abi.DecodeListCall(message)
	if err != nil {
		return r.invalid("list", err)
	}
	labels, err := parseSelector(call.LabelSelector)
	if err != nil {
		return r.invalid("list", err)
	}
	kind := sdk.Kind{APIVersion: call.APIVersion, Kind: call.Kind}
	namespace, code := r.readScope(kind, call.Namespace)
	if code != 0 {
		return nil, code
	}
	selector, err := r.fieldSelector(kind, call.FieldSelector)
	if err != nil {
		return r.invalid("list", err)
	}
	scopes, err := r.allowed(kind, func(s *scope) error { return s.checkList(namespace, call.Fields, labels, selector) })
	if err == nil && namespace == "" {
		err = r.checkComplete(kind, labels, scopes)
	}
	if err != nil {
		return r.denied("list", err)
	}
	owner := r.primary.meta.UID
	if call.OwnedBy == abi.OwnedBySelf && owner == "" {
		return r.invalid("list", errors.New("ownedBy is "+string(abi.OwnedBySelf)+", and the call is for no object that could own any"))
	}
	objects, next, err := r.page(call, r.world.list(func(o *object) bool {
		return (call.OwnedBy == "" || o.meta.ControlledBy(owner)) && (namespace == "" || namespace == o.namespace) &&
			labels.matches(o.meta.Labels) && selector.Matches(o.raw) && o.in(scopes) != nil
	}))
	if err != nil {
		return r.invalid("list", err)
	}
	reply := abi.ListReply{Continue: next}
	for _, o := range objects {
		reply.Items = append(reply.Items, r.project(o.in(scopes), call.Fields))
	}
	text := abi.EncodeListReply(&reply)
	return text, int64(len(text))
}

// invalid refuses a call, with the reason in the log of the test, as in that of a host.
func (r *Run) invalid(verb string, err error) ([]byte, int64) {
	r.tb.Helper()
	r.tb.Logf("%s: %v", verb, err)
	return nil, abi.CodeInvalid
}

// denied refuses a call of what is not followed, with the reason in the log of the test.
func (r *Run) denied(verb string, err error) ([]byte, int64) {
	r.tb.Helper()
	r.tb.Logf("%s: %v", verb, err)
	return nil, abi.CodeDenied
}

// project returns the fields of an object that a call has named.
func (r *Run) project(o *object, fields []string) []byte {
	r.tb.Helper()
	set, err := fieldpath.Parse(fields)
	if err != nil {
		r.tb.Fatalf("read %s: %v", o.id, err)
	}
	raw, err := set.Project(o.raw)
	if err != nil {
		r.tb.Fatalf("read %s: %v", o.id, err)
	}
	return raw
}

// fieldSelector parses a field selector for objects of a kind.
func (r *Run) fieldSelector(kind sdk.Kind, text string) (fieldpath.Selector, error) {
	selector, err := fieldpath.ParseSelector(text)
	if err == nil {
		err = r.world.controller.CheckSelector(kind, selector)
	}
	return selector, err
}

// page is what a continue stands for.
type page struct {
	list  string // the list that it continues, see [abi.ListCall.List]
	start int    // the index of the first object
}

// page returns the objects of one page of a list, and the continue of the next one, ""
// if there is none.
func (r *Run) page(call *abi.ListCall, all []*object) (objects []*object, next string, err error) {
	p := page{list: string(call.List())}
	if call.Continue != "" {
		known, ok := r.pages[call.Continue]
		if !ok || known.list != p.list {
			return nil, "", errors.New("continue: not of this run, or of another list")
		}
		p = known
	}
	end := len(all)
	if call.Limit > 0 {
		end = min(end, p.start+call.Limit)
	}
	if end < len(all) {
		next = fmt.Sprintf("%d.%d", r.serial, len(r.pages)+1)
		if r.pages == nil {
			r.pages = map[string]page{}
		}
		r.pages[next] = page{list: p.list, start: end}
	}
	return all[p.start:end], next, nil
}

// readScope checks a read against the manifest and the policy, and returns the
// namespace to read in.
func (r *Run) readScope(kind sdk.Kind, namespace string) (string, int64) {
	if !r.world.controller.MayRead(kind) {
		return "", abi.CodeDenied
	}
	if code := r.world.failedReads[kind]; code != 0 {
		r.unavailable = r.unavailable || code == abi.CodeUnavailable
		return "", code
	}
	switch own := r.primary.namespace; {
	case r.world.clusterScoped[kind]:
		return "", 0
	case own == "" || r.world.crossNamespace:
		return namespace, 0
	case namespace != "" && namespace != own:
		return "", abi.CodeDenied
	default:
		return own, 0
	}
}
