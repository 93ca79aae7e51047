package effect

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// answering is an API server without a network.
type answering string

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(a))),
	}, nil
}

// TestWaitsOfWritesAreTold: those for the plugin's writes per second, and not
// those of reads.
func TestWaitsOfWritesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		c, err := newClient(&Config{
			REST: &rest.Config{
				Host:      "http://127.0.0.1:1",
				Transport: answering(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"1"}}`),
			},
			QPS: 1, Burst: 2,
			Waited: func(d time.Duration) { waits = append(waits, d) },
		})
		if err != nil {
			t.Fatal(err)
		}
		configMaps := object.Resource{Kind: abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespaced: true}
		key := object.Key{Namespace: "ns", Name: "a"}
		for range 4 {
			if _, err := c.patch(t.Context(), configMaps, key, patch{mediaType: mergePatch, manager: "m", body: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.get(t.Context(), configMaps, key); err != nil {
				t.Fatal(err)
			}
		}
		if want := []time.Duration{0, 0, time.Second, time.Second}; !slices.Equal(waits, want) {
			t.Errorf("told %v, want %v", waits, want)
		}
	})
}
