package e2e

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// A web page that has a browser ask for a name of its own, which resolves to the host, reads nothing.
func TestRequestsForAForeignHostAreRefused(t *testing.T) {
	t.Parallel()
	p := start(t, newDirectory(t), namespace(t), "")
	await.Until(t, "the host is ready", func() bool { status, _ := p.Get("/readyz"); return status == http.StatusOK })
	_, port, err := net.SplitHostPort(p.Address())
	must(t, err)
	for _, path := range []string{"/plugins", "/metrics", "/readyz", "/healthz"} {
		for host, want := range map[string]int{"evil.example:" + port: http.StatusMisdirectedRequest, "127.0.0.1.evil.example": http.StatusMisdirectedRequest, "localhost:" + port: http.StatusOK} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.Address()+path, nil)
			must(t, err)
			r.Host = host
			answer, err := http.DefaultClient.Do(r)
			must(t, err)
			must(t, answer.Body.Close())
			if answer.StatusCode != want {
				t.Errorf("%s of %s: %s, want %d", path, host, answer.Status, want)
			}
		}
	}
	p.stop()
}

// tokenFile writes the token of a service account that may get metrics and plugins.
func tokenFile(t *testing.T, ns string) string {
	t.Helper()
	token := accountToken(t, ns, "reader")
	meta := metav1.ObjectMeta{Name: "reader-" + ns}
	_, err := clients.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics", "/plugins"}}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = clients.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "reader", Namespace: ns}},
	}, metav1.CreateOptions{})
	must(t, err)
	path := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(path, []byte(token), 0o600))
	return path
}

// Who has no token has a connection for one answer, one address has a part of all connections, and who sends
// nothing has them for a moment.
func TestNobodyIsKeptFromTheProbes(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	p := start(t, newDirectory(t), ns, "", func(h *tholetest.Host) { h.Args = append(h.Args, "--metrics-secure=true") })
	p.TokenFile = tokenFile(t, ns)
	await.Until(t, "metrics are served to who has a token", func() bool { status, _ := p.Get("/metrics"); return status == http.StatusOK })
	token, err := os.ReadFile(p.TokenFile)
	must(t, err)

	client := func(from string) *http.Client {
		transport := &http.Transport{
			DialContext:     (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // who serves there is known
		}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport, Timeout: await.Limit}
	}
	get := func(c *http.Client, path, token, host string) (status int, closes bool) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+p.Address()+path, nil)
		must(t, err)
		if r.Host = host; token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := c.Do(r)
		must(t, err)
		_, err = io.Copy(io.Discard, answer.Body)
		must(t, err)
		must(t, answer.Body.Close())
		return answer.StatusCode, answer.Close
	}
	for _, c := range []struct {
		path, token, host string
		status            int
		closes            bool
	}{
		{"/healthz", "", "", http.StatusOK, true},
		{"/metrics", "", "", http.StatusUnauthorized, true},
		{"/metrics", "garbage", "", http.StatusUnauthorized, true},
		{"/nothing", "", "", http.StatusNotFound, true},
		{"/healthz", "", "evil.example", http.StatusMisdirectedRequest, true},
		{"/plugins", string(token), "evil.example", http.StatusMisdirectedRequest, true},
		{"/metrics", string(token), "", http.StatusOK, false},
	} {
		if status, closes := get(client("127.0.0.1"), c.path, c.token, c.host); status != c.status || closes != c.closes {
			t.Errorf("%s of %q with the token %.10q: %d, and the connection ends: %v", c.path, c.host, c.token, status, closes)
		}
	}

	// The host has 512 connections. On a slow machine it may end the first ones for their time, before all are open.
	await.Until(t, "what one address has beyond its share is closed at once", func() bool {
		var open []net.Conn
		defer func() {
			for _, c := range open {
				c.Close()
			}
		}()
		for range 600 {
			c, err := net.Dial("tcp", p.Address())
			must(t, err)
			open = append(open, c)
		}
		closed := func(c net.Conn, wait time.Duration) bool {
			must(t, c.SetReadDeadline(time.Now().Add(wait)))
			_, err := bufio.NewReader(c).ReadByte()
			return err != nil && !os.IsTimeout(err)
		}
		if !closed(open[len(open)-1], await.Limit) || closed(open[0], time.Millisecond) {
			return false
		}
		if status, _ := get(client("127.0.0.2"), "/healthz", "", ""); status != http.StatusOK {
			t.Errorf("from another address: %d", status)
		}
		if !closed(open[0], await.Limit) {
			t.Error("who sends nothing keeps its connection")
		}
		return true
	})
	await.Until(t, "the address is served again", func() bool { status, _ := p.Get("/healthz"); return status == http.StatusOK })
	p.stop()
}
