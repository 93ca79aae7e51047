package inspect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

func TestGuess(t *testing.T) {
	for kind, want := range map[abi.Kind]resource{
		pod:                                {plural: "pods", status: true},
		configMap:                          {plural: "configmaps"},
		ingress:                            {group: "networking.k8s.io", plural: "ingresses", status: true},
		widget:                             {group: "example.com", plural: "widgets", status: true, guessed: true},
		{APIVersion: "v1", Kind: "Widget"}: {plural: "widgets", status: true, guessed: true},
	} {
		if got := guess(kind); got != want {
			t.Errorf("%s: %+v, want %+v", kind, got, want)
		}
	}
}

// api is an API server that answers discovery.
func api(t *testing.T, answers map[string][]metav1.APIResource) (cluster *rest.Config, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Path)
		list, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{APIResources: list})
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, Transport: server.Client().Transport}, asked
}

var all = metav1.Verbs{"get", "list", "watch", "create", "patch", "delete"}

func TestDiscover(t *testing.T) {
	cluster, asked := api(t, map[string][]metav1.APIResource{
		"/apis/example.com/v1": {
			{Name: "widgetry", Kind: "Widget", Verbs: all},
			{Name: "widgetry/status", Kind: "Widget", Verbs: all},
			{Name: "gadgets", Kind: "Gadget", Verbs: metav1.Verbs{"create"}},
			{Name: "sprockets", Kind: "Sprocket", Verbs: metav1.Verbs{"create"}},
			{Name: "cogs", Kind: "Sprocket", Verbs: all},
		},
		"/api/v1": {{Name: "pods", Kind: "Pod", Verbs: all}},
	})
	sprocket := abi.Kind{APIVersion: "example.com/v1", Kind: "Sprocket"}
	thing := abi.Kind{APIVersion: "example.com/v1", Kind: "Thing"}
	nowhere := abi.Kind{APIVersion: "nowhere.com/v1", Kind: "Thing"}
	got, err := discover(t.Context(), cluster, []abi.Kind{widget, gadget, sprocket, pod, thing, nowhere})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[abi.Kind]resource{
		widget:   {group: "example.com", plural: "widgetry", status: true},
		gadget:   {group: "example.com", plural: "gadgets", unfollowable: "list"},
		sprocket: {group: "example.com", plural: "cogs"},
		pod:      {plural: "pods"},
		thing:    {group: "example.com", plural: "things", status: true, guessed: true, absent: true},
		nowhere:  {group: "nowhere.com", plural: "things", status: true, guessed: true, absent: true},
	} {
		if got[kind] != want {
			t.Errorf("%s: %+v, want %+v", kind, got[kind], want)
		}
	}
	if want := []string{"/apis/example.com/v1", "/api/v1", "/apis/nowhere.com/v1"}; !slices.Equal(*asked, want) {
		t.Errorf("asked for %q, want %q", *asked, want)
	}
}

// conformance is where the kit's guests say that their primary is.
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

func TestClusterServesTheKind(t *testing.T) {
	r := onCluster(t, map[string][]metav1.APIResource{conformance: {{Name: "conformity", Kind: "Conformance", Verbs: all}}})
	if !r.Load.OK || r.Load.WaitsFor != nil || short(r.Rights[0].Rules[0]) != "thole.dev/conformity: get list watch patch" {
		t.Errorf("load %+v, rights %+v", r.Load, r.Rights)
	}
}

// TestClusterDoesNotServeTheKind is what a host waits for.
func TestClusterDoesNotServeTheKind(t *testing.T) {
	r := onCluster(t, nil)
	if !r.Load.OK || !slices.Equal(r.Load.WaitsFor, []string{"thole.dev/v1 Conformance"}) || !r.Rights[0].Rules[0].Guessed {
		t.Errorf("load %+v, rights %+v", r.Load, r.Rights)
	}
	if text := string(r.table()); !strings.Contains(text, "would be loaded, and wait until the cluster serves thole.dev/v1") {
		t.Error(text)
	}
}

func TestClusterHasNoWatchOfTheKind(t *testing.T) {
	r := onCluster(t, map[string][]metav1.APIResource{conformance: {{Name: "conformances", Kind: "Conformance", Verbs: metav1.Verbs{"list"}}}})
	expectRefused(t, r, "start", `thole.dev/v1 Conformance cannot be watched: its API has no verb "watch"`)
}

func TestClusterAnswersNonsense(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	defer server.Close()
	_, err := discover(t.Context(), &rest.Config{Host: server.URL, Transport: server.Client().Transport}, []abi.Kind{widget})
	if err == nil || !strings.Contains(err.Error(), "ask the cluster for the resources of example.com/v1") {
		t.Errorf("error %v", err)
	}
}
