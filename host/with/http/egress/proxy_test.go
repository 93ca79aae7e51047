package egress

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/host/internal/await"
)

// proxy is a proxy that sends everything to one server.
type proxy struct {
	to string // host and port

	mu       sync.Mutex
	requests []*http.Request
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests = append(p.requests, r)
	p.mu.Unlock()
	if r.Method != http.MethodConnect {
		io.WriteString(w, "by the proxy: "+r.RequestURI)
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	client, _, _ := w.(http.Hijacker).Hijack()
	io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		io.Copy(server, client)
		server.Close()
	}()
	io.Copy(client, server)
	client.Close()
}

func (p *proxy) last(t *testing.T) *http.Request {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) == 0 {
		t.Fatal("the proxy got no request")
	}
	return p.requests[len(p.requests)-1]
}

func TestProxyOfThePolicyIsUsed(t *testing.T) {
	ca := newAuthority(t)
	certificate, key := ca.issue(t, nil)
	var got *http.Request
	server := ca.serve(t, nil, nil, func(w http.ResponseWriter, r *http.Request) {
		got = r
		io.WriteString(w, "by the server")
	})
	p := &proxy{to: hostOf(server)}
	asked := false
	plain := serve(t, p.ServeHTTP)
	secured := ca.serve(t, nil, func(c *tls.Config) {
		c.ClientAuth = tls.RequestClientCert
		c.VerifyConnection = func(state tls.ConnectionState) error {
			asked = asked || len(state.PeerCertificates) > 0
			return nil
		}
	}, p.ServeHTTP)
	secret := secretOf("token", "the-token-of-the-host", "tls.crt", certificate, "tls.key", key)
	for _, proxy := range []*httptest.Server{plain, secured} {
		t.Run(proxy.URL[:5], func(t *testing.T) {
			c := newClient(t, Config{Secrets: secret, Resolver: (&dns{}).resolver(), Entries: Entries{
				{Host: "api.test", Proxy: proxy.URL, CA: ca.pem, SecretRef: &SecretRef{Namespace: "n", Name: "s"}},
				{Host: "*", Scheme: "http", Proxy: proxy.URL, CA: ca.pem},
				{Host: "*:8443", Proxy: proxy.URL + "/"},
			}})
			if reply := c.mustGet(t, "https://api.test/a"); string(reply.Body) != "by the server" {
				t.Errorf("%s", reply.Body)
			}
			if r := p.last(t); r.Method != http.MethodConnect || r.Host != "api.test:443" || r.Header.Get("Authorization") != "" {
				t.Errorf("%+v", r)
			}
			if got.Host != "api.test" || got.Header.Get("Authorization") != "Bearer the-token-of-the-host" || got.TLS.ServerName != "api.test" {
				t.Errorf("%+v", got)
			}
			if reply := c.mustGet(t, "http://public.test/b?c"); string(reply.Body) != "by the proxy: http://public.test/b?c" {
				t.Errorf("%s", reply.Body)
			}
			for _, denied := range []string{
				"http://127.0.0.1/", "http://localhost/", "http://a.localhost/", "http://169.254.169.254/", "http://[::ffff:10.0.0.1]/", "https://10.0.0.1:8443/", "https://localhost:8443",
			} {
				reply, err := c.get(t, denied)
				wantDenied(t, reply, err, "is not public")
			}
		})
	}
	if asked {
		t.Error("the proxy got the certificate of the client")
	}
}

func TestProxyThatFails(t *testing.T) {
	refusing := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "text of the proxy")
	})
	ca := newAuthority(t)
	unknown := ca.serve(t, nil, nil, func(http.ResponseWriter, *http.Request) { t.Error("the proxy got a request") })
	for proxy, want := range map[string]string{refusing.URL: contract.Unreachable, unknown.URL: contract.TLS} {
		c := newClient(t, Config{Entries: Entries{{Host: "api.test", Proxy: proxy}}})
		reply, err := c.get(t, "https://api.test/")
		wantFailure(t, reply, err, want)
		if strings.Contains(reply.Error.Message, "text of") {
			t.Error(reply.Error.Message)
		}
	}
}

// A proxy that does not answer must not keep more connections than there are requests.
func TestConnectionsThroughAProxyEndWithTheCall(t *testing.T) {
	const calls = 8
	for name, answer := range map[string]string{"silent": "", "silent tunnel": "HTTP/1.1 200 OK\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var open, all atomic.Int32
			var wait sync.WaitGroup
			wait.Go(func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					open.Add(1)
					all.Add(1)
					wait.Go(func() {
						io.WriteString(conn, answer)
						io.Copy(io.Discard, conn)
						conn.Close()
						open.Add(-1)
					})
				}
			})
			defer wait.Wait()
			defer listener.Close()
			c := newClient(t, Config{AtOnce: 2, PerSecond: 1e6, Entries: Entries{{Host: "*", Proxy: "http://" + listener.Addr().String()}}})
			for i := range calls {
				reply, err := c.Do(t.Context(), everything, &contract.Call{URL: fmt.Sprintf("https://host-%d.test/", i), Timeout: 200}, most, nil, nil)
				wantFailure(t, reply, err, contract.Timeout)
			}
			await.Within(t, dialTimeout/2, "there were connections, and all are closed", func() bool { return all.Load() >= calls/2 && open.Load() <= 2 })
		})
	}
}

// What is no tunnel is not spoken to.
func TestProxyThatMakesNoTunnel(t *testing.T) {
	for name, answer := range map[string]string{
		"more than an answer": "HTTP/1.1 200 OK\r\n\r\nxx", "another status": "HTTP/1.1 204 No Content\r\n\r\n", "closed": "", "not HTTP": "SSH-2.0\r\n\r\n",
		"endless header": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxHeaderBytes) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, hijacked(answer))
			c := newClient(t, Config{Entries: Entries{{Host: "api.test", Proxy: server.URL}}})
			reply, err := c.get(t, "https://api.test/")
			wantFailure(t, reply, err, contract.Unreachable)
		})
	}
}

// The environment of all tests names a proxy.
func TestProxyOfTheEnvironmentIsIgnored(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	host := "public.test" + hostOf(server)[strings.LastIndex(hostOf(server), ":"):]
	names := &dns{names: map[string][][]string{"public.test": {{"127.0.0.1"}}}}
	c := newClient(t, Config{Resolver: names.resolver(), Entries: Entries{{Host: host, Scheme: "http", Addresses: []string{"loopback"}}}})
	c.mustGet(t, "http://"+host)
}
