package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
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
	token := accountToken(t, ns, meta.Name, "thole.dev")
	_, err := clients.RbacV1().Roles(ns).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"reconcile"}, APIGroups: []string{labInstances.Group}, Resources: []string{labInstances.Resource}},
	}}, metav1.CreateOptions{})
	must(t, err)
	_, err = clients.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: meta.Name, Namespace: ns}},
	}, metav1.CreateOptions{})
	must(t, err)
	return &labRuntime{t: t, host: host, token: token}
}

// accountToken creates a service account without rights, and returns a token of it for audiences, or for the API server.
func accountToken(t *testing.T, ns, name string, audiences ...string) string {
	t.Helper()
	_, err := clients.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	answer, err := clients.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: audiences},
	}, metav1.CreateOptions{})
	must(t, err)
	return answer.Status.Token
}

// report sends an event about a container, and returns the status of the answer.
func (r *labRuntime) report(what, container string) int {
	r.t.Helper()
	return r.post(r.token, r.event(what, container), "Content-Type: application/cloudevents+json")
}

// event returns the next event about a container, in the JSON format.
func (r *labRuntime) event(what, container string) string {
	r.sent++
	return fmt.Sprintf(`{"specversion":"1.0","id":"%d","source":"/runtime","type":"container.%s","data":{"containerId":%q}}`, r.sent, what, container)
}

// batch sends events of a type about a container at once, and returns their ids.
func (r *labRuntime) batch(many int, what, container string) (status int, ids []string) {
	r.t.Helper()
	var events []string
	for range many {
		events, ids = append(events, r.event(what, container)), append(ids, fmt.Sprint(r.sent))
	}
	return r.post(r.token, "["+strings.Join(events, ",")+"]", "Content-Type: application/cloudevents-batch+json"), ids
}

// post sends what may be events, with a token unless it is empty.
func (r *labRuntime) post(token, body string, headers ...string) int {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.host.Address()+"/events", bytes.NewReader([]byte(body)))
	must(r.t, err)
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		q.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(q)
	must(r.t, err)
	must(r.t, answer.Body.Close())
	return answer.StatusCode
}

// received returns the ids of the events that the runs of an instance have had.
func (r *labRuntime) received(instance string) (ids []string) {
	for _, line := range r.host.Log.Events("GuestLogged", "object", instance) {
		if id := line.String("id"); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// reports sends an event until the host takes it: that knows the container a moment after the status of the
// instance has it, and its own replica may not lead yet.
func (r *labRuntime) reports(what, container string) {
	r.t.Helper()
	await.Until(r.t, "an event about "+container+" is taken", func() bool { return r.report(what, container) == http.StatusAccepted })
}

// accepted returns how many events were accepted.
func (r *labRuntime) accepted() float64 {
	return r.host.Metrics().Sum("thole_events_received_total", "code", "202")
}

// expectStrangersRefused sends an event of the runtime by others, and expects that nobody learns anything.
func (r *labRuntime) expectStrangersRefused(ns, container string) {
	r.t.Helper()
	accepted := r.accepted()
	event := fmt.Sprintf(`{"specversion":"1.0","id":"stranger","source":"/runtime","type":"container.stopped","data":{"containerId":%q}}`, container)
	about := func(subject string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":"stranger","source":"/runtime","type":"labinstancerequest.updated","subject":%q}`, subject)
	}
	stranger, foreign := accountToken(r.t, ns, "stranger", "thole.dev"), accountToken(r.t, ns, "foreign", "vault.example")
	for _, c := range []struct {
		name, token, body string
		status            int
	}{
		{"no token", "", event, http.StatusUnauthorized},
		{"a token that is none", "garbage", event, http.StatusUnauthorized},
		{"a token for somebody else", foreign, event, http.StatusUnauthorized},
		{"a token that was changed", r.token[:len(r.token)-9] + "AAAAAAAAA", event, http.StatusUnauthorized},
		{"no token, and a large body", "", strings.Repeat("x", 2<<20), http.StatusUnauthorized},
		{"no right, by an index", stranger, event, http.StatusNotFound}, // as if there were no such container
		{"no right to an object", stranger, about(ns + "/lab"), http.StatusForbidden},
		{"no right to an object that is not there", stranger, about(ns + "/none"), http.StatusForbidden},
		{"an object in another namespace", r.token, about("default/lab"), http.StatusForbidden},
		{"a large body", r.token, strings.Repeat(" ", 2<<20) + event, http.StatusRequestEntityTooLarge},
		{"no event", r.token, "event", http.StatusBadRequest},
	} {
		if status := r.post(c.token, c.body, "Content-Type: application/cloudevents+json"); status != c.status {
			r.t.Errorf("%s: the answer is %d, want %d", c.name, status, c.status)
		}
	}
	if n := r.accepted() - accepted; n != 0 {
		r.t.Errorf("%v of their events were accepted", n)
	}
	for _, token := range []string{r.token, stranger, foreign} {
		if strings.Contains(r.host.Log.Tail(1<<20), token) {
			r.t.Error("the log has a token")
		}
	}
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
	if n := runtime.accepted(); n < 2 {
		t.Errorf("%g events were received", n)
	}
	p.stop()
	p.expectNoErrors()
}

// Whoever sends events may do so in each mode of CloudEvents, with a token of who may run the object. More
// of them than the policy allows are refused, a batch as a whole.
func TestSendersOfEventsAreAuthorizedAndBounded(t *testing.T) {
	t.Parallel()
	d, l := labDirectory(t, "receives: {eventsPerSecond: 0.1}\n"), labs{t, namespace(t)}
	p := start(t, d, l.ns, allowAll)
	p.awaitRunning("labinstance", 1)
	runtime := newLabRuntime(t, p, l.ns)
	container := field(l.run("lab"), "status", "containerId")
	awaitReceived := func(id string) {
		t.Helper()
		await.Until(t, "a run has the event "+id, func() bool { return slices.Contains(runtime.received(l.ns+"/lab"), id) })
	}
	runtime.reports("started", container)
	awaitReceived(fmt.Sprint(runtime.sent))

	binary := []string{"Content-Type: application/json", "Ce-Specversion: 1.0", "Ce-Id: binary", "Ce-Source: /runtime", "Ce-Type: container.started"}
	data := fmt.Sprintf(`{"containerId":%q}`, container)
	if status := runtime.post(runtime.token, data, binary...); status != http.StatusAccepted {
		t.Errorf("an event in binary mode is answered with %d", status)
	}
	awaitReceived("binary")
	const object = `{"specversion":"1.0","id":"object","source":"/api","type":"labinstancerequest.updated","subject":"%s/lab"}`
	structured := "Content-Type: application/cloudevents+json"
	if status := runtime.post(runtime.token, fmt.Sprintf(object, l.ns), structured); status != http.StatusAccepted {
		t.Errorf("an event whose subject is the object is answered with %d", status)
	}
	awaitReceived("object")
	runtime.expectStrangersRefused(l.ns, container)

	// 256 may come at once, and one more every ten seconds. The runs do not have more than 64 at a time.
	const many = 200
	status, ids := runtime.batch(many, "started", container)
	if status != http.StatusAccepted {
		t.Fatalf("a batch of %d events is answered with %d", many, status)
	}
	awaitReceived(ids[many-1])
	status, refused := runtime.batch(many, "stopped", container)
	if status != http.StatusTooManyRequests {
		t.Errorf("%d events more are answered with %d", many, status)
	}
	runtime.reports("started", container) // for one there is room
	awaitReceived(fmt.Sprint(runtime.sent))
	if wrong := slices.DeleteFunc(runtime.received(l.ns+"/lab"), func(id string) bool {
		return id != "stranger" && !slices.Contains(refused, id)
	}); len(wrong) > 0 {
		t.Errorf("runs have the events %q, which were refused", wrong)
	}
	m := p.Metrics()
	if n := m.Sum("thole_events_received_total", "plugin", "labinstance", "code", "429"); n != 1 {
		t.Errorf("%g requests were refused because of their rate", n)
	}
	p.stop()
	p.expectNoErrors()
}
