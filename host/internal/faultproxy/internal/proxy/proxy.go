// Package proxy passes requests on to an API server, with the faults that rules
// ask for.
package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/active"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/journal"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/process"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/request"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/rule"
)

// Proxy is the handler of a server. Its server must have [SaveConnection] as its
// ConnContext.
type Proxy struct {
	Rules    *active.Set
	Requests *journal.Journal
	Process  *process.Target

	target        *url.URL
	authenticated http.RoundTripper // with the credentials of the configuration
	anonymous     http.RoundTripper // for requests that have a token
}

// New returns a proxy of an API server. It adds the credentials of the
// configuration to requests without a token. [Proxy.Close] must be called.
func New(server *rest.Config) (*Proxy, error) {
	target, _, err := rest.DefaultServerUrlFor(server)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	p := &Proxy{Rules: active.NewSet(), Requests: &journal.Journal{}, Process: &process.Target{}, target: target}
	if p.authenticated, err = rest.TransportFor(server); err == nil {
		// A client certificate would win over a token.
		p.anonymous, err = rest.TransportFor(rest.AnonymousClientConfig(server))
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return p, nil
}

// Close releases what New has opened.
func (p *Proxy) Close() {
	utilnet.CloseIdleConnectionsFor(p.authenticated)
	utilnet.CloseIdleConnectionsFor(p.anonymous)
	p.Process.Close()
}

// ServeHTTP implements [http.Handler]. A request that gets no reply ends by
// [http.ErrAbortHandler]: so does one that the API server does not answer, as it
// would without a proxy.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	attributes, err := request.Read(r)
	entry := p.Requests.Begin(attributes)
	defer entry.End()
	if err != nil {
		panic(http.ErrAbortHandler) // the client has gone away
	}
	exchange := p.Rules.Begin(attributes, entry.Applied)
	defer exchange.End()
	reverse := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(p.target) },
		Transport:     &call{p, attributes, entry, exchange},
		FlushInterval: -1, // at once, for watches
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:      hclog.NewNullLogger().StandardLogger(nil), // the faults
	}
	reverse.ServeHTTP(&recorder{w, entry}, r)
}

// next returns the transport that passes a request on.
func (p *Proxy) next(r *http.Request) http.RoundTripper {
	if r.Header.Get("Authorization") != "" {
		return p.anonymous
	}
	return p.authenticated
}

// Replace ends all rules and adds others.
func (p *Proxy) Replace(ctx context.Context, rules []rule.Rule) error {
	return p.change(ctx, rules, p.Rules.Replace)
}

// Add adds rules after those that exist.
func (p *Proxy) Add(ctx context.Context, rules []rule.Rule) error {
	return p.change(ctx, rules, p.Rules.Add)
}

// change changes the rules, which may need the current resourceVersion.
func (p *Proxy) change(ctx context.Context, rules []rule.Rule, change func([]rule.Rule, string)) (err error) {
	var version string
	if slices.ContainsFunc(rules, func(r rule.Rule) bool { return r.Fault == rule.Stale }) {
		if version, err = p.version(ctx); err != nil {
			return fmt.Errorf("read the current resourceVersion for the fault stale: %w", err)
		}
	}
	change(rules, version)
	return nil
}

// version returns the current resourceVersion of the API server.
func (p *Proxy) version(ctx context.Context) (string, error) {
	address := p.target.JoinPath("/api/v1/namespaces")
	address.RawQuery = "limit=1"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return "", err
	}
	r.Header.Set("Accept", "application/json")
	response, err := p.authenticated.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var list metav1.PartialObjectMetadataList
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil || list.ResourceVersion == "" {
		return "", fmt.Errorf("GET %s: the reply is not a list: %s", address, response.Status)
	}
	return list.ResourceVersion, nil
}

// recorder records the code of a reply before it is sent.
type recorder struct {
	http.ResponseWriter
	entry *journal.Entry
}

// WriteHeader implements [http.ResponseWriter].
func (w *recorder) WriteHeader(code int) {
	if code >= http.StatusOK || code == http.StatusSwitchingProtocols {
		w.entry.Answered(code)
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is for [http.ResponseController].
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
