package serve

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// This file refuses requests for a foreign host. A page of evil.example can make its name
// resolve to the address of this server (DNS rebinding): the browser of whoever opens it then
// takes what the server returns for the page's own. Its requests name the host evil.example.
// Addresses, and names that nobody can have in the public DNS, cannot be used for that.

// hosts decides which hosts of requests are served.
type hosts struct {
	own      string // the name in the address that the server listens on; "" for none
	loopback bool   // nothing but this machine reaches the server
}

func hostsOf(address string, listening net.Addr) hosts {
	name, _, _ := net.SplitHostPort(address)
	at, ok := listening.(*net.TCPAddr)
	return hosts{own: strings.ToLower(name), loopback: ok && at.IP.IsLoopback()}
}

// serves reports whether a request for a host, with or without a port, is served: one for an
// address, for localhost or for the name that the server listens on and, if others reach the
// server, for the name of a service: thole, thole.namespace.svc, with cluster.local or not.
func (h hosts) serves(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	switch {
	case err == nil, name == "localhost", name == "", h.own != "" && name == h.own: // "": of HTTP/1.0
		return true
	case h.loopback:
		return false
	}
	return !strings.Contains(name, ".") || strings.HasSuffix(name, ".svc") || strings.HasSuffix(name, ".cluster.local")
}

// check serves requests by next if their host is served.
func (h hosts) check(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.serves(r.Host) {
			http.Error(w, "the host of the request is not one of this server: use its address, localhost or the name of its service", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
