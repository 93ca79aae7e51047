package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/await"
)

// labRuntime is what runs the containers of a lab, and reports them as a service account.
type labRuntime struct {
	t     *testing.T
	host  *process
	token string
	sent  int
}

// newLabRuntime makes a service account that may make the instances of a namespace run.
func newLabRuntime(t *testing.T, host *process, ns string) *labRuntime {
	t.Helper()
	ctx := t.Context()
	meta := metav1.ObjectMeta{Name: "runtime", Namespace: ns}
	_, err := clients.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
	_, err = clients.RbacV1().Roles(ns).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"reconcile"}, APIGroups: []string{labInstances.Group}, Resources: []string{labInstances.Resource}},
	}}, metav1.CreateOptions{})
	must(t, err)
	_, err = clients.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: meta.Name, Namespace: ns}},
	}, metav1.CreateOptions{})
	must(t, err)
	answer, err := clients.CoreV1().ServiceAccounts(ns).CreateToken(ctx, meta.Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"thole.dev"}},
	}, metav1.CreateOptions{})
	must(t, err)
	return &labRuntime{t: t, host: host, token: answer.Status.Token}
}

// report sends an event about a container, and returns the status of the answer.
func (r *labRuntime) report(what, container string) int {
	r.t.Helper()
	r.sent++
	body := fmt.Sprintf(`{"specversion":"1.0","id":"%d","source":"/runtime","type":"container.%s","data":{"containerId":%q}}`, r.sent, what, container)
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.host.Address()+"/events", bytes.NewReader([]byte(body)))
	must(r.t, err)
	q.Header.Set("Authorization", "Bearer "+r.token)
	q.Header.Set("Content-Type", "application/cloudevents+json")
	answer, err := http.DefaultClient.Do(q)
	must(r.t, err)
	must(r.t, answer.Body.Close())
	return answer.StatusCode
}

// reports sends an event until the host takes it: that knows the container a moment after the status of the
// instance has it, and its own replica may not lead yet.
func (r *labRuntime) reports(what, container string) {
	r.t.Helper()
	await.Until(r.t, "an event about "+container+" is taken", func() bool { return r.report(what, container) == http.StatusAccepted })
}

// typesOf returns the types of events without their ids.
func typesOf(events []string) (types []string) {
	for _, e := range events {
		what, _, _ := strings.Cut(e, " ")
		types = append(types, what)
	}
	return types
}

// TestLabInstanceReceivesAndPublishesEvents is the part of the document that is about events: the runtime of
// the containers reports what becomes of them, and a service outside follows the instances.
func TestLabInstanceReceivesAndPublishesEvents(t *testing.T) {
	t.Parallel()
	sink := newEventSink(t)
	policy, config := sink.sinkConfig("labinstance", "structured")
	d, l := labDirectory(t, policy), labs{t, namespace(t)}
	config = strings.Replace(config, "allow: {", `allow: {entries: {"*": [{groups: ["*"], kinds: ["*"], verbs: ["*"], namespaces: ["*"]}]}, `, 1)
	p := start(t, d, l.ns, config)
	p.awaitRunning("labinstance", 1)
	runtime := newLabRuntime(t, p, l.ns)

	l.create("lab", time.Hour, time.Now().Add(time.Hour))
	l.awaitPhase("lab", "Pending")
	l.startAt("lab", time.Now())
	l.awaitPhase("lab", "Provisioning")
	l.setContainer("lab", "Running")
	container := field(l.awaitPhase("lab", "Running"), "status", "containerId")
	runtime.reports("started", container)
	awaitEvent := func(what string) {
		t.Helper()
		await.Until(t, "the instance has "+what, func() bool {
			return field(get(t, labInstances, l.ns, "lab"), "status", "lastEvent") == what
		})
	}
	awaitEvent("container.started")

	if status := runtime.report("stopped", "test://"+l.ns+"/another"); status != http.StatusNotFound {
		t.Errorf("an event about another container is answered with %d", status)
	}
	runtime.reports("stopped", container) // and yet it runs: an event is a reason to look, and no truth
	awaitEvent("container.stopped")
	if lab := get(t, labInstances, l.ns, "lab"); field(lab, "status", "phase") != "Running" {
		t.Errorf("an event alone has ended the instance: %v", lab.Object["status"])
	}
	l.setContainer("lab", "Failed")
	l.awaitPhase("lab", "Completed")
	l.awaitGone("lab")

	const prefix = "dev.thole.labinstancerequest."
	var changes, ends []string
	await.Until(t, "the sink has the deletion", func() bool {
		changes = typesOf(sink.about(l.ns+"/lab", "watcher/labinstancerequest"))
		return len(changes) > 0 && changes[len(changes)-1] == prefix+"deleted"
	})
	ends = typesOf(sink.about(l.ns+"/lab", "controller/labinstance/labinstance"))
	for what, least := range map[string]int{"created": 1, "updated": 1, "status_updated": 4, "deleted": 1} {
		if n := strings.Count(strings.Join(changes, " ")+" ", prefix+what+" "); n < least {
			t.Errorf("%d events are %s, want %d or more: %q", n, what, least, changes)
		}
	}
	if changes[0] != prefix+"created" {
		t.Errorf("the first event is %s", changes[0])
	}
	if all := strings.Join(ends, " "); !strings.Contains(all, prefix+"reconciled.requeue_after") || strings.Contains(all, "created") {
		t.Errorf("the ends of runs are %q", ends)
	}
	if n := p.Metrics().Sum("thole_events_received_total", "code", "202"); n < 2 {
		t.Errorf("%g events were received", n)
	}
	p.stop()
	p.expectNoErrors()
}
