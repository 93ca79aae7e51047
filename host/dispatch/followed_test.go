package dispatch

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
)

// These tests read and write with selectors (abi/spec/reads.md, "Followed kind" and "Managed children").

// getGadget returns the reply to a get of a gadget, or the code. Nothing may depend on the
// message afterwards, which may be large.
func getGadget(ctx context.Context, host sandbox.HostCalls, name string, fields ...string) string {
	call := &abi.GetCall{Ref: abi.Ref{APIVersion: "v1", Kind: "Gadget", Name: name}, Fields: fields}
	sent := message(abi.EncodeGetCall(call))
	defer clear(sent.Message)
	reply, code := host.Get(ctx, sent)
	if code < 0 {
		return fmt.Sprint(code)
	}
	return string(readText(reply))
}

// selecting makes the controller of the fixture read gadgets with a selector only.
func (f *fixture) selecting(s abi.Selector) {
	f.put(aWidget)
	f.c.Revision().Controller.Owns = nil
	f.c.Revision().Controller.Reads = []abi.Followed{{Kind: gadget, Selector: s}}
}

func TestWhatIsNotFollowedIsDeniedAndNotMissing(t *testing.T) {
	f := newFixture(t)
	logs := logtest.New(hclog.Warn)
	f.c.Logger = logs.Logger
	f.selecting(abi.Selector{LabelSelector: "app=x"})
	f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"in","labels":{"app":"x"}}}`)
	f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"out","labels":{"app":"y"}}}`)
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		for name, denied := range map[string]bool{"in": false, "out": true, "none": true} {
			if got := getGadget(ctx, host, name); (got == "-2") != denied || !denied && !strings.Contains(got, `"in"`) {
				t.Errorf("get %s: %s", name, got)
			}
		}
		if getGadget(ctx, host, "in", "spec"); f.edge != `["/metadata/labels","/spec"]` {
			t.Errorf("the edge depends on %s: a change of the label may take the object out of what is followed", f.edge)
		}
		f.listError = nil
		for selector, denied := range map[string]bool{"": true, "app": true, "app=y": true, "app in (x,y)": true, "app=x": false, "app=x,tier": false, "app in (x)": false} {
			call := someGadgets
			call.LabelSelector = selector
			if _, code := host.List(ctx, encoded(call)); (code == abi.CodeDenied) != denied {
				t.Errorf("list %q: code %d", selector, code)
			}
		}
	})
	logs.ExpectNext(t, hclog.Warn, "kind", "v1 Gadget")
}

func TestWhatIsFollowedAsAWholeIsReadInTheNamespaceOfThePrimary(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.listError = nil
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		if getGadget(ctx, host, "a", "spec"); f.edge != `["/spec"]` {
			t.Errorf("the edge depends on %s", f.edge)
		}
		if _, code := host.List(ctx, encoded(someGadgets)); code < 0 || fmt.Sprint(f.reading.Namespaces) != "[ns]" {
			t.Errorf("list: code %d, lists %s", code, f.reading.Namespaces)
		}
	})
}

func TestNamespacesThatAreNotFollowedAreDenied(t *testing.T) {
	f := newFixture(t)
	f.selecting(abi.Selector{Namespaces: []string{"other"}})
	f.allow(rights.Any)
	f.listError = nil
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		if got := getGadget(ctx, host, "a"); got != "-2" {
			t.Errorf("get: %s", got)
		}
		for namespace, want := range map[string]string{"": "[other]", "other": "[other]", "ns": "denied"} {
			call := someGadgets
			call.Namespace = namespace
			_, code := host.List(ctx, encoded(call))
			if got := fmt.Sprint(f.reading.Namespaces); (code == abi.CodeDenied) != (want == "denied") || code >= 0 && got != want {
				t.Errorf("list in %q: code %d, lists %s", namespace, code, got)
			}
		}
		call := &abi.GetCall{Ref: abi.Ref{APIVersion: "v1", Kind: "Gadget", Namespace: "other", Name: "none"}}
		if _, code := host.Get(ctx, message(abi.EncodeGetCall(call))); code != abi.CodeNotFound {
			t.Errorf("an object of a namespace that is followed: code %d", code)
		}
	})
}

func TestMetadataIsAllThatIsReadOfMetadataOnly(t *testing.T) {
	f := newFixture(t)
	f.selecting(abi.Selector{MetadataOnly: true})
	f.listError = nil
	f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"a","labels":{"x":"y"}},"spec":{"secret":1}}`)
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		if got := getGadget(ctx, host, "a"); got != `{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"a","labels":{"x":"y"}}}` {
			t.Errorf("get: %s", got)
		}
		for _, fields := range [][]string{{"spec"}, {"metadata", "/spec/secret"}} {
			if got := getGadget(ctx, host, "a", fields...); got != "-2" {
				t.Errorf("get %q: %s", fields, got)
			}
			call := someGadgets
			call.Fields = fields
			if _, code := host.List(ctx, encoded(call)); code != abi.CodeDenied {
				t.Errorf("list %q: code %d", fields, code)
			}
		}
		labels := someGadgets
		labels.Fields = []string{"/metadata/labels"}
		for want, call := range map[string]abi.ListCall{metadataPart.String(): someGadgets, `["/metadata/labels"]`: labels} {
			if _, code := host.List(ctx, encoded(call)); code < 0 || f.reading.Part.String() != want {
				t.Errorf("list: code %d, reads %s, want %s", code, f.reading.Part, want)
			}
		}
	})
}

// managing makes the plugin own gadgets as managed children.
func (f *fixture) managing() {
	f.put(aWidget)
	f.managed = true
}

func TestAChildWithoutItsLabelIsReadFromTheServer(t *testing.T) {
	f := newFixture(t)
	f.managing()
	f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"own","labels":{"thole.dev/managed-by":"p"}}}`)
	unlabelled := `{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"other"},"spec":{"a":1}}`
	f.live = f.put(unlabelled)
	f.listError = nil
	f.log = nil
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		if got := getGadget(ctx, host, "own"); !strings.Contains(got, "own") {
			t.Errorf("get: %s", got)
		}
		for range 2 {
			if got := getGadget(ctx, host, "other"); got != unlabelled {
				t.Errorf("get: %s", got)
			}
		}
		f.live = nil
		if got := getGadget(ctx, host, "other"); got != unlabelled {
			t.Errorf("the same object is another one in the same run: %s", got)
		}
		for range 2 {
			if got := getGadget(ctx, host, "none"); got != "-1" {
				t.Errorf("get of an object that does not exist: %s", got)
			}
		}
		if _, code := host.List(ctx, encoded(someGadgets)); code < 0 || f.reading.Selector.String() != "thole.dev/managed-by=p" {
			t.Errorf("list: code %d, selects %s", code, f.reading.Selector)
		}
		for i := range maxLiveReads + 1 {
			if got, want := getGadget(ctx, host, fmt.Sprint("more", i)), i >= maxLiveReads-2; (got == "-2") != want {
				t.Errorf("get %d: %s", i, got)
			}
		}
	})
	var live []string
	for _, line := range f.log {
		if strings.HasPrefix(line, "live") {
			live = append(live, line)
		}
	}
	if want := "live Gadget ns/other live Gadget ns/none live Gadget ns/more0"; len(live) != maxLiveReads || !strings.HasPrefix(strings.Join(live, " "), want) {
		t.Errorf("read %q", live)
	}
}

func TestALiveReadThatFailsIsNotNotFound(t *testing.T) {
	f := newFixture(t)
	f.managing()
	f.liveError = fmt.Errorf("no response")
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		if got := getGadget(ctx, host, "other"); got != fmt.Sprint(abi.CodeUnavailable) {
			t.Errorf("get: %s", got)
		}
	})
}

func TestALiveReadThatTheServerForbidsIsDenied(t *testing.T) {
	f := newFixture(t)
	f.managing()
	logs := logtest.New(hclog.Warn)
	f.c.Logger = logs.Logger
	f.liveError = fmt.Errorf("get: %w", &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: `gadgets "g" is forbidden: User "u" cannot get resource "gadgets" in API group "" in the namespace "ns"`,
	}})
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		if got := getGadget(ctx, host, "other"); got != fmt.Sprint(abi.CodeDenied) {
			t.Errorf("get: %s", got)
		}
	})
	if line := fmt.Sprint(logs.Next(t)); !strings.Contains(line, `resources: ['gadgets'], verbs: ['get']`) {
		t.Errorf("logged: %s", line)
	}
}

func TestAPrimaryOfWhichOnlyMetadataIsKnownHasNoStatus(t *testing.T) {
	for name, result := range map[string]*abi.Result{
		"status":     {Status: []byte(`{"a":1}`)},
		"conditions": {Conditions: []abi.Condition{{Type: "Ready", Status: "True", Reason: "R"}}},
		"neither":    {},
	} {
		f := newFixture(t)
		f.put(aWidget)
		f.c.Revision().Controller.For.MetadataOnly = true
		f.follow()
		f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) { return returns(result) }
		f.run()
		refused := false
		for _, line := range f.log {
			if strings.HasPrefix(line, "status") {
				t.Errorf("%s: wrote %s", name, line)
			}
		}
		if s := f.c.keys[testKey]; s != nil && s.carried != nil && s.carried.previous != nil {
			refused = s.carried.previous.Class == abi.ClassABI
		}
		if refused != (name != "neither") {
			t.Errorf("%s: refused: %v, %v", name, refused, f.log)
		}
	}
}

// The API server need not be asked for what is followed as a whole where it would be.
func TestWhatIsFollowedAsAWholeIsNotReadFromTheServer(t *testing.T) {
	f := newFixture(t)
	f.managing()
	f.c.Revision().Controller.Reads = []abi.Followed{{Kind: gadget, Selector: abi.Selector{Namespaces: []string{"ns"}}}}
	f.log = nil
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		for i := range maxLiveReads + 1 {
			if got := getGadget(ctx, host, fmt.Sprint("none", i)); got != "-1" {
				t.Fatalf("get %d: %s", i, got)
			}
		}
	})
	for _, line := range f.log {
		if strings.HasPrefix(line, "live") {
			t.Errorf("read %q", line)
		}
	}
}

// A plugin looks for its children before it has created them. What does not exist takes no
// memory; what does is bounded.
func TestLiveReadsOfARunAreBoundedByWhatTheyKeep(t *testing.T) {
	f := newFixture(t)
	f.managing()
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		for i := range 100 {
			if got := getGadget(ctx, host, fmt.Sprint("none", i)); got != "-1" {
				t.Fatalf("get %d: %s", i, got)
			}
		}
		f.live = f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"large"},"data":"` + strings.Repeat("x", 1<<20) + `"}`)
		read := 0
		for ; read < 100 && getGadget(ctx, host, fmt.Sprint("large", read)) != "-2"; read++ {
		}
		if read != 4 {
			t.Errorf("%d objects of 1 MiB were read", read)
		}
	})
}
