package runner

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
)

const gadgetResources = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"test.dev/v1","resources":[` +
	`{"name":"widgets","namespaced":true,"kind":"Widget","verbs":["get","list","watch"]},` +
	`{"name":"gadgets","namespaced":true,"kind":"Gadget","verbs":["get","list","watch","patch"]}]}`

// The revision before a managed one still creates objects when the unlabelled ones were
// listed. Unless they have the label, the next one does not see them.
func TestWhatTheRunningRevisionCreatesDuringASwapIsLabelled(t *testing.T) {
	var running *effect.Performer
	widget, err := object.Parse([]byte(`{"apiVersion":"test.dev/v1","kind":"Widget","metadata":{"name":"w","namespace":"a","uid":"u","resourceVersion":"1"}}`), widgets)
	if err != nil {
		t.Fatal(err)
	}
	owner := abi.Controller{Name: "c", For: widgets.All(), Owns: abi.AllOf(gadgets)}
	var labelled []bool // of what was created
	create := func() {
		t.Helper()
		_, failure := running.PerformIntents(t.Context(), effect.Target{Controller: &owner, Object: widget}, &abi.Result{
			Apply: []abi.Apply{{Object: fmt.Appendf(nil, `{"apiVersion":"test.dev/v1","kind":"Gadget","metadata":{"name":"g%d"}}`, len(labelled))}},
		})
		if failure != nil {
			t.Errorf("%+v", failure)
		}
	}
	url := startServer(t, func(out http.ResponseWriter, request *http.Request) bool {
		switch {
		case request.URL.Path == "/apis/test.dev/v1":
			fmt.Fprint(out, gadgetResources)
		case request.Method == http.MethodPatch:
			body, _ := io.ReadAll(request.Body)
			labelled = append(labelled, strings.Contains(string(body), `"thole.dev/managed-by":"p"`))
			fmt.Fprintf(out, `{"apiVersion":"test.dev/v1","kind":"Gadget","metadata":{"name":"g","namespace":"a","uid":"g%d","resourceVersion":"9"}}`, len(labelled))
		case strings.Contains(request.URL.Query().Get("labelSelector"), "!="):
			create()
			fmt.Fprint(out, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[]}`)
		default:
			return false
		}
		return true
	})
	r := newRunner(t, url, "")
	start := func(claim func() error, starts, managed bool) {
		t.Helper()
		policy := config.Policy{}
		policy.Limits.Concurrency = 1
		err := r.Start(t.Context(), &Revision{
			Revision: events.Revision{Plugin: "p", Number: 1, Digest: "d"}, Policy: policy,
			Manifest: &abi.Manifest{Name: "p", Managed: managed, Controllers: []abi.Controller{owner}},
		}, claim)
		if (err == nil) != starts {
			t.Fatal(err)
		}
	}
	expect := func(when string, want ...bool) {
		t.Helper()
		if fmt.Sprint(labelled) != fmt.Sprint(want) {
			t.Errorf("%s: labelled are %v, want %v", when, labelled, want)
		}
		labelled = nil
	}
	wanted := func() error { return nil }
	start(wanted, true, false)
	running = r.plugins["p"].effects.Load()
	create()
	expect("without managed", false)
	start(func() error { return errors.New("the revision is not wanted any more") }, false, true)
	create()
	expect("when the managed revision could not start", true, false)
	start(wanted, true, true)
	create()
	expect("when it has started", true, true)
}

// Objects that have no label are not there for a managed revision. One that was started as
// a dry run has labelled none.
func TestObjectsAreLabelledWhenTheDryRunEnds(t *testing.T) {
	lists, labelled := 0, 0
	url := startServer(t, func(out http.ResponseWriter, request *http.Request) bool {
		switch {
		case request.URL.Path == "/apis/test.dev/v1":
			fmt.Fprint(out, gadgetResources)
		case request.Method == http.MethodPatch:
			labelled++
			fmt.Fprint(out, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"g","namespace":"a","uid":"g","resourceVersion":"1"}}`)
		case strings.Contains(request.URL.Query().Get("labelSelector"), "!="):
			lists++
			fmt.Fprint(out, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[{"metadata":{"name":"g","namespace":"a","uid":"g",`+
				`"ownerReferences":[{"apiVersion":"test.dev/v1","kind":"Widget","name":"w","uid":"u","controller":true}],`+
				`"managedFields":[{"manager":"thole/p/c","operation":"Apply","apiVersion":"test.dev/v1"}]}}]}`)
		default:
			return false
		}
		return true
	})
	r := newRunner(t, url, "")
	start := func(dryRun bool, wantLists, wantLabelled int) {
		t.Helper()
		policy := config.Policy{DryRun: dryRun}
		policy.Limits.Concurrency = 1
		lists, labelled = 0, 0
		if err := r.Start(t.Context(), &Revision{
			Revision: events.Revision{Plugin: "p", Number: 1, Digest: "d"}, Policy: policy,
			Manifest: &abi.Manifest{Name: "p", Managed: true, Controllers: []abi.Controller{
				{Name: "c", For: widgets.All(), Owns: abi.AllOf(gadgets)},
			}},
		}, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if lists != wantLists || labelled != wantLabelled {
			t.Errorf("dry run %t: %d lists and %d objects labelled, want %d and %d", dryRun, lists, labelled, wantLists, wantLabelled)
		}
	}
	start(true, 1, 0)
	start(true, 0, 0)
	start(false, 1, 1)
	start(false, 0, 0)
	start(true, 0, 0)
}
