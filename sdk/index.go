package sdk

import (
	"errors"
	"strconv"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// IndexBy returns an index of a kind by keys that a function gives to each object, for
// [Run.Lookup]. The host calls the function when an object has changed, and keeps what it has
// added; while it fails, the object keeps what it has. It is a function of the object and the
// configuration alone: clock and random numbers are fixed, and it reads nothing else.
//
// The result belongs into Indexes of each [Controller] that looks something up in it. IndexBy
// must be called once for each name, from an init function or for a variable of the package.
func IndexBy(name string, kind Kind, keys func(*Indexing) error) Index {
	guest.Index(name, func(q *functionindexes.Request) (*functionindexes.Result, error) {
		x := &Indexing{request: q}
		if err := keys(x); err != nil {
			return nil, err
		}
		return &x.result, x.invalid
	})
	return Index{Name: name, Kind: kind}
}

// addIndexes adds indexes to the manifest of a controller: those by a field, and those of [IndexBy] as a section.
func addIndexes(c *abi.Controller, all []Index) {
	var byFunctions []functionindexes.Index
	for _, x := range all {
		if x.Field != "" {
			c.Indexes = append(c.Indexes, x)
		} else {
			byFunctions = append(byFunctions, functionindexes.Index{Name: x.Name, Kind: x.Kind})
		}
	}
	if len(byFunctions) > 0 {
		c.Sections = append(c.Sections, abi.Section{Name: functionindexes.Name, Value: functionindexes.Encode(byFunctions)})
	}
}

// Indexing is one call of the function of an index.
type Indexing struct {
	request *functionindexes.Request
	result  functionindexes.Result
	invalid error // of the first value that could not be encoded
}

// Object reads the object that gets keys into the value that into points to, as [Run.Get] does.
func (x *Indexing) Object(into Value) error { return decode(x.request.Object, into) }

// Config is [Run.Config].
func (x *Indexing) Config(into Value) error {
	if x.request.Config == nil {
		return nil
	}
	return decode(x.request.Config, into)
}

// Add gives a key to the object, of at most 1,024 bytes, with a value of at most 4 KiB as JSON;
// nil is none. An object has at most 64 keys, which are all distinct.
func (x *Indexing) Add(key string, value Value) {
	entry := functionindexes.Entry{Key: key}
	if value != nil {
		data, err := encode(value)
		if err != nil && x.invalid == nil {
			x.invalid = errors.New("encode the value of key " + strconv.Itoa(len(x.result.Entries)) + ": " + err.Error())
		}
		entry.Value = data
	}
	x.result.Entries = append(x.result.Entries, entry)
}

// IndexQuery selects what [Run.Lookup] finds.
type IndexQuery struct {
	Index     string // the name of an index of the controller, made by [IndexBy]
	Key       string
	Namespace string // "" for the primary's, or for all where the plugin may read them
}

// IndexItem is an object that has the key.
type IndexItem struct {
	Namespace string // "" for a cluster-scoped object
	Name      string
	Value     Raw // what the function has added with the key, nil for none; [Decode] reads it
}

// Lookup returns the objects that have a key of an index, ordered by namespace and name. The
// host runs the primary again when that changes. An error is a [*ReadError].
func (r *Run) Lookup(query IndexQuery) ([]IndexItem, error) {
	reply, code := r.host.IndexGet(functionindexes.EncodeCall(&functionindexes.Call{Index: query.Index, Key: query.Key, Namespace: query.Namespace}))
	err := codeError(code)
	var found *functionindexes.Reply
	if err == nil {
		found, err = functionindexes.DecodeReply(reply)
	}
	if err != nil {
		return nil, &ReadError{Verb: functionindexes.Import, What: query.Index + " " + strconv.Quote(query.Key), Err: err}
	}
	items := make([]IndexItem, len(found.Items))
	for i, item := range found.Items {
		items[i] = IndexItem{item.Namespace, item.Name, item.Value}
	}
	return items, nil
}
