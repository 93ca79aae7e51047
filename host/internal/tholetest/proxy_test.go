package tholetest

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// newClient returns a proxy of a server, and a function that sends a request
// through it.
func newClient(t *testing.T, server http.HandlerFunc) (_ *Proxy, send func(method, path, contentType string) (code int)) {
	t.Helper()
	target := httptest.NewServer(server)
	t.Cleanup(target.Close)
	proxy := NewProxy(t, &rest.Config{Host: target.URL})
	config, err := clientcmd.BuildConfigFromFlags("", Kubeconfig(t, proxy.Cluster, clientcmdapi.AuthInfo{Token: "secret"}))
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return proxy, func(method, path, contentType string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, config.Host+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", contentType)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
}

func TestProxyCountsRequestsByTheRightTheyNeed(t *testing.T) {
	var code atomic.Int32
	code.Store(http.StatusOK)
	proxy, send := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s arrived without the token", r.URL)
		}
		w.WriteHeader(int(code.Load()))
	})
	pods := "/api/v1/namespaces/a/pods"
	send("GET", "/apis/example.dev/v1", "")
	send("GET", "/api/v1/pods?watch=true", "")
	send("GET", pods, "")
	send("GET", "/api/v1/namespaces/a", "")
	send("DELETE", pods+"/x", "")
	send("PATCH", "/apis/example.dev/v1/namespaces/a/boats/x/status", "application/merge-patch+json")
	code.Store(http.StatusCreated)
	send("PATCH", pods+"/x", "application/apply-patch+yaml")
	code.Store(http.StatusConflict)
	send("PATCH", pods+"/x", "application/apply-patch+yaml")
	code.Store(http.StatusForbidden)
	send("POST", "/api/v1/namespaces/a/events", "application/json")

	used, denied := proxy.Rights()
	var names []string
	for _, r := range used {
		names = append(names, r.String())
	}
	slices.Sort(names)
	want := []string{
		"create events", "create pods", "delete pods", "get namespaces", "list pods",
		"patch boats/status", "patch pods", "watch pods",
	}
	if !slices.Equal(names, want) {
		t.Errorf("used %q, want %q", names, want)
	}
	if len(denied) != 1 || denied[0] != (Right{"create", "", "events"}) {
		t.Errorf("denied %v", denied)
	}
	if got, want := proxy.Succeeded("pods", "boats"), (Counts{"list": 1, "watch": 1, "delete": 1, "patch": 1, "apply": 1}); !maps.Equal(got, want) {
		t.Errorf("succeeded %v, want %v", got, want)
	}
	if all := proxy.Succeeded(); all.Writes() != 3 || all.Reads() != 2 {
		t.Errorf("%v: %d writes and %d reads, want 3 and 2", all, all.Writes(), all.Reads())
	}
}

func TestCountsSinceLeavesOutUnchangedVerbs(t *testing.T) {
	if got := (Counts{"get": 3, "list": 2}).Since(Counts{"get": 1, "list": 2}); !maps.Equal(got, Counts{"get": 2}) {
		t.Errorf("got %v", got)
	}
}
