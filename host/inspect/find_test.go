package inspect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/object"
)

func TestGuessIsTheUsualPlural(t *testing.T) {
	for kind, want := range map[abi.Kind]resource{
		pod:                                served(pod, "pods", true),
		configMap:                          served(configMap, "configmaps", false),
		ingress:                            served(ingress, "ingresses", true),
		widget:                             guessedAs(widget, "widgets"),
		{APIVersion: "v1", Kind: "Widget"}: guessedAs(abi.Kind{APIVersion: "v1", Kind: "Widget"}, "widgets"),
	} {
		if got := guess(kind); got != want {
			t.Errorf("%s: %+v, want %+v", kind, got, want)
		}
	}
}

func served(kind abi.Kind, plural string, status bool) resource {
	gvr := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind).GroupVersion().WithResource(plural)
	return resource{Resource: object.Resource{Kind: kind, GVR: gvr, Status: status, Namespaced: true}}
}

func guessedAs(kind abi.Kind, plural string) resource {
	r := served(kind, plural, true)
	r.guessed = true
	return r
}

// api is an API server with discovery only. It records the paths of requests.
func api(t *testing.T, answers map[string][]metav1.APIResource) (cluster *rest.Config, requested *[]string) {
	t.Helper()
	requested = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requested = append(*requested, r.URL.Path)
		list, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{APIResources: list})
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, Transport: server.Client().Transport}, requested
}

var all = metav1.Verbs{"get", "list", "watch", "create", "patch", "delete"}

func TestFindUsesTheDiscoveryOfTheCluster(t *testing.T) {
	cluster, requested := api(t, map[string][]metav1.APIResource{
		"/apis/example.com/v1": {
			{Name: "widgetry", Kind: "Widget", Verbs: all, Namespaced: true},
			{Name: "widgetry/status", Kind: "Widget", Verbs: all, Namespaced: true},
			{Name: "gadgets", Kind: "Gadget", Verbs: metav1.Verbs{"create"}, Namespaced: true},
			{Name: "sprockets", Kind: "Sprocket", Verbs: metav1.Verbs{"create"}, Namespaced: true},
			{Name: "cogs", Kind: "Sprocket", Verbs: all, Namespaced: true},
		},
		"/api/v1": {{Name: "pods", Kind: "Pod", Verbs: all, Namespaced: true}},
	})
	sprocket := abi.Kind{APIVersion: "example.com/v1", Kind: "Sprocket"}
	thing := abi.Kind{APIVersion: "example.com/v1", Kind: "Thing"}
	nowhere := abi.Kind{APIVersion: "nowhere.com/v1", Kind: "Thing"}
	got, err := find(t.Context(), cluster, []abi.Kind{widget, gadget, sprocket, pod, thing, nowhere})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[abi.Kind]struct {
		resource
		err string
	}{
		widget:   {served(widget, "widgetry", true), ""},
		gadget:   {served(gadget, "gadgets", false), `its API has no verb "list"`},
		sprocket: {served(sprocket, "cogs", false), ""},
		pod:      {served(pod, "pods", false), ""},
		thing:    {guessedAs(thing, "things"), "does not serve example.com/v1 Thing"},
		nowhere:  {guessedAs(nowhere, "things"), "does not serve nowhere.com/v1 Thing"},
	} {
		err := got[kind].err
		if (err != nil) != (want.err != "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: error %v, want %q", kind, err, want.err)
		}
		want.resource.err = err
		if got[kind] != want.resource {
			t.Errorf("%s: %+v, want %+v", kind, got[kind], want.resource)
		}
	}
	if want := []string{"/apis/example.com/v1", "/api/v1", "/apis/example.com", "/apis/nowhere.com/v1", "/apis/nowhere.com"}; !slices.Equal(*requested, want) {
		t.Errorf("requested %q, want %q", *requested, want)
	}
}

// conformance is the API of the primaries of the conformance kit.
const conformance = "/apis/thole.dev/v1"

func onCluster(t *testing.T, answers map[string][]metav1.APIResource) *Report {
	t.Helper()
	cluster, _ := api(t, answers)
	c, _ := tck.CaseOf("correct")
	r, err := File(t.Context(), file(t, "correct.wasm", c.Wasm()), Options{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestResourceOfTheClusterIsReported(t *testing.T) {
	r := onCluster(t, map[string][]metav1.APIResource{conformance: {{Name: "conformity", Kind: "Conformance", Verbs: all, Namespaced: true}}})
	if !r.Load.OK || r.Load.WaitsFor != nil || short(r.Rights[0].Rules[0]) != "thole.dev/conformity: get list watch patch" {
		t.Errorf("load %+v, rights %+v", r.Load, r.Rights)
	}
}

func TestKindThatTheClusterDoesNotServeIsWaitedFor(t *testing.T) {
	r := onCluster(t, nil)
	if !r.Load.OK || !slices.Equal(r.Load.WaitsFor, []string{"thole.dev/v1 Conformance"}) || !r.Rights[0].Rules[0].Guessed {
		t.Errorf("load %+v, rights %+v", r.Load, r.Rights)
	}
	if text := string(r.table()); !strings.Contains(text, "would be loaded, and wait: the API server does not serve") {
		t.Error(text)
	}
}

func TestKindWithoutListIsRefused(t *testing.T) {
	r := onCluster(t, map[string][]metav1.APIResource{conformance: {{Name: "conformances", Kind: "Conformance", Verbs: metav1.Verbs{"watch"}}}})
	expectRefused(t, r, "start", `thole.dev/v1 Conformance cannot be listed: its API has no verb "list"`)
}

func TestKindWithoutWatchNeedsNoRightToWatch(t *testing.T) {
	r := onCluster(t, map[string][]metav1.APIResource{conformance: {{Name: "conformances", Kind: "Conformance", Verbs: metav1.Verbs{"list", "patch"}, Namespaced: true}}})
	if !r.Load.OK || short(r.Rights[0].Rules[0]) != "thole.dev/conformances: get list patch" {
		t.Errorf("load %+v, rights %+v", r.Load, r.Rights)
	}
}

func TestInvalidDiscoveryIsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	defer server.Close()
	_, err := find(t.Context(), &rest.Config{Host: server.URL, Transport: server.Client().Transport}, []abi.Kind{widget})
	if err == nil || !strings.Contains(err.Error(), "look up example.com/v1 Widget") {
		t.Errorf("error %v", err)
	}
}
