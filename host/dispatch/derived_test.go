package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// shadow is the kind of objects that a capability has derived from gadgets.
var shadow = cache.DerivedKind(gadget, "p/shadows")

// deriving makes the controller of the fixture read gadgets, with a capability that has derived objects from them. Its
// import lists these in the namespace that is its message, and returns how many there are.
func (f *fixture) deriving(s abi.Selector) {
	f.t.Helper()
	f.selecting(s)
	o, err := object.Parse([]byte(`{"metadata":{"namespace":"ns","name":"g","uid":"1","resourceVersion":"1"}}`), shadow)
	if err != nil {
		f.t.Fatal(err)
	}
	f.listError, f.list = nil, cache.List{Items: []*object.Object{o}}
	f.c.Hooks = []Hooks{{}, {Imports: map[string]func(context.Context, *ImportCall) ([]byte, int64){
		"shadows": func(ctx context.Context, call *ImportCall) ([]byte, int64) {
			found, code := call.ListDerived(ctx, string(call.Message), cache.Reading{Kind: shadow, Limit: 7})
			return fmt.Append(nil, len(found.Items)), code
		},
	}}}
}

// shadows calls the import, and returns its reply or its code.
func shadows(ctx context.Context, host sandbox.HostCalls, namespace string) string {
	reply, code := host.Import(ctx, "shadows", message([]byte(namespace)))
	if code != 0 {
		return fmt.Sprint(code)
	}
	return string(readText(reply))
}

func TestDerivedObjectsAreListedAsThoseOfTheirKind(t *testing.T) {
	for name, test := range map[string]struct {
		selector  abi.Selector
		allowed   string // a namespace in which the policy lets gadgets be listed, too
		namespace string // that is asked for
		want      string
		read      []string // the namespaces that are read
	}{
		"in the namespace of the primary":    {want: "1", read: []string{"ns"}},
		"that one by its name":               {namespace: "ns", want: "1", read: []string{"ns"}},
		"in another namespace":               {namespace: "b", want: "-2"},
		"in another one that is allowed":     {allowed: "b", namespace: "b", want: "1", read: []string{"b"}},
		"in all, of which some are followed": {selector: abi.Selector{Namespaces: []string{"ns", "b"}}, allowed: "*", want: "1", read: []string{"b", "ns"}},
		"in one that is not followed":        {selector: abi.Selector{Namespaces: []string{"b"}}, allowed: "*", namespace: "ns", want: "-2"},
	} {
		f := newFixture(t)
		f.deriving(test.selector)
		if test.allowed != "" {
			f.allow(test.allowed)
		}
		f.read(func(ctx context.Context, host sandbox.HostCalls) {
			if got := shadows(ctx, host, test.namespace); got != test.want {
				t.Errorf("%s: %s, want %s", name, got, test.want)
			}
			if r := f.reading; !slices.Equal(r.Namespaces, test.read) || test.read != nil && (r.Kind != shadow || r.Limit != 7) {
				t.Errorf("%s: read %+v", name, r)
			}
		})
	}
}

func TestWhatLooksAtDerivedObjectsIsPaid(t *testing.T) {
	f := newFixture(t)
	f.deriving(abi.Selector{})
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		paid := 0
		if _, code := host.Import(ctx, "shadows", sandbox.ReadCall{Pay: func(n int) { paid += n }}); code != 0 {
			t.Fatal(code)
		}
		if f.reading.Look(5); paid != 5 {
			t.Errorf("paid %d", paid)
		}
	})
}

func TestDerivedObjectsThatAreNotThereYetAreUnavailable(t *testing.T) {
	f := newFixture(t)
	f.deriving(abi.Selector{})
	f.listError = cache.ErrNotSynced
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		if got := shadows(ctx, host, ""); got != "-4" {
			t.Errorf("code %s", got)
		}
	})
}

// Of objects that are derived, the account must be able to list those of which they are made.
func TestListOfDerivedObjectsNeedsTheRightToList(t *testing.T) {
	for right, want := range map[string]string{"get Gadget": "-2", "list Gadget other": "-2", "list Gadget ns": "1"} {
		f := newFixture(t)
		f.deriving(abi.Selector{})
		f.as("get Widget", right)
		f.read(func(ctx context.Context, host sandbox.HostCalls) {
			if got := shadows(ctx, host, ""); got != want {
				t.Errorf("%s: %s", right, got)
			}
		})
	}
}

func TestAChangeOfADerivedObjectRunsWhoMayReadItsKind(t *testing.T) {
	for right, want := range map[string][]string{"list Gadget": {"add ns/w read"}, "get Widget": nil} {
		f := newFixture(t)
		f.deriving(abi.Selector{})
		a := f.as("get Widget", right)
		for _, verb := range []string{"get", "list"} {
			_ = a.May(t.Context(), verb, gadget, object.Key{Namespace: "ns", Name: "g"}) // is remembered
		}
		f.log = nil
		f.c.ObserveRead(testKey, nil, f.list.Items[0], false)
		f.expect(want...)
	}
}

func TestPrimariesAreFoundByAnIndexOfACapability(t *testing.T) {
	f := newSignalled(t)
	f.c.Hooks = []Hooks{{}, {Resolve: func(rev *Revision, index, key string) (list cache.Reading, ok bool) {
		if rev != f.c.Revision() {
			t.Errorf("asked for revision %d", rev.Number)
		}
		return cache.Reading{Kind: shadow, Controller: index + " " + key}, index == "x"
	}}}
	if _, err := f.c.Resolve("x", "k", 10); !errors.Is(err, cache.ErrNotSynced) {
		t.Errorf("before there are objects: %v", err)
	}
	entry := func(name string) *object.Object {
		o, err := object.Parse(fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":%q,"uid":"u","resourceVersion":"1"}}`, name), shadow)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	f.listError, f.list = nil, cache.List{Items: []*object.Object{entry("w"), entry("not-a-primary")}}
	found, err := f.c.Resolve("x", "k", 10)
	if !slices.Equal(found, []object.Key{testKey}) || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if r := f.reading; r.Kind != shadow || r.Limit != 10 || r.Controller != "x k" || r.Namespaces != nil {
		t.Errorf("what was read: %+v", r)
	}
	if _, err := f.c.Resolve("y", "k", 10); err == nil || !strings.Contains(err.Error(), `no index "y"`) {
		t.Errorf("another index: %v", err)
	}
}
