package cache

import (
	"fmt"
	"net"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

// aggregate makes a real API server forward poll.dev/v1 to the peer: as an APIService with a
// Service of type ExternalName, which needs no network of pods.
func (p *pollPeer) aggregate(config *rest.Config) {
	p.t.Helper()
	p.Server.Close()
	p.Server = httptest.NewTLSServer(p)
	p.t.Cleanup(p.Close)
	at, err := url.Parse(p.URL)
	if err != nil {
		p.t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(at.Host)
	if err != nil {
		p.t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(config)
	create := func(r dynamic.ResourceInterface, object map[string]any) {
		p.t.Helper()
		o := &unstructured.Unstructured{Object: object}
		if _, err := r.Create(p.t.Context(), o, metav1.CreateOptions{}); err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { _ = r.Delete(within(p.t), o.GetName(), metav1.DeleteOptions{}) })
	}
	create(client.Resource(corev1.SchemeGroupVersion.WithResource("services")).Namespace("default"), map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "poll"},
		"spec": map[string]any{"type": "ExternalName", "externalName": "localhost", "ports": []any{map[string]any{"port": number}}},
	})
	services := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	create(services, map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.poll.dev"},
		"spec": map[string]any{
			"group": "poll.dev", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(1), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": "default", "name": "poll", "port": number},
		},
	})
	await.Until(p.t, "the API server forwards the API", func() bool {
		_, err := client.Resource(schema.GroupVersionResource{Group: "poll.dev", Version: "v1", Resource: "samples"}).List(p.t.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
}

func TestRealAggregatedAPIIsPolled(t *testing.T) {
	p := newPollPeer(t)
	for n := range 1100 {
		p.put(fmt.Sprintf("s%04d", n), "", `,"cpu":"1"`)
	}
	config := devcluster.Shared(t).Config
	p.aggregate(config)
	c, err := New(Config{REST: config, backoff: quickly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	p.received()
	i := p.acquire(c, scope.All(polled))
	i.PollEvery(MinPollInterval)
	if n := len(i.List("", nil)); n != 1100 || len(p.received()) < 3 {
		t.Fatalf("%d objects", n)
	}
	r := record(t, i)
	r.receivedAll(1100)
	p.put("s0000", "", `,"cpu":"2"`)
	r.expect("update ns/s0000")
	p.remove("s1099")
	r.expect("delete ns/s1099")
	p.put("t", "", "")
	r.expect("add ns/t")
	if o, err := i.Live(within(t), keyOf("t")); err != nil || o.Name != "t" {
		t.Errorf("got %v, %v", o, err)
	}
	await.Until(t, "four lists are counted", func() bool { return c.Following()[0].Succeeded >= 4 })
	if f := c.Following(); !f[0].Polled || !f[0].Working || f[0].Failed > 0 {
		t.Errorf("%+v", f)
	}

	p.CloseClientConnections()
	p.Close()
	await.Until(t, "the informer fails", func() bool { return i.Err() != nil })
	if err := i.Err(); !apierrors.IsServiceUnavailable(err) && !strings.Contains(err.Error(), "proxy") {
		t.Errorf("the API is away: %v", err)
	}
	if n := len(i.List("", nil)); n != 1100 {
		t.Errorf("while the API is away there are %d objects", n)
	}
	await.Until(t, "discovery has noticed that the API is away", func() bool {
		c.discovery.invalidate(polled.APIVersion)
		_, err = c.Acquire(within(t), scope.Scope{Kind: polled, Namespaces: []string{"other"}})
		return err != nil
	})
	t.Logf("another informer: %v; this one: %v", err, i.Err())
	r.expectNone()
}
