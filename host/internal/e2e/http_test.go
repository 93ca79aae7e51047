package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// fetched is a server outside of the cluster, which remembers the requests that it gets.
type fetched struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // method, path and credential
}

func newFetched(t *testing.T, handler http.HandlerFunc) *fetched {
	s := &fetched{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")))
		s.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// got returns the requests so far.
func (s *fetched) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// times returns how often a request came.
func (s *fetched) times(request string) (n int) {
	for _, r := range s.got() {
		if r == request {
			n++
		}
	}
	return n
}

// host is that of the URLs of the server.
func (s *fetched) host() string { return s.Listener.Addr().String() }

func answerOK(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }

// entry is an entry of a policy, and of the configuration, with more fields.
func (s *fetched) entry(methods, more string) string {
	return fmt.Sprintf("{host: '%s', scheme: http, methods: [%s], addresses: [loopback]%s}", s.host(), methods, more)
}

// fetchers are objects of the plugin fetch in a namespace.
type fetchers struct {
	*testing.T
	directory
	ns string
}

// newFetchers installs the plugin fetch, which acts as a service account that may read no Secret.
func newFetchers(t *testing.T) fetchers {
	t.Helper()
	installCRD(t, testdata+"stamp/crd.yaml")
	f := fetchers{t, newDirectory(t), namespace(t)}
	_, err := clients.CoreV1().ServiceAccounts(f.ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "fetch"}}, metav1.CreateOptions{})
	must(t, err)
	f.grant("objects", []string{stamps.Group}, "stamps", "stamps/status")
	f.grant("maps", []string{""}, "configmaps")
	f.install("fetch", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"fetch"))
	return f
}

// grant lets the service account of the plugin do everything with resources.
func (f fetchers) grant(name string, groups []string, resources ...string) {
	f.Helper()
	meta := metav1.ObjectMeta{Name: name, Namespace: f.ns}
	_, err := clients.RbacV1().Roles(f.ns).Create(f.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: groups, Resources: resources}}}, metav1.CreateOptions{})
	must(f.T, err)
	_, err = clients.RbacV1().RoleBindings(f.ns).Create(f.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "fetch", Namespace: f.ns}},
	}, metav1.CreateOptions{})
	must(f.T, err)
}

// policy installs a policy with such entries of http, and more fields.
func (f fetchers) policy(more string, entries ...string) {
	f.Helper()
	f.installPolicy("fetch", fmt.Sprintf("serviceAccount: %s/fetch\nallow: [{groups: [''], kinds: [ConfigMap, Secret], verbs: [get, list, watch]}]\nhttp: {hosts: [%s]}\n%s", f.ns, strings.Join(entries, ", "), more))
}

// config is a configuration that allows such entries of http.
func (f fetchers) config(entries ...string) string {
	return fmt.Sprintf(`allow: {serviceAccounts: {fetch: [%s/fetch]}, entries: {"*": [{groups: ["*"], kinds: ["*"], verbs: ["*"], namespaces: ["*"]}]}, http: {fetch: [%s]}}`+"\n", f.ns, strings.Join(entries, ", "))
}

// version is what has come of the request of an object.
func (f fetchers) version(name string) string {
	f.Helper()
	return field(get(f.T, stamps, f.ns, name), "status", "version")
}

func (f fetchers) awaitVersion(name, want string) {
	f.Helper()
	defer func() {
		if f.Failed() {
			f.Logf("%s has %q", name, f.version(name))
		}
	}()
	await.Until(f.T, name+" has "+want, func() bool { return f.version(name) == want })
}

// A request is sent where manifest, policy and configuration all let it go, with their methods, and so is
// what a redirect leads to. The plugin never has the credential of a host, and neither has another host.
func TestRequestsGoWhereManifestPolicyAndConfigurationAllow(t *testing.T) {
	t.Parallel()
	const credential = "a-credential-of-the-host"
	f := newFetchers(t)
	foreign, friend := newFetched(t, answerOK), newFetched(t, answerOK)
	server := newFetched(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/to-foreign":
			http.Redirect(w, r, foreign.URL+"/lured", http.StatusTemporaryRedirect)
		case "/to-friend":
			http.Redirect(w, r, friend.URL+"/welcome", http.StatusTemporaryRedirect)
		case "/echo":
			fmt.Fprintf(w, "you are %s", r.Header.Get("Authorization"))
		case "/endless":
			for part := make([]byte, 1<<20); ; {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		default:
			answerOK(w, r)
		}
	})
	secret := fmt.Sprintf(", secretRef: {namespace: %s, name: service}", f.ns)
	_, err := clients.CoreV1().Secrets(f.ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "service"}, StringData: map[string]string{"token": credential}}, metav1.CreateOptions{})
	must(t, err)
	f.policy("", server.entry("GET, DELETE", secret), friend.entry("GET", ""))
	p := start(t, f.directory, f.ns, f.config(server.entry("GET, DELETE", secret), friend.entry("GET", "")))
	p.awaitRunning("fetch", 1)

	createStamp(t, f.ns, "unread", "GET "+server.URL+"/unread")
	await.Until(t, "the request has failed", func() bool { return f.version("unread") != "" })
	if got := server.got(); len(got) > 0 || f.version("unread") != "Credential" {
		t.Errorf("without a right to the Secret the server has got %q: %s", got, f.version("unread"))
	}
	f.grant("secret", []string{""}, "secrets")
	await.Until(t, "the credential is read", func() bool {
		annotate(t, stamps, f.ns, "unread", "reconcile.thole.dev/requestedAt", fmt.Sprint(p.Log.Mark()))
		return f.version("unread") == "200 ok"
	})

	cases := map[string]struct{ text, want string }{
		"allowed":         {"GET " + server.URL + "/allowed", "200 ok"},
		"policy-method":   {"PUT " + server.URL + "/put", "denied"},
		"manifest-method": {"DELETE " + server.URL + "/delete", "denied"},
		"policy-host":     {"GET " + foreign.URL + "/", "denied"},
		"redirect":        {"GET " + server.URL + "/to-foreign", "denied"},
		"redirected":      {"GET " + server.URL + "/to-friend", "200 ok"},
		"leak":            {"GET " + server.URL + "/echo", "Credential"},
		"endless":         {"GET " + server.URL + "/endless", "too large"},
	}
	for name, c := range cases {
		createStamp(t, f.ns, name, c.text)
	}
	for name, c := range cases {
		await.Until(t, name+" was sent, or was not", func() bool { return f.version(name) != "" })
		if got := f.version(name); got != c.want {
			t.Errorf("%s: %s has led to %.200q, want %q", name, c.text, got, c.want)
		}
	}
	if got := foreign.got(); len(got) > 0 {
		t.Errorf("a host that no policy names has got %q", got)
	}
	if got := friend.got(); !slices.Equal(got, []string{"GET /welcome"}) {
		t.Errorf("another host has got %q", got)
	}
	for _, request := range server.got() {
		if !strings.HasPrefix(request, "GET /") || !strings.HasSuffix(request, " Bearer "+credential) {
			t.Errorf("the server has got %q", request)
		}
	}

	// A policy goes no further than the configuration.
	f.policy("", server.entry("GET", secret), foreign.entry("GET", ""))
	await.Until(t, "the policy is refused", func() bool {
		return strings.Contains(p.Plugin("fetch").LastError, "does not allow this much to the plugin")
	})
	createStamp(t, f.ns, "beyond", "GET "+foreign.URL+"/")
	f.policy("", server.entry("GET", secret))
	f.awaitVersion("beyond", "denied")
	if got := foreign.got(); len(got) > 0 {
		t.Errorf("a host that the configuration does not name has got %q", got)
	}

	_, metrics := p.Get("/metrics")
	_, plugins := p.Get("/plugins")
	for what, text := range map[string]string{"log": p.Log.Tail(1 << 20), "metrics": metrics, "plugins": plugins} {
		if strings.Contains(text, credential) {
			t.Errorf("the credential is in the %s", what)
		}
	}
	p.stop()
}

// A host that has one processor executes one call at a time.
func TestAPluginThatWaitsForAnAnswerKeepsNoOtherFromExecuting(t *testing.T) {
	t.Parallel()
	f := newFetchers(t)
	held, release := make(chan struct{}), make(chan struct{})
	server := newFetched(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			close(held) // a second request would panic
			select {
			case <-release:
			case <-r.Context().Done():
				return
			}
		}
		answerOK(w, r)
	})
	t.Cleanup(func() { server.CloseClientConnections() })
	f.policy("limits: {instances: 2, timeout: 10m}", server.entry("GET", ""))
	p := start(t, f.directory, f.ns, f.config(server.entry("GET", ""))+"limits: {instances: 2, timeout: 10m}\n", func(h *tholetest.Host) { h.Env = append(h.Env, "GOMAXPROCS=1") })
	p.awaitRunning("fetch", 1)
	createStamp(t, f.ns, "waits", "GET "+server.URL+"/held")
	<-held
	createStamp(t, f.ns, "other", "GET "+server.URL+"/other")
	f.awaitVersion("other", "200 ok")
	if version := f.version("waits"); version != "" {
		t.Errorf("the first request has ended: %s", version)
	}
	close(release)
	f.awaitVersion("waits", "200 ok")
	p.stop()
	p.expectNoErrors()
}

// Whether the account may read is not known, while the API server does not say. The plugin sends its request
// whatever it has read, but the host does not.
func TestNothingIsSentForARunThatIsRepeated(t *testing.T) {
	t.Parallel()
	f := newFetchers(t)
	server := newFetched(t, answerOK)
	f.policy("", server.entry("GET", ""))
	proxy := tholetest.NewProxy(t, cluster.Config)
	p := start(t, f.directory, f.ns, f.config(server.entry("GET", "")), withKubeconfig(proxy.Kubeconfig))
	p.awaitRunning("fetch", 1)
	createStamp(t, f.ns, "s", "GET "+server.URL+"/first")
	f.awaitVersion("s", "200 ok")
	must(t, proxy.SetRules("create localsubjectaccessreviews,subjectaccessreviews status=500"))
	mark := p.Log.Mark()
	must(t, patchSpec(t.Context(), stamps, f.ns, "s", "text", "read GET "+server.URL+"/second"))
	await.Until(t, "a run could not read", func() bool {
		return slices.ContainsFunc(p.Log.Since(mark), func(l tholetest.Line) bool {
			fuel, _ := l["fuel"].(float64) // the plugin was called
			return l.String("event") == "RunEnded" && l.String("result") == "requeue" && fuel > 0
		})
	})
	if got := server.got(); slices.Contains(got, "GET /second") {
		t.Errorf("the server has got %q", got)
	}
	must(t, proxy.SetRules(""))
	await.Until(t, "the request is sent by a later run", func() bool { return server.times("GET /second") == 1 })
	p.stop()
}

// A leader is suspended until another one has taken over. It does not follow the redirect that it then gets, and
// writes nothing.
func TestNothingIsSentByAReplicaThatNoLongerLeads(t *testing.T) {
	t.Parallel()
	f := newFetchers(t)
	var requests atomic.Int64
	asked, takenOver := make(chan struct{}), make(chan struct{})
	server := newFetched(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/asks":
			answerOK(w, r)
		case requests.Add(1) > 1:
			http.Redirect(w, r, "/of-the-next-leader", http.StatusTemporaryRedirect)
		default:
			close(asked)
			<-takenOver
			http.Redirect(w, r, "/of-the-former-leader", http.StatusTemporaryRedirect)
		}
	})
	f.policy("limits: {timeout: 10m}", server.entry("GET", ""))
	proxy := tholetest.NewProxy(t, cluster.Config)
	replica := func(options ...func(*tholetest.Host)) *process {
		return start(t, f.directory, f.ns, f.config(server.entry("GET", ""))+"limits: {timeout: 10m}\n", append(options, func(h *tholetest.Host) {
			h.Args = append(append(h.Args, "--leader-elect", "--leader-elect-resource-namespace="+f.ns), soonExpires...)
		})...)
	}
	former := replica(withKubeconfig(proxy.Kubeconfig))
	former.awaitRunning("fetch", 1)
	next := replica()
	await.Until(t, "the second replica could take over", func() bool { return next.Plugin("fetch").State == "standby" })
	createStamp(t, f.ns, "s", "GET "+server.URL+"/asks")
	<-asked
	former.Signal(syscall.SIGSTOP)
	next.awaitRunning("fetch", 1)
	f.awaitVersion("s", "200 ok")
	close(takenOver)
	former.Signal(syscall.SIGCONT)
	await.Until(t, "the former leader could take over again", func() bool { return former.Plugin("fetch").State == "standby" })
	if n := server.times("GET /of-the-former-leader"); n > 0 || server.times("GET /of-the-next-leader") == 0 {
		t.Errorf("the server has got %q", server.got())
	}
	for _, r := range proxy.Requests() {
		if strings.HasPrefix(r.Resource, "stamps") && !slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
			t.Errorf("the former leader has sent: %s %s, answered with %d", r.Verb, r.Resource, r.ServerCode)
		}
	}
	next.stop()
	former.stop()
}
