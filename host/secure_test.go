package host

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/telemetry"
)

// endpoint is a host in a pod that others reach.
type endpoint struct {
	*testing.T
	typed  *kubernetes.Clientset
	host   *Host
	log    *log
	roots  *x509.CertPool
	tokens map[string]string // by the name of the service account
}

func (e *endpoint) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// caller makes a service account that may get paths, and a token of it.
func (e *endpoint) caller(name string, paths ...string) {
	e.Helper()
	accounts := e.typed.CoreV1().ServiceAccounts("default")
	_, err := accounts.Create(e.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}, metav1.CreateOptions{})
	e.ok(err)
	if len(paths) > 0 {
		grant(e, e.typed, name, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: "default"}, rbacv1.PolicyRule{NonResourceURLs: paths, Verbs: []string{"get"}})
	}
	e.tokens[name] = e.token(name)
}

func (e *endpoint) token(account string, audiences ...string) string {
	e.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	answer, err := e.typed.CoreV1().ServiceAccounts("default").CreateToken(e.Context(), account, request, metav1.CreateOptions{})
	e.ok(err)
	return answer.Status.Token
}

func startEndpoint(t *testing.T, rules ...rbacv1.PolicyRule) *endpoint {
	t.Helper()
	cluster := controlPlane(t)
	e := &endpoint{T: t, typed: kubernetes.NewForConfigOrDie(cluster), log: &log{}, tokens: map[string]string{}}
	grant(e, e.typed, "host", userHost, rules...)
	as := rest.CopyConfig(cluster)
	as.Impersonate = rest.ImpersonationConfig{UserName: "host"}
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: e.log, JSONFormat: true, IndependentLevels: true})
	pod := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "thole-1", UID: "u"}
	c := config.Config{Plugins: t.TempDir(), Listen: ":0", HostIdentity: true, CacheDir: t.TempDir(), Profiling: true}
	e.host, _ = run(t, c, Environment{Cluster: as, Logger: logger, Events: telemetry.LogEvents(logger), Version: "test", Pod: pod})
	return e
}

// get returns what the host answers to a caller; "" is nobody.
func (e *endpoint) get(path, token string) (status int, text string) {
	e.Helper()
	_, port, _ := net.SplitHostPort(e.host.Address())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: e.roots, InsecureSkipVerify: e.roots == nil, ServerName: "thole.default.svc"}}}
	r, err := http.NewRequestWithContext(e.Context(), http.MethodGet, "https://127.0.0.1:"+port+path, nil)
	e.ok(err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(r)
	e.ok(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	e.ok(err)
	return response.StatusCode, string(body)
}

func TestWhoMayGetWhatIsDecidedByTheAPIServer(t *testing.T) {
	e := startEndpoint(t, deployedRules(t, "base/rbac-metrics.yaml", "thole-metrics-auth", "thole-metrics")...)
	e.caller("prometheus", "/metrics")
	e.caller("operator", "/metrics", "/plugins", "/debug/pprof")
	e.caller("nobody")
	paths := []string{"/metrics", "/plugins", "/debug/pprof/heap?debug=1"}
	accounts := map[string][]string{"prometheus": paths[:1], "operator": paths, "nobody": nil}
	for account, allowed := range accounts { // a role does not count at once, and the host remembers a denial
		for _, path := range allowed {
			await.Until(t, account+" may get "+path, func() bool {
				status, _ := e.get(path, e.tokens[account])
				return status == http.StatusOK
			})
		}
	}
	for account, allowed := range accounts {
		for _, path := range paths {
			want := http.StatusForbidden
			if slices.Contains(allowed, path) {
				want = http.StatusOK
			}
			if status, text := e.get(path, e.tokens[account]); status != want {
				t.Errorf("%s of %s: %d %.200s, want %d", path, account, status, text, want)
			}
		}
	}
	_, text := e.get("/plugins", e.tokens["prometheus"])
	for _, part := range []string{"system:serviceaccount:default:prometheus", "nonResourceURLs: [/plugins]"} {
		if !strings.Contains(text, part) {
			t.Errorf("the refusal %q does not have %q", text, part)
		}
	}
	good := e.tokens["operator"]
	for name, token := range map[string]string{
		"none": "", "garbage": "garbage", "cut off": good[:len(good)-5], "of another audience": e.token("operator", "https://vault.example"),
	} {
		if status, text := e.get("/metrics", token); status != http.StatusUnauthorized {
			t.Errorf("a token that is %s: %d %.200s", name, status, text)
		}
	}
	if text := e.log.String(); strings.Contains(text, good) || strings.Contains(text, e.tokens["nobody"]) {
		t.Error("a token is in the log")
	}

	// Who reads the Secret can verify the host by the name of its Service.
	await.Until(t, "the authority is in the Secret", func() bool {
		secret, err := e.typed.CoreV1().Secrets("default").Get(t.Context(), "thole-metrics", metav1.GetOptions{})
		if err != nil {
			return false
		}
		e.roots = x509.NewCertPool()
		return e.roots.AppendCertsFromPEM(secret.Data["ca.crt"]) && e.host.secure.keeper.Bundle() != nil
	})
	if status, text := e.get("/metrics", good); status != http.StatusOK {
		t.Errorf("%d %.200s", status, text)
	}
	if e.host.secure.keeper.Arrived(t.Context(), e.host.secure.keeper.Bundle()) {
		t.Error("a new certificate is served before those who verify it can know its authority")
	}
}

func TestWithoutRightsOnlyProbesAreServed(t *testing.T) {
	e := startEndpoint(t)
	e.caller("operator", "/metrics")
	all := deployedRules(t, "base/rbac-metrics.yaml", "thole-metrics-auth", "thole-metrics")
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, text := e.get(path, ""); status != http.StatusOK && !strings.Contains(text, "directory") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for range 3 {
		if status, text := e.get("/metrics", e.tokens["operator"]); status != http.StatusServiceUnavailable || strings.Contains(text, "thole_") {
			t.Errorf("%d %.200s", status, text)
		}
	}
	await.Until(t, "the log has the rights that are missing", func() bool {
		text := e.log.String()
		return strings.Contains(text, "tokenreviews") && strings.Contains(text, "thole-metrics")
	})
	if n := strings.Count(e.log.String(), "who sends a request"); n != 1 {
		t.Errorf("%d lines about three requests", n)
	}

	// Each right that is granted after that takes away one of the reasons. "update" is for the time
	// when the certificate is renewed.
	for i, rule := range all {
		grant(e, e.typed, fmt.Sprint("host-", i), userHost, rule)
		want := http.StatusServiceUnavailable
		if i >= 1 {
			want = http.StatusOK
		}
		await.Until(t, fmt.Sprintf("the answer after %v", rule.Resources), func() bool {
			status, _ := e.get("/metrics", e.tokens["operator"])
			return status == want
		})
	}
	await.Until(t, "the host has the certificate of the Secret", func() bool { return e.host.secure.keeper.Bundle() != nil })
}

func TestOnLoopbackEverybodyIsServed(t *testing.T) {
	cluster := controlPlane(t)
	r := start(t, cluster, nil)
	if r.host.secure != nil {
		t.Error("a token is asked for on a loopback address")
	}
	insecure := false
	c := config.Config{Plugins: t.TempDir(), Listen: ":0", CacheDir: t.TempDir(), Metrics: config.Metrics{Secure: &insecure}}
	h, _ := run(t, c, Environment{Cluster: cluster, Logger: hclog.NewNullLogger(), Version: "test"})
	_, port, _ := net.SplitHostPort(h.Address())
	response, err := http.Get("http://127.0.0.1:" + port + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
}
