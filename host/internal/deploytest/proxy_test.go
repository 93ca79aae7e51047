package deploytest

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// right is what one request needs: a verb on a resource, as RBAC names them.
type right struct {
	verb, group, resource string // resource with its subresource: pods/status
}

func (r right) String() string { return r.verb + " " + r.resource }

// proxy stands between a host and the API server and notes what is asked. It
// adds no right: what it passes on has the token that it came with.
type proxy struct {
	server clientcmdapi.Cluster // over TLS: a client sends no token without

	mu     sync.Mutex
	used   map[right]int    // requests by what they need
	denied map[right]int    // those that were answered by 403
	ahead  map[right]func() // called once, before the next such request is passed on
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	target, err := url.Parse(cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(cluster.Config))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{used: map[right]int{}, denied: map[right]int{}, ahead: map[right]func(){}}
	server := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			p.begin(r.In)
		},
		ModifyResponse: p.note,
		Transport:      transport,
		FlushInterval:  -1, // of watches
	})
	p.server = clientcmdapi.Cluster{
		Server:                   server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		utilnet.CloseIdleConnectionsFor(transport)
	})
	return p
}

// before has a function called before the next request that needs a right.
func (p *proxy) before(r right, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead[r] = f
}

func (p *proxy) begin(request *http.Request) {
	needed, _ := rightOf(request)
	p.mu.Lock()
	f := p.ahead[needed]
	delete(p.ahead, needed)
	p.mu.Unlock()
	if f != nil {
		f()
	}
}

func (p *proxy) note(response *http.Response) error {
	needed, ok := rightOf(response.Request)
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[needed]++
	if response.StatusCode == http.StatusForbidden {
		p.denied[needed]++
	}
	if response.StatusCode == http.StatusCreated && needed.verb == "patch" {
		needed.verb = "create" // server-side apply of what was not there
		p.used[needed]++
	}
	return nil
}

// seen returns what was asked, and what of it was denied.
func (p *proxy) seen() (used, denied []right) {
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

// rightOf reads a request as the API server does. False for one that is about
// no resource, such as discovery.
func rightOf(request *http.Request) (r right, ok bool) {
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case path[0] == "api" && len(path) > 2:
		path = path[2:]
	case path[0] == "apis" && len(path) > 3:
		r.group, path = path[1], path[3:]
	default:
		return r, false
	}
	if path[0] == "namespaces" && len(path) > 2 {
		path = path[2:]
	}
	r.resource = path[0]
	if len(path) > 2 {
		r.resource += "/" + path[2]
	}
	r.verb = map[string]string{"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}[request.Method]
	if r.verb == "get" && len(path) == 1 {
		r.verb = "list"
		if request.URL.Query().Has("watch") {
			r.verb = "watch"
		}
	}
	return r, true
}
