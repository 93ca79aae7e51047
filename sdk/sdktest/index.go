package sdktest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/functionindexes"
)

// This file has indexes by functions: abi/functionindexes/SPEC.md.

// indexed is an object of an index.
type indexed struct{ index, uid string }

// indexEntries are what the function of an index has given to a state of an object.
type indexEntries struct {
	of      []byte // the object
	entries []functionindexes.Entry
}

// IndexGet returns what has a key of an index. The function is called for the objects that have
// changed since the last lookup.
func (r asHost) IndexGet(message []byte) ([]byte, int64) {
	r.tb.Helper()
	call, err := functionindexes.DecodeCall(message)
	if err != nil {
		return r.invalid(functionindexes.Import, err)
	}
	all := functionindexes.Of(&r.world.controller)
	i := slices.IndexFunc(all, func(x functionindexes.Index) bool { return x.Name == call.Index })
	if i < 0 {
		return r.denied(functionindexes.Import, fmt.Errorf("the controller has no index %q by a function", call.Index))
	}
	x := all[i]
	namespace, code := r.readScope(x.Kind, call.Namespace)
	if code != 0 {
		return nil, code
	}
	scopes, err := r.allowed(x.Kind, func(s *scope) error { return s.checkGet(namespace, nil) })
	if err != nil {
		return r.denied(functionindexes.Import, err)
	}
	reply := functionindexes.Reply{}
	for _, o := range r.world.list(func(o *object) bool { return o.kind == x.Kind && (namespace == "" || namespace == o.namespace) }) {
		if o = o.in(scopes); o == nil {
			continue
		}
		for _, e := range r.world.entriesOf(x.Name, o) {
			if e.Key == call.Key {
				reply.Items = append(reply.Items, functionindexes.Item{Namespace: o.namespace, Name: o.name, Value: e.Value})
			}
		}
	}
	text := functionindexes.EncodeReply(&reply)
	return text, int64(len(text))
}

// entriesOf returns what the function of an index gives to an object. If it fails, that is what
// it gave before, and the reason is in the log of the test.
func (w *World) entriesOf(index string, o *object) []functionindexes.Entry {
	w.tb.Helper()
	at := indexed{index, o.meta.UID}
	known := w.entries[at]
	if bytes.Equal(known.of, o.raw) {
		return known.entries
	}
	runner, ok := w.runner.(Indexer)
	if !ok {
		w.tb.Fatalf("index %s: the runner of the test is no sdktest.Indexer", index)
	}
	code, text, err := runner.Index(functionindexes.EncodeRequest(&functionindexes.Request{Index: index, Object: o.raw, Config: w.config}))
	var result *functionindexes.Result
	if err == nil {
		result, err = functionindexes.DecodeResult(text)
	}
	if err == nil && code != abi.CodeOK {
		err = fmt.Errorf("it returned %d, not 0: %s", code, result.Message)
	}
	known.of = o.raw
	if err != nil {
		w.tb.Logf("index %s: %s keeps its keys: %v", index, o.id, err)
	} else {
		known.entries = result.Entries
	}
	w.entries[at] = known
	return known.entries
}
