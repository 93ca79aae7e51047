package egress

import (
	"cmp"
	"reflect"

	"github.com/thole-dev/thole/host/rights"
)

// Entry allows requests to a host.
type Entry struct {
	// Host is a name or an address, with a port unless that is the default of the scheme, such as
	// api.example.com or 192.0.2.1:8443. '*.example.com' stands for all names below
	// example.com, and '*' for all hosts.
	Host string `json:"host"`
	// Scheme is that of the URLs: https, the default, or http.
	Scheme string `json:"scheme,omitempty"`
	// Methods are those of the requests; default GET.
	Methods []string `json:"methods,omitempty"`
	// SecretRef names the Secret with the credential of the host, which the host adds to
	// each request: its keys are token, or username and password, or tls.crt and tls.key,
	// and ca.crt instead of CA. The plugin's service account must be allowed to get it. The
	// host must have no wildcard and the scheme https, unless loopback addresses are all
	// that Addresses has.
	SecretRef *SecretRef `json:"secretRef,omitempty"`
	// Header is that of the Secret's token; the default is Authorization, with "Bearer "
	// before the token.
	Header string `json:"header,omitempty"`
	// CA has the certificates of the authorities that the server's is verified by, as PEM;
	// default those of the system.
	CA string `json:"ca,omitempty"`
	// Addresses are those that may be dialled besides public ones: CIDRs, or loopback,
	// private or link-local. Those of the metadata services of clouds need a CIDR of their
	// own, such as 169.254.169.254/32.
	Addresses []string `json:"addresses,omitempty"`
	// Proxy is the URL of the proxy that the requests are sent through, of the scheme http
	// or https. It resolves names, and decides which addresses it connects to. Those of the
	// environment are ignored.
	Proxy string `json:"proxy,omitempty"`
}

// SecretRef names a Secret.
type SecretRef = rights.SecretRef

// Entries are what a policy allows.
type Entries []Entry

// EntryExample returns an entry as people write it.
func (Entries) EntryExample() string { return "such as {host: api.example.com, methods: [GET, POST]}" }

// Equal reports whether both are the same, in the same order.
func (all Entries) Equal(other Entries) bool { return reflect.DeepEqual(all, other) }

const (
	https = "https"
	http1 = "http" // the scheme, beside the package of that name

	defaultMethod = "GET"
)

func (e Entry) scheme() string { return cmp.Or(e.Scheme, https) }

func (e Entry) methods() []string { return methodsOr(e.Methods) }

// methodsOr returns the methods of an entry of a policy or a manifest.
func methodsOr(methods []string) []string {
	if len(methods) == 0 {
		return []string{defaultMethod}
	}
	return methods
}

// pattern returns the hosts of an entry; none if it is not valid.
func (e Entry) pattern() pattern {
	p, _ := parsePattern(e.Host)
	return p.of(e.scheme())
}
