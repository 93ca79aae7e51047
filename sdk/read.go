package sdk

import (
	"errors"
	"iter"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// Query selects objects for [Run.List].
type Query struct {
	Kind
	Namespace     string // "" for the primary's, or for all where the plugin may read them
	LabelSelector string // in the notation of kubectl: app=web,tier in (a,b),!canary; see also [LabelSelector.Text]
	// FieldSelector has requirements a=b and a!=b, separated by commas, on the fields of
	// the controller's Indexes, and on those that its Select has. An object whose field has several values matches a=b if
	// one of them is b. A comma, an equals sign and a backslash in a value have a
	// backslash before them.
	FieldSelector string
}

func (q Query) String() string {
	s := q.Kind.String()
	if q.Namespace != "" {
		s += " in " + q.Namespace
	}
	if q.LabelSelector != "" {
		s += " with " + q.LabelSelector
	}
	if q.FieldSelector != "" {
		s += " where " + q.FieldSelector
	}
	return s
}

// ReadOption changes what [Run.Get] and [Run.List] read. See [Fields]; package children has others.
type ReadOption func(*guest.ReadOptions)

// Fields reads only these fields of the objects, and apiVersion, kind, and the name,
// namespace and uid of the metadata: metadata, spec, status, or JSON pointers (RFC 6901)
// such as /spec/replicas, /metadata/labels/example.com~1tier and
// /spec/containers/0/image; at most 16. Of an array, elements before one that is read
// are null. A change of what was not read does not run the primary.
func Fields(fields ...string) ReadOption {
	return func(o *guest.ReadOptions) { o.Fields = append(o.Fields, fields...) }
}

// Get reads an object into the value that into points to: a struct with the fields
// that the plugin uses, a map, or a [Raw]. The host reads from its cache, and runs
// the primary again when the object changes, is created or is deleted. An error is
// a [*ReadError] and wraps one of this package, such as [ErrNotFound].
func (r *Run) Get(ref Ref, into Value, options ...ReadOption) error {
	reply, code := r.host.Get(abi.EncodeGetCall(&abi.GetCall{Ref: ref, Fields: readOptions(options).Fields}))
	err := codeError(code)
	if err == nil {
		err = decode(reply, into)
	}
	if err != nil {
		return &ReadError{Verb: "get", What: ref.String(), Err: err}
	}
	return nil
}

// List reads the objects that match the query, ordered by namespace and name, into
// the slice that into points to. The host runs the primary again when one of them
// changes or is deleted, and when another object matches. An error is a
// [*ReadError].
func (r *Run) List(query Query, into Value, options ...ReadOption) error {
	o := readOptions(options)
	reply, code := r.host.List(abi.EncodeListCall(&abi.ListCall{
		APIVersion: query.APIVersion, Kind: query.Kind.Kind, Namespace: query.Namespace,
		LabelSelector: query.LabelSelector, FieldSelector: query.FieldSelector,
		Fields: o.Fields, Limit: o.Limit, Continue: o.Continue, OwnedBy: o.OwnedBy,
	}))
	err := codeError(code)
	if err == nil {
		err = readItems(reply, into, o.Next)
	}
	if err != nil {
		return &ReadError{Verb: "list", What: query.String(), Err: err}
	}
	return nil
}

func readOptions(options []ReadOption) (o guest.ReadOptions) {
	for _, option := range options {
		option(&o)
	}
	return o
}

// Pages lists the objects that match the query as [Run.List] does, but reads at most
// limit of them at a time. All pages are of one state of the cluster. The loop may end
// early. An error is a [*ReadError], and ends the loop.
//
//	for pod, err := range sdk.Pages[Pod](r.Run, sdk.Query{Kind: podKind}, 500, sdk.Fields("/status/phase")) {
//		if err != nil {
//			return sdk.Action{}, err
//		}
//	}
//
// Compiled by TinyGo, a plugin frees no memory during a run, that of earlier pages
// neither: what reduces it is [Fields].
func Pages[T Value](r *Run, query Query, limit int, options ...ReadOption) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		token := ""
		for {
			var page []T
			next := ""
			err := r.List(query, &page, append(slices.Clip(options), func(o *guest.ReadOptions) {
				o.Limit, o.Continue, o.Next = limit, token, &next
			})...)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, object := range page {
				if !yield(object, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}

// ReadError is the error of a Get or List.
type ReadError struct {
	Verb string // get or list
	What string // the object or the query
	Err  error  // such as ErrNotFound, or a value that does not fit into the type
}

func (e *ReadError) Error() string { return e.Verb + " " + e.What + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *ReadError) Unwrap() error { return e.Err }

// readItems reads the objects of an [abi.ListReply], and its continue into next if that
// is not nil.
func readItems(reply []byte, into any, next *string) error {
	r := rawjson.NewReader(reply)
	found := false
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "items":
			readValue(r, into)
			found = true
		case "continue":
			if next != nil {
				*next = r.String()
			}
		}
	}
	err := finish(r)
	if err == nil && !found {
		err = errors.New("the reply has no items")
	}
	return err
}
