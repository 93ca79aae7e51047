package dispatch

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/index"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// indexing makes the controller of the fixture read gadgets, with an index of them by keys. The
// index has what entries are.
func (f *fixture) indexing(s abi.Selector, entries ...string) {
	f.t.Helper()
	f.selecting(s)
	f.c.Revision().Controller.Indexes = []abi.Index{{Name: "by-site", Kind: gadget}, {Name: "by-type", Kind: gadget, Field: "type"}}
	f.listError, f.list = nil, cache.List{}
	for _, text := range entries {
		o, err := object.Parse([]byte(text), index.Kind("p", "by-site"))
		if err != nil {
			f.t.Fatal(err)
		}
		f.list.Items = append(f.list.Items, o)
	}
}

func lookUp(ctx context.Context, host sandbox.HostCalls, call abi.IndexGetCall) string {
	sent := message(abi.EncodeIndexGetCall(&call))
	sent.MaxReply = 100
	reply, code := host.IndexGet(ctx, sent)
	if code < 0 {
		return fmt.Sprint(code)
	}
	return string(readText(reply))
}

const someEntries = `{"metadata":{"namespace":"ns","name":"g","uid":"1","resourceVersion":"1"},"entries":[{"key":"other"},{"key":"shop","value":{"port":80}}]}`

func TestIndexGetReturnsWhatHasTheKey(t *testing.T) {
	f := newFixture(t)
	f.indexing(abi.Selector{}, someEntries)
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		if got := lookUp(ctx, host, abi.IndexGetCall{Index: "by-site", Key: "shop"}); got != `{"items":[{"namespace":"ns","name":"g","value":{"port":80}}]}` {
			t.Errorf("got %s", got)
		}
		if !slices.Equal(f.reading.Namespaces, []string{"ns"}) || f.reading.Kind != index.Kind("p", "by-site") {
			t.Errorf("read %+v", f.reading)
		}
		if got := lookUp(ctx, host, abi.IndexGetCall{Index: "by-site", Key: "other"}); got != `{"items":[{"namespace":"ns","name":"g"}]}` {
			t.Errorf("without a value: %s", got)
		}
		f.list.Items = slices.Repeat(f.list.Items, 100)
		if got := lookUp(ctx, host, abi.IndexGetCall{Index: "by-site", Key: "shop"}); got != "-6" {
			t.Errorf("a large reply: %s", got)
		}
		f.listError = cache.ErrNotSynced
		if got := lookUp(ctx, host, abi.IndexGetCall{Index: "by-site", Key: "shop"}); got != "-4" {
			t.Errorf("while it is built: %s", got)
		}
	})
}

func TestIndexGetIsDeniedOutsideOfWhatMayBeListed(t *testing.T) {
	f := newFixture(t)
	f.indexing(abi.Selector{}, someEntries)
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		for name, c := range map[string]struct {
			call abi.IndexGetCall
			want string
		}{
			"an index that is not listed": {abi.IndexGetCall{Index: "by-name", Key: "shop"}, "-2"},
			"an index by a field":         {abi.IndexGetCall{Index: "by-type", Key: "shop"}, "-2"},
			"another namespace":           {abi.IndexGetCall{Index: "by-site", Key: "shop", Namespace: "other"}, "-2"},
			"no name of an index":         {abi.IndexGetCall{Index: "By Site", Key: "shop"}, "-5"},
		} {
			if got := lookUp(ctx, host, c.call); got != c.want {
				t.Errorf("%s: %s", name, got)
			}
		}
	})
}

func TestIndexGetStaysInTheNamespacesThatAreFollowed(t *testing.T) {
	f := newFixture(t)
	f.indexing(abi.Selector{Namespaces: []string{"ns", "b"}}, someEntries)
	f.allow("*")
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		lookUp(ctx, host, abi.IndexGetCall{Index: "by-site", Key: "shop"})
		if !slices.Equal(f.reading.Namespaces, []string{"b", "ns"}) {
			t.Errorf("read %+v", f.reading)
		}
	})
}

func TestIndexGetNeedsTheRightToList(t *testing.T) {
	for right, want := range map[string]string{"get Gadget": "-2", "list Gadget other": "-2", "list Gadget ns": `{"items":[{"namespace":"ns","name":"g"}]}`} {
		f := newFixture(t)
		f.indexing(abi.Selector{}, someEntries)
		f.as("get Widget", right)
		f.read(func(ctx context.Context, host sandbox.HostCalls) {
			if got := lookUp(ctx, host, abi.IndexGetCall{Index: "by-site", Key: "other"}); got != want {
				t.Errorf("%s: %s", right, got)
			}
		})
	}
}

// Of what an index has, the account must be able to read the objects that have the keys.
func TestAChangeOfAnIndexRunsWhoMayReadItsKind(t *testing.T) {
	for right, want := range map[string][]string{"list Gadget": {"add ns/w read"}, "get Widget": nil} {
		f := newFixture(t)
		f.indexing(abi.Selector{}, someEntries)
		a := f.as("get Widget", right)
		for _, verb := range []string{"get", "list"} {
			_ = a.May(t.Context(), verb, gadget, object.Key{Namespace: "ns", Name: "g"}) // is remembered
		}
		f.log = nil
		f.c.ObserveRead(testKey, nil, f.list.Items[0], false)
		f.expect(want...)
	}
}
