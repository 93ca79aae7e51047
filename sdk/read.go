package sdk

import (
	"errors"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Query selects objects for [Run.List].
type Query struct {
	Kind
	Namespace     string // "" for all namespaces, where the plugin may
	LabelSelector string // as kubectl has it: app=web,tier in (a,b),!canary
}

func (q Query) String() string {
	s := q.Kind.String()
	if q.Namespace != "" {
		s += " in " + q.Namespace
	}
	if q.LabelSelector != "" {
		s += " with " + q.LabelSelector
	}
	return s
}

// Get reads an object into what into points to: a struct with the fields that
// matter, a map, or a [Raw]. The host answers from its cache, and runs this
// object again when the one that was read changes, appears or goes. The errors
// are those of package sdk, such as [ErrNotFound].
func (r *Run) Get(ref Ref, into any) error {
	reply, code := r.host.Get(abi.EncodeGetCall(&abi.GetCall{Ref: abi.Ref(ref)}))
	if code < 0 {
		return &ReadError{Verb: "get", What: ref.String(), Err: codeError(code)}
	}
	if err := decode(reply, into); err != nil {
		return &ReadError{Verb: "get", What: ref.String(), Err: err}
	}
	return nil
}

// List reads the objects that match the query, ordered by namespace and name,
// into the slice that into points to. The host runs this object again when one
// of them changes or goes, and when another one comes to match.
func (r *Run) List(query Query, into any) error {
	reply, code := r.host.List(abi.EncodeListCall(&abi.ListCall{
		APIVersion: query.APIVersion, Kind: query.Kind.Kind,
		Namespace: query.Namespace, LabelSelector: query.LabelSelector,
	}))
	if code < 0 {
		return &ReadError{Verb: "list", What: query.String(), Err: codeError(code)}
	}
	if err := readItems(reply, into); err != nil {
		return &ReadError{Verb: "list", What: query.String(), Err: err}
	}
	return nil
}

// ReadError is why a get or list has no answer.
type ReadError struct {
	Verb string // get or list
	What string // the object or the query
	Err  error  // such as ErrNotFound, or what does not fit into the type
}

func (e *ReadError) Error() string { return e.Verb + " " + e.What + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// readItems reads the objects of an [abi.ListReply].
func readItems(reply []byte, into any) error {
	r := rawjson.NewReader(reply)
	found := false
	for more := r.FirstMember(); more; more = r.NextMember() {
		if r.Name() == "items" {
			readValue(r, into)
			found = true
		}
	}
	if err := told(r); err != nil {
		return err
	}
	if !found {
		return errors.New("the reply has no items")
	}
	return nil
}
