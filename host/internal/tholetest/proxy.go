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

// Proxy stands between a host and the API server and notes what is asked, by
// that host alone: the API server's own counters are everybody's.
type Proxy struct {
	// Cluster is for a kubeconfig; over TLS, for a client sends no token
	// without.
	Cluster clientcmdapi.Cluster

	mu     sync.Mutex
	used   map[Right]int    // requests by what they need
	denied map[Right]int    // those that were answered by 403
	done   map[Right]int    // those that succeeded
	ahead  map[Right]func() // called once, before the next such request is passed on
}

// NewProxy starts one that ends with the test. Requests without a token are
// passed on with the credentials of server.
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
	p := &Proxy{used: map[Right]int{}, denied: map[Right]int{}, done: map[Right]int{}, ahead: map[Right]func(){}}
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			p.begin(r.In)
		},
		ModifyResponse: p.note,
		Transport:      transport,
		FlushInterval:  -1, // of watches
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

// Before has a function called before the next request that needs a right.
func (p *Proxy) Before(r Right, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead[r] = f
}

func (p *Proxy) begin(request *http.Request) {
	needed, _ := rightOf(request)
	p.mu.Lock()
	f := p.ahead[needed]
	delete(p.ahead, needed)
	p.mu.Unlock()
	if f != nil {
		f()
	}
}

func (p *Proxy) note(response *http.Response) error {
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
		p.done[Right{verbOf(response.Request, needed), needed.Group, needed.Resource}]++
	}
	if response.StatusCode == http.StatusCreated && needed.Verb == "patch" {
		needed.Verb = "create" // server-side apply of what was not there
		p.used[needed]++
	}
	return nil
}

// verbOf tells server-side apply from other patches.
func verbOf(request *http.Request, needed Right) string {
	if strings.HasPrefix(request.Header.Get("Content-Type"), "application/apply-patch") {
		return "apply"
	}
	return needed.Verb
}

// Seen returns what was asked, and what of it was denied.
func (p *Proxy) Seen() (used, denied []Right) {
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

// Done counts the requests that succeeded, by verb; those for resources, and
// for their subresources, if any are named. Server-side apply is the verb
// apply. What failed is left out: who loses a race for an object, or meets a
// server that has too much to do, rightly comes again.
func (p *Proxy) Done(resources ...string) Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := Counts{}
	for r, n := range p.done {
		if name, _, _ := strings.Cut(r.Resource, "/"); len(resources) == 0 || slices.Contains(resources, name) {
			counts[r.Verb] += n
		}
	}
	return counts
}

// Counts are numbers of requests by verb.
type Counts map[string]int

// Since returns what came after before, without verbs that did not.
func (c Counts) Since(before Counts) Counts {
	since := Counts{}
	for verb, n := range c {
		if d := n - before[verb]; d != 0 {
			since[verb] = d
		}
	}
	return since
}

// Writes is the number of those that change something.
func (c Counts) Writes() (n int) {
	for _, verb := range []string{"create", "update", "patch", "apply", "delete"} {
		n += c[verb]
	}
	return n
}

// Reads is the number of those that read, without watches.
func (c Counts) Reads() int { return c["get"] + c["list"] }
