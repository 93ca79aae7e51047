package tholetest

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Proxy is a reverse proxy between one host and the API server that counts the
// requests of this host. The API server's own counters cover all of its clients.
type Proxy struct {
	// Cluster is the proxy for a kubeconfig. It has TLS, because clients send
	// tokens over TLS only.
	Cluster clientcmdapi.Cluster

	mu        sync.Mutex
	used      map[Right]int    // requests by the right that they need
	denied    map[Right]int    // requests that got 403
	succeeded map[Right]int    // requests that got 2xx
	before    map[Right]func() // called once, before the next request that needs the right
}

// NewProxy starts a proxy that stops when the test ends. It adds the credentials of
// server to requests without a token.
func NewProxy(tb testing.TB, server *rest.Config) *Proxy {
	tb.Helper()
	target, err := url.Parse(server.Host)
	if err != nil {
		tb.Fatal(err)
	}
	transport, err := rest.TransportFor(server)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{used: map[Right]int{}, denied: map[Right]int{}, succeeded: map[Right]int{}, before: map[Right]func(){}}
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			p.callBefore(r.In)
		},
		ModifyResponse: p.count,
		Transport:      transport,
		FlushInterval:  -1, // at once, for watches
	})
	p.Cluster = clientcmdapi.Cluster{
		Server:                   proxy.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw}),
	}
	tb.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
		utilnet.CloseIdleConnectionsFor(transport)
	})
	return p
}

// Before makes the proxy call f once, before it passes on the next request that
// needs the right.
func (p *Proxy) Before(r Right, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before[r] = f
}

func (p *Proxy) callBefore(request *http.Request) {
	needed, _ := rightOf(request)
	p.mu.Lock()
	f := p.before[needed]
	delete(p.before, needed)
	p.mu.Unlock()
	if f != nil {
		f()
	}
}

func (p *Proxy) count(response *http.Response) error {
	needed, ok := rightOf(response.Request)
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[needed]++
	switch code := response.StatusCode; {
	case code == http.StatusForbidden:
		p.denied[needed]++
	case code < http.StatusMultipleChoices:
		p.succeeded[Right{verbOf(response.Request, needed), needed.Group, needed.Resource}]++
	}
	if response.StatusCode == http.StatusCreated && needed.Verb == "patch" {
		needed.Verb = "create" // server-side apply has created the object
		p.used[needed]++
	}
	return nil
}

// verbOf returns the verb of a request, "apply" for server-side apply.
func verbOf(request *http.Request, needed Right) string {
	if strings.HasPrefix(request.Header.Get("Content-Type"), "application/apply-patch") {
		return "apply"
	}
	return needed.Verb
}

// Rights returns the rights that requests needed, and those that were denied.
func (p *Proxy) Rights() (used, denied []Right) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.used {
		used = append(used, r)
	}
	for r := range p.denied {
		denied = append(denied, r)
	}
	return used, denied
}

// Succeeded returns the numbers of successful requests by verb, for the named
// resources and their subresources, or for all resources if none is named.
// Server-side apply has the verb "apply". Failed requests are not counted: a
// conflict or an overloaded server is a good reason to repeat a request.
func (p *Proxy) Succeeded(resources ...string) Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := Counts{}
	for r, n := range p.succeeded {
		if name, _, _ := strings.Cut(r.Resource, "/"); len(resources) == 0 || slices.Contains(resources, name) {
			counts[r.Verb] += n
		}
	}
	return counts
}

// Counts are numbers of requests by verb.
type Counts map[string]int

// Since returns the difference to earlier counts, without verbs whose number is the
// same.
func (c Counts) Since(before Counts) Counts {
	since := Counts{}
	for verb, n := range c {
		if d := n - before[verb]; d != 0 {
			since[verb] = d
		}
	}
	return since
}

// Writes returns the number of requests that write.
func (c Counts) Writes() (n int) {
	for _, verb := range []string{"create", "update", "patch", "apply", "delete"} {
		n += c[verb]
	}
	return n
}

// Reads returns the number of requests that read, without watches.
func (c Counts) Reads() int { return c["get"] + c["list"] }
