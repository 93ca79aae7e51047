package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// samples is an aggregated API whose kind Sample can be read and listed, and nothing else. Its
// objects have neither a uid nor a resourceVersion, as those of metrics.k8s.io.
type samples struct {
	mu     sync.Mutex
	texts  map[string]string // of the spec, by namespace/name
	broken bool              // a list has no object on its first page, and there is no second one
}

func (s *samples) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/apis/poll.e2e.thole.dev/v1" {
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "poll.e2e.thole.dev/v1",
			APIResources: []metav1.APIResource{{Name: "samples", SingularName: "sample", Kind: "Sample", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}}},
		})
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/samples") {
		http.NotFound(w, r)
		return
	}
	switch {
	case s.broken && r.URL.Query().Get("continue") != "":
		http.Error(w, "the second page cannot be read", http.StatusInternalServerError)
		return
	case s.broken:
		fmt.Fprint(w, `{"apiVersion":"poll.e2e.thole.dev/v1","kind":"SampleList","metadata":{"continue":"second"},"items":[]}`)
		return
	}
	var items []string
	for _, key := range slices.Sorted(maps.Keys(s.texts)) {
		ns, name, _ := strings.Cut(key, "/")
		items = append(items, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q},"spec":{"text":%q}}`, ns, name, s.texts[key]))
	}
	fmt.Fprintf(w, `{"apiVersion":"poll.e2e.thole.dev/v1","kind":"SampleList","metadata":{},"items":[%s]}`, strings.Join(items, ","))
}

func (s *samples) set(ns, name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[ns+"/"+name] = text
}

func (s *samples) remove(ns, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.texts, ns+"/"+name)
}

// setBroken makes every list fail after its first page, or succeed again.
func (s *samples) setBroken(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// serve registers the API with the API server, as one of a Service that is the loopback
// interface.
func (s *samples) serve(t *testing.T) {
	t.Helper()
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	must(t, err)
	_, text, err := net.SplitHostPort(at.Host)
	must(t, err)
	port, err := strconv.ParseInt(text, 10, 32)
	must(t, err)
	name := namespace(t)
	_, err = clients.CoreV1().Services(name).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "samples"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: []corev1.ServicePort{{Port: int32(port)}}},
	}, metav1.CreateOptions{})
	must(t, err)
	registered := apiServices()
	_, err = registered.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.poll.e2e.thole.dev"},
		"spec": map[string]any{
			"group": "poll.e2e.thole.dev", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(1),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": name, "name": "samples", "port": port},
		},
	}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, registered.Delete(context.Background(), "v1.poll.e2e.thole.dev", metav1.DeleteOptions{}))
	})
}

func apiServices() dynamic.ResourceInterface {
	return objects.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
}

// A plugin follows a kind of an aggregated API that has no watch: what it reads of it, and what
// it is for. It waits while the API is not there.
func TestAKindWithoutWatchIsFollowed(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	api := &samples{texts: map[string]string{ns + "/a": "one", ns + "/c": "old"}}
	d.installPolicy("polled", "allow: [{groups: [poll.e2e.thole.dev], kinds: [Sample], verbs: [get, list, watch]}, {groups: [''], kinds: [ConfigMap], verbs: [create, patch]}]")
	d.install("polled", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"polled"))
	createStamp(t, ns, "s", "a")
	createStamp(t, ns, "t", "b")
	createStamp(t, ns, "u", "c")
	p := start(t, d, ns, allowAll)
	await.Until(t, "the plugin waits for the kind", func() bool {
		waiting := p.Plugin("polled")
		return waiting.State == "waiting" && strings.Contains(waiting.LastError, "does not serve poll.e2e.thole.dev/v1 Sample")
	})
	api.serve(t)
	p.awaitRunning("polled", 1)
	awaitVersion(t, ns, "s", "one")
	awaitVersion(t, ns, "t", "none")
	awaitVersion(t, ns, "u", "old")
	copied := func(name, want string) {
		t.Helper()
		await.Until(t, "the sample "+name+" is copied as "+want, func() bool {
			m, err := clients.CoreV1().ConfigMaps(ns).Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && m.Data["text"] == want
		})
	}
	copied("a", "one")
	api.set(ns, "a", "two")
	api.set(ns, "b", "three")
	api.remove(ns, "c")
	awaitVersion(t, ns, "s", "two")
	awaitVersion(t, ns, "t", "three")
	copied("a", "two")
	awaitVersion(t, ns, "u", "none")
	copied("b", "three")
	m := p.Metrics()
	if by := m.Sum("thole_cache_following", "by", "poll"); by != 1 || m.Sum("thole_poll_interval_seconds") != 1 {
		t.Errorf("%v kinds are polled, every %v s", by, m.Sum("thole_poll_interval_seconds"))
	}
	if n := m.Sum("thole_polls_total", "result", "success"); n < 2 || m.Sum("thole_polls_total", "result", "error") != 0 {
		t.Errorf("%v lists", n)
	}

	// A list that fails after its first page says nothing about any object.
	api.setBroken(true)
	await.Until(t, "two lists have failed", func() bool { return p.Metrics().Sum("thole_polls_total", "result", "error") >= 2 })
	createStamp(t, ns, "v", "b")
	awaitVersion(t, ns, "v", "three")
	for name, want := range map[string]string{"s": "two", "t": "three"} {
		if got := field(get(t, stamps, ns, name), "status", "version"); got != want {
			t.Errorf("while lists fail, the stamp %s reads %q, want %q", name, got, want)
		}
	}
	api.remove(ns, "b")
	api.setBroken(false)
	awaitVersion(t, ns, "t", "none")
	awaitVersion(t, ns, "v", "none")
	p.stop()
	p.expectNoErrors()
}
