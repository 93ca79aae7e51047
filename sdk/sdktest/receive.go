package sdktest

import (
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/abi/receives"
)

// This file has events from outside: abi/receives/SPEC.md.

// Receive receives a CloudEvent, in its JSON format, and returns the names of the objects that it is
// for, as [World.Reconcile] takes them. The next requests for these have it, until a run has ended well.
// There are none if the controller declares no such events, or no object is found by the event.
func (w *World) Receive(event any) (names []string) {
	w.tb.Helper()
	text := w.encode(event)
	for _, name := range []string{"id", "source", "type"} {
		if attribute(text, name) == "" {
			w.tb.Fatalf("receive: the event has no attribute %s", name)
		}
	}
	if attribute(text, "specversion") != "1.0" || len(text) > receives.MaxEvent {
		w.tb.Fatalf("receive: the event has not specversion 1.0, or more than %d bytes: a host refuses it", receives.MaxEvent)
	}
	for _, o := range w.list(func(o *object) bool { return o.kind == w.controller.For.Kind }) {
		if o = o.in(w.scopes[:1]); o == nil || !w.isFor(text, o) {
			continue
		}
		w.key(o).addSignals([][]byte{text})
		names = append(names, strings.TrimPrefix(o.namespace+"/"+o.name, "/"))
	}
	return names
}

// attribute returns an attribute of an event, "" if it has none.
func attribute(event []byte, name string) string {
	value, _ := rawjson.Lookup(event, name)
	var text string
	rawjson.NewReader(value).StringTo(&text)
	return text
}

// isFor reports whether an event makes a primary run.
func (w *World) isFor(event []byte, o *object) bool {
	w.tb.Helper()
	all, _ := receives.Decode(w.controller.Section(receives.Name)) // was checked
	return slices.ContainsFunc(all, func(entry receives.Receive) bool {
		switch {
		case entry.Type != "" && entry.Type != attribute(event, "type"),
			entry.DataSchema != "" && entry.DataSchema != attribute(event, "dataschema"):
			return false
		case entry.Resolve == nil:
			return attribute(event, "subject") == strings.TrimPrefix(o.namespace+"/"+o.name, "/")
		}
		return w.resolves(entry.Resolve, event, o)
	})
}

// resolves reports whether an index has a primary by a value of an event.
func (w *World) resolves(by *receives.Resolve, event []byte, o *object) bool {
	w.tb.Helper()
	from, err := fieldpath.ParsePath(by.From)
	if err != nil {
		w.tb.Fatalf("receive: resolve.from of the controller: %v", err)
	}
	all := functionindexes.All(&w.controller)
	x := all[slices.IndexFunc(all, func(x abi.Index) bool { return x.Name == by.Index })]
	var has []string
	if x.Field == "" {
		for _, entry := range w.entriesOf(x.Name, o) {
			has = append(has, entry.Key)
		}
	} else if field, err := fieldpath.ParsePath(x.Field); err == nil {
		has = field.Values(o.raw)
	}
	return slices.ContainsFunc(from.Values(event), func(value string) bool { return slices.Contains(has, value) })
}
