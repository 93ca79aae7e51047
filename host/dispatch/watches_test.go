package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

var node = abi.Kind{APIVersion: "v1", Kind: "Node"}

// watched returns the keys that are due after the change of an object of a watched kind.
func (f *fixture) watched(w abi.Watch, old, updated string) (due []string) {
	f.t.Helper()
	parse := func(text string) *object.Object {
		if text == "" {
			return nil
		}
		o, err := object.Parse([]byte(text), node)
		if err != nil {
			f.t.Fatal(err)
		}
		return o
	}
	f.log = nil
	field, err := fieldpath.ParsePath(w.Field)
	if err != nil && w.Field != "" {
		f.t.Fatal(err)
	}
	w.Kind = node
	f.c.Revision().Controller.Watches = []abi.Watch{w}
	f.follow()
	f.c.ObserveWatched(&w, field, parse(old), parse(updated))
	due = slices.Sorted(slices.Values(f.log))
	f.log = nil
	return due
}

func TestChangeOfAWatchedObjectRunsThePrimariesThatBelongToIt(t *testing.T) {
	label := abi.Watch{By: abi.WatchByLabel, Key: "example.com/widget"}
	annotation := abi.Watch{By: abi.WatchByAnnotation, Key: "example.com/widget"}
	owner := abi.Watch{By: abi.WatchByOwner}
	field := abi.Watch{By: abi.WatchByField, Field: "spec.nodes[*]"}
	meta := func(namespace, rest string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":"n"%s}}`, namespace, rest)
	}
	named := func(namespace, where, value string) string {
		return meta(namespace, fmt.Sprintf(`,%q:{"example.com/widget":%q}`, where, value))
	}
	owned := func(namespace, apiVersion, name string) string {
		return meta(namespace, fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"example.dev/v1","kind":"Other","name":"x"},{"apiVersion":%q,"kind":"Widget","name":%q}]`, apiVersion, name))
	}
	a, b, other := "add ns/a read", "add ns/b read", "add other/a read"
	for name, test := range map[string]struct {
		watch        abi.Watch
		old, updated string
		cross        bool // policy
		want         []string
	}{
		"label":                          {label, "", named("ns", "labels", "a"), false, []string{a}},
		"label of two states":            {label, named("ns", "labels", "a"), named("ns", "labels", "b"), false, []string{a, b}},
		"label that stays":               {label, named("ns", "labels", "a"), named("ns", "labels", "a"), false, []string{a}},
		"label of a deleted object":      {label, named("ns", "labels", "a"), "", false, []string{a}},
		"label in another namespace":     {label, "", named("other", "labels", "a"), false, []string{other}},
		"label of no primary":            {label, "", named("ns", "labels", "c"), false, nil},
		"label of a cluster-scoped one":  {label, "", named("", "labels", "a"), false, nil},
		"no label":                       {label, "", meta("ns", ""), false, nil},
		"label is no annotation":         {label, "", named("ns", "annotations", "a"), false, nil},
		"annotation":                     {annotation, "", named("ns", "annotations", "b"), false, []string{b}},
		"annotation with namespace":      {annotation, "", named("ns", "annotations", "ns/b"), false, []string{b}},
		"annotation of another one":      {annotation, "", named("ns", "annotations", "other/a"), false, nil},
		"annotation that may":            {annotation, "", named("ns", "annotations", "other/a"), true, []string{other}},
		"annotation of a cluster-scoped": {annotation, "", named("", "annotations", "other/a"), false, []string{other}},
		"annotation that is no name":     {annotation, "", named("ns", "annotations", "/a"), true, nil},
		"annotation with two slashes":    {annotation, "", named("ns", "annotations", "ns/a/b"), true, nil},
		"owner":                          {owner, "", owned("ns", "example.dev/v1", "a"), false, []string{a}},
		"owner of another group":         {owner, "", owned("ns", "other.dev/v1", "a"), false, nil},
		"owner at another version":       {owner, "", owned("ns", "example.dev/v2", "a"), false, []string{a}},
		"field":                          {field, "", `{"metadata":{"namespace":"ns","name":"x"}}`, false, []string{a, b}},
		"field with namespace":           {field, "", `{"metadata":{"namespace":"ns","name":"y"}}`, false, []string{b}},
		"field of another namespace":     {field, "", `{"metadata":{"namespace":"other","name":"x"}}`, false, nil},
		"field that may cross":           {field, "", `{"metadata":{"namespace":"other","name":"z"}}`, true, []string{a}},
		"field that may not":             {field, "", `{"metadata":{"namespace":"other","name":"z"}}`, false, nil},
		"field of a cluster-scoped one":  {field, "", `{"metadata":{"name":"x"}}`, false, []string{a, b}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"a"},"spec":{"nodes":["x","other/z"]}}`)
			f.put(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"b"},"spec":{"nodes":["w","x","ns/y"]}}`)
			f.put(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"other","name":"a"}}`)
			if f.allow(); test.cross {
				f.allow(rights.Any)
			}
			if got := f.watched(test.watch, test.old, test.updated); !slices.Equal(got, test.want) {
				t.Errorf("due: %q, want %q", got, test.want)
			}
		})
	}
}

// Somebody's edit does not wait for all of them.
func TestManyPrimariesOfAWatchedObjectRunInTheBackground(t *testing.T) {
	field := abi.Watch{By: abi.WatchByField, Field: "spec.node"}
	for many, want := range map[int]string{watchedChanged.bulk: "add ns/", watchedChanged.bulk + 1: "add in the background ns/"} {
		f := newFixture(t)
		for i := range many {
			f.put(fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"%d"},"spec":{"node":"n"}}`, i))
		}
		due := f.watched(field, "", `{"metadata":{"name":"n"}}`)
		if len(due) != many || !strings.HasPrefix(due[0], want) || !strings.HasPrefix(due[many-1], want) {
			t.Errorf("%d primaries: %d are due, such as %q", many, len(due), due[0])
		}
	}
}
