package dispatch

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
)

// allows gives the plugin an entry for Gadgets.
func (f *fixture) allows(verbs string, namespaces ...string) {
	f.entries = append(f.entries, rights.Entry{Groups: []string{""}, Kinds: []string{"Gadget"}, Verbs: strings.Fields(verbs), Namespaces: namespaces})
	f.follow()
}

// reads returns what a get and a list read in namespaces: denied, or the namespaces of the list.
func (f *fixture) readsIn(namespace string) (get, list string) {
	f.t.Helper()
	get, list = "allowed", "denied"
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		call := &abi.GetCall{Ref: gadget.Ref(namespace, "none")}
		if _, code := host.Get(ctx, message(abi.EncodeGetCall(call))); code == abi.CodeDenied {
			get = "denied"
		} else if code != abi.CodeNotFound {
			f.t.Errorf("get in %q: code %d", namespace, code)
		}
		of := someGadgets
		of.Namespace = namespace
		if _, code := host.List(ctx, encoded(of)); code >= 0 {
			list = fmt.Sprint(f.reading.Namespaces)
		} else if code != abi.CodeDenied {
			f.t.Errorf("list in %q: code %d", namespace, code)
		}
	})
	return get, list
}

func TestReadsNeedTheirVerbInTheNamespace(t *testing.T) {
	for _, c := range []struct {
		name      string
		entries   func(*fixture)
		namespace string
		get, list string
	}{
		{"own without an entry", func(*fixture) {}, "ns", "allowed", "[ns]"},
		{"another without an entry", func(*fixture) {}, "a", "denied", "denied"},
		{"all without an entry", func(*fixture) {}, "", "allowed", "[ns]"},
		{"get alone", func(f *fixture) { f.allows("get", "a") }, "a", "allowed", "denied"},
		{"list alone", func(f *fixture) { f.allows("list", "a") }, "a", "denied", "[a]"},
		{"a third one", func(f *fixture) { f.allows("get list", "a") }, "b", "denied", "denied"},
		{"all of some", func(f *fixture) { f.allows("get list", "a", "b") }, "", "allowed", "[a b ns]"},
		{"all of all", func(f *fixture) { f.allows("*", "*") }, "", "allowed", "[]"},
		{"of several entries", func(f *fixture) { f.allows("get", "a"); f.allows("list", "b") }, "", "allowed", "[b ns]"},
		{"writing verbs", func(f *fixture) { f.allows("create patch delete", "*") }, "a", "denied", "denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			f.listError = nil
			c.entries(f)
			if get, list := f.readsIn(c.namespace); get != c.get || list != c.list {
				t.Errorf("get %s, list %s, want %s, %s", get, list, c.get, c.list)
			}
		})
	}
}

// A manifest may name namespaces of which the policy allows none.
func TestListOfNamespacesThatAreNotAllowedIsDenied(t *testing.T) {
	f := newFixture(t)
	f.selecting(abi.Selector{Namespaces: []string{"a", "b"}})
	f.listError = nil
	if get, list := f.readsIn(""); get != "denied" || list != "denied" {
		t.Errorf("get %s, list %s", get, list)
	}
	f.allows("list", "b", "c")
	if _, list := f.readsIn(""); list != "[b]" {
		t.Errorf("list %s", list)
	}
}

// Each of those who may say no is asked after the ones before: a denied read names the first.
func TestADeniedReadNamesTheFirstWhoSaysNo(t *testing.T) {
	const (
		manifest = "the kind is in none of For, Owns, Reads and Watches"
		policy   = "the policy of the plugin does not allow it"
		followed = "outside of what the controller and the policy let the plugin follow"
		account  = "the plugin lacks a right"
	)
	for _, c := range []struct {
		declared []string // namespaces of Gadgets in the manifest; nil: it has none of the kind
		entry    string
		right    string
		want     string
	}{
		{nil, "", "none", manifest},
		{nil, "a", "all", manifest},
		{[]string{"b"}, "", "none", policy},
		{[]string{"b"}, "b", "all", policy},
		{[]string{"b"}, "a", "none", followed},
		{[]string{"b"}, "a", "all", followed},
		{[]string{"a"}, "a", "none", account},
		{[]string{"a"}, "a", "all", ""},
	} {
		t.Run(fmt.Sprintf("%q, entry %q, rights %s", c.declared, c.entry, c.right), func(t *testing.T) {
			f := newFixture(t)
			logs := logtest.New(hclog.Warn)
			f.c.Logger = logs.Logger
			f.selecting(abi.Selector{Namespaces: c.declared})
			if c.declared == nil {
				f.c.Revision().Controller.Reads = nil
			}
			f.listError = nil
			if c.entry != "" {
				f.allows("get list", c.entry)
			}
			granted := []string{"get Widget"}
			if c.right == "all" {
				granted = append(granted, "get Gadget", "list Gadget")
			}
			f.as(granted...)
			want := "allowed [a]"
			if c.want != "" {
				want = "denied denied"
			}
			if get, list := f.readsIn("a"); get+" "+list != want {
				t.Errorf("get %s, list %s, want %s", get, list, want)
			}
			for _, read := range []string{"get", "list"} {
				if c.want == "" {
					break
				}
				if line := logs.Next(t); !strings.Contains(line.Message, c.want) {
					t.Errorf("%s: %s, want %s", read, line.Message, c.want)
				}
			}
		})
	}
}

func TestSecretsAreReadByAnEntry(t *testing.T) {
	f := newFixture(t)
	logs := logtest.New(hclog.Warn)
	f.c.Logger = logs.Logger
	f.put(aWidget)
	f.c.Revision().Controller.Reads = abi.AllOf(abi.Kind{APIVersion: "v1", Kind: "Secret"})
	get := func(namespace string) (code int64) {
		f.read(func(ctx context.Context, host sandbox.HostCalls) {
			_, code = host.Get(ctx, message(abi.EncodeGetCall(&abi.GetCall{Ref: abi.Ref{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: "s"}})))
		})
		return code
	}
	for namespace, want := range map[string]string{
		"": "{groups: [''], kinds: [Secret], verbs: [get]}", "a": "{groups: [''], kinds: [Secret], verbs: [get], namespaces: [a]}",
	} {
		if code := get(namespace); code != abi.CodeDenied {
			t.Errorf("code %d", code)
		}
		logs.ExpectNext(t, hclog.Warn, "entry", want)
	}
	f.entries = rights.Entries{{Groups: []string{""}, Kinds: []string{"Secret"}, Verbs: []string{"get"}}}
	if code := get(""); code == abi.CodeDenied {
		t.Error("an entry does not allow it")
	}
}

// Whatever a guest writes into a call is not logged as a whole.
func TestNamespaceOfADeniedReadIsLoggedInPart(t *testing.T) {
	f := newFixture(t)
	logs := logtest.New(hclog.Warn)
	f.c.Logger = logs.Logger
	f.put(aWidget)
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		host.Get(ctx, message(abi.EncodeGetCall(&abi.GetCall{Ref: gadget.Ref(strings.Repeat("x", 1<<20), "g")})))
	})
	if line := logs.Next(t); len(fmt.Sprint(line)) > 1000 {
		t.Errorf("%d bytes were logged", len(fmt.Sprint(line)))
	}
}
