package host

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/with/standard"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// Else an event for a plugin that is started again would be answered with 404, which tells its sender not
// to send it again.
func TestPluginsThatAreAboutToRunAreAwaited(t *testing.T) {
	for state, want := range map[catalog.State][2]bool{ // while it runs, and while it does not
		catalog.Loading:  {true, true},
		catalog.Running:  {false, true},
		catalog.Degraded: {false, true},
		catalog.Waiting:  {false, false},
		catalog.Failed:   {false, false},
		catalog.Draining: {false, false},
	} {
		all := []catalog.Status{{Name: "other", State: catalog.Running}, {Name: "p", State: state}}
		for i, runs := range []bool{true, false} {
			if got := awaited(all, func(plugin string) bool { return plugin == "other" || runs }); got != want[i] {
				t.Errorf("%s, runs %v: %v", state, runs, got)
			}
		}
	}
}

// containers are objects that run by events from outside, in two replicas of a host.
type containers struct {
	testing.TB
	cluster *rest.Config // as somebody who may do everything
	typed   *kubernetes.Clientset
	objects dynamic.ResourceInterface
	client  *http.Client
	token   string
	events  int
}

var containerResource = schema.GroupVersionResource{Group: "test.thole.dev", Version: "v1", Resource: "containers"}

func startContainers(t testing.TB) *containers {
	t.Helper()
	c := &containers{TB: t, cluster: controlPlane(t)}
	objects := dynamic.NewForConfigOrDie(c.cluster)
	c.typed, c.objects = kubernetes.NewForConfigOrDie(c.cluster), objects.Resource(containerResource).Namespace("default")
	apply(t, objects.Resource(crds), "with/receives/testdata/container/crd.yaml")
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	c.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	await.Until(t, "the kind is served", func() bool { return c.create("one", "id-1") == nil })
	c.ok(c.create("two", "id-2"))
	c.sender()
	return c
}

func (c *containers) ok(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *containers) create(name, id string) error {
	_, err := c.objects.Create(c.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.thole.dev/v1", "kind": "Container", "metadata": map[string]any{"name": name}, "spec": map[string]any{"id": id},
	}}, metav1.CreateOptions{})
	return err
}

// sender makes a service account that may make containers run, and a token of it.
func (c *containers) sender() {
	c.Helper()
	meta := metav1.ObjectMeta{Name: "sender", Namespace: "default"}
	accounts := c.typed.CoreV1().ServiceAccounts("default")
	_, err := accounts.Create(c.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	c.ok(err)
	grant(c, c.typed, "sender", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "sender", Namespace: "default"},
		rbacv1.PolicyRule{Verbs: []string{"reconcile"}, APIGroups: []string{"test.thole.dev"}, Resources: []string{"containers"}})
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"thole.dev"}}}
	answer, err := accounts.CreateToken(c.Context(), "sender", request, metav1.CreateOptions{})
	c.ok(err)
	c.token = answer.Status.Token
}

// asHost returns the configuration of a user with the rights that the manifests give to a host that
// receives events, and those of the plugin.
func (c *containers) asHost() *rest.Config {
	c.Helper()
	all := []string{"*"}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"test.thole.dev"}, Resources: all, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: all},
	}
	rules = slices.Concat(rules, deployedRules(c, "webhooks/rbac-webhook.yaml"), deployedRules(c, "base/rbac-metrics.yaml"))
	grant(c, c.typed, "host", userHost, rules...)
	host := rest.CopyConfig(c.cluster)
	host.Impersonate = rest.ImpersonationConfig{UserName: "host"}
	return host
}

// send sends an event, and returns the status and the answer. The id of the event is different each time.
func (c *containers) send(url, event, subject, data string) (status int, answer string) {
	c.Helper()
	c.events++
	body := fmt.Sprintf(`{"specversion":"1.0","id":"%d","source":"/test","type":"dev.thole.test.%s","subject":%q,"data":%s}`, c.events, event, subject, data)
	r, err := http.NewRequestWithContext(c.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	c.ok(err)
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/cloudevents+json")
	response, err := c.client.Do(r)
	c.ok(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	c.ok(err)
	return response.StatusCode, string(text)
}

// expectGiven waits until the runs of an object were given the events with these ids.
func (c *containers) expectGiven(name string, ids ...string) {
	c.Helper()
	var got []any
	await.Until(c.TB, name+" was given its events", func() bool {
		o, err := c.objects.Get(c.Context(), name, metav1.GetOptions{})
		c.ok(err)
		got, _, _ = unstructured.NestedSlice(o.Object, "status", "ids")
		return len(got) >= len(ids)
	})
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		c.Errorf("%s was given %v, want %v", name, got, ids)
	}
}

// TestEventsFromOutsideReachTheRunsOfTheirObjects sends events to two replicas of a host with the rights
// of its manifests alone.
func TestEventsFromOutsideReachTheRunsOfTheirObjects(t *testing.T) {
	c := startContainers(t)
	wasm, asHost := wasmbuild.Build(t, wasmbuild.TinyGo, "host/with/receives/testdata/container"), c.asHost()
	replica := func() (r *runningHost, secure string) {
		address := freeAddress(t)
		r = startWith(t, asHost, standard.Capabilities(), func(cfg *config.Config) {
			cfg.Values = sections(t, "webhooks: {listen: '"+address+"', url: 'https://127.0.0.1', secret: {namespace: default}}\nleaderElection: {"+fastElection+"}")
		})
		if status, _ := c.send("http://"+r.host.Address()+"/events", "subject", "default/one", "null"); status != http.StatusNotFound && status != http.StatusServiceUnavailable {
			t.Errorf("a host without plugins answers %d", status)
		}
		c.events--
		r.install("container", wasm)
		return r, "https://" + address + "/events"
	}
	state := func(r *runningHost, want catalog.State) {
		await.Until(t, "the plugin is "+string(want), func() bool {
			all := r.host.Plugins()
			return len(all) == 1 && all[0].State == want
		})
	}
	leader, secure := replica()
	state(leader, catalog.Running)
	standby, after := replica()
	state(standby, catalog.Standby)

	plain := "http://" + leader.host.Address() + "/events"
	await.Until(t, "there is a certificate, and the roles count", func() bool {
		r, err := c.client.Get(secure)
		if err == nil {
			r.Body.Close()
		}
		status, _ := c.send(plain, "subject", "default/nothing", "null")
		c.events--
		return err == nil && status == http.StatusNotFound
	})
	accepted := func(url, event, subject, data string) {
		t.Helper()
		if status, text := c.send(url, event, subject, data); status != http.StatusAccepted || text != "{\"objects\":1}\n" {
			t.Errorf("%s %s: %d %s", event, subject, status, text)
		}
	}
	accepted(plain, "subject", "default/one", `{"a":[1]}`)
	c.expectGiven("one", "1")
	accepted(secure+"/container", "field", "", `{"id":"id-2"}`)
	c.expectGiven("two", "2")
	await.Until(t, "the index is complete", func() bool {
		status, _ := c.send(secure, "keys", "", `{"name":"two of default"}`)
		if status != http.StatusAccepted {
			c.events--
		}
		return status == http.StatusAccepted
	})
	c.expectGiven("two", "2", "3")

	c.events = 99
	if status, text := c.send(after, "subject", "default/one", "1"); status != http.StatusServiceUnavailable {
		t.Errorf("the standby answers %d %s", status, text)
	}
	c.ok(leader.end())
	await.Until(t, "the other replica takes events", func() bool {
		status, _ := c.send(after, "subject", "default/one", "1")
		if status != http.StatusAccepted {
			c.events--
		}
		return status == http.StatusAccepted
	})
	c.expectGiven("one", "1", fmt.Sprint(c.events))

	metrics, err := c.client.Get("http://" + standby.host.Address() + "/metrics")
	c.ok(err)
	defer metrics.Body.Close()
	text, err := io.ReadAll(metrics.Body)
	c.ok(err)
	for _, want := range []string{`thole_events_received_total{code="202",plugin="container"} 1`, `thole_events_received_total{code="503",plugin="container"}`, `thole_events_received_total{code="401",plugin=""} 0`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not among the metrics", want)
		}
	}
}
