package sdktest

import (
	"bytes"
	"fmt"

	"github.com/thole-dev/thole/abi"
)

// This file has indexes by keys: SPEC.md, "Index request" and "index_get".

// indexed is an object of an index.
type indexed struct{ index, uid string }

// indexEntries are what the function of an index has given to a state of an object.
type indexEntries struct {
	of      []byte // the object
	entries []abi.IndexEntry
}

// IndexGet returns what has a key of an index. The function is called for the objects that have
// changed since the last lookup.
func (r asHost) IndexGet(message []byte) ([]byte, int64) {
	r.tb.Helper()
	call, err := abi.DecodeIndexGetCall(message)
	if err != nil {
		return r.invalid("index_get", err)
	}
	x, listed := r.world.controller.IndexByKeys(call.Index)
	if !listed {
		return r.denied("index_get", fmt.Errorf("the controller lists no index %q without field", call.Index))
	}
	namespace, code := r.readScope(x.Kind, call.Namespace)
	if code != 0 {
		return nil, code
	}
	scopes, err := r.allowed(x.Kind, func(s *scope) error { return s.checkGet(namespace, nil) })
	if err != nil {
		return r.denied("index_get", err)
	}
	reply := abi.IndexReply{}
	for _, o := range r.world.list(func(o *object) bool { return o.kind == x.Kind && (namespace == "" || namespace == o.namespace) }) {
		if o = o.in(scopes); o == nil {
			continue
		}
		for _, e := range r.world.entriesOf(x.Name, o) {
			if e.Key == call.Key {
				reply.Items = append(reply.Items, abi.IndexItem{Namespace: o.namespace, Name: o.name, Value: e.Value})
			}
		}
	}
	text := abi.EncodeIndexReply(&reply)
	return text, int64(len(text))
}

// entriesOf returns what the function of an index gives to an object. If it fails, that is what
// it gave before, and the reason is in the log of the test.
func (w *World) entriesOf(index string, o *object) []abi.IndexEntry {
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
	code, text, err := runner.Index(abi.EncodeIndexRequest(&abi.IndexRequest{Index: index, Object: o.raw, Config: w.config}))
	var result *abi.IndexResult
	if err == nil {
		result, err = abi.DecodeIndexResult(text)
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
