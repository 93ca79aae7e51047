package egress

import (
	"crypto/sha256"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// maxHeaderBytes bounds the header of an answer, with those of interim answers.
	maxHeaderBytes = 64 << 10
	// idleTimeout is how long a connection is kept that is not used.
	idleTimeout = 30 * time.Second
	// idlePerHost is how many are kept for a host.
	idlePerHost = 4
)

// transportKey names a transport. Connections are not shared between entries, whose addresses and
// authorities differ, nor between requests with and without a client's certificate.
type transportKey struct {
	rule    *rule
	crossed bool // for requests without a credential
}

// keptTransport is the transport of a key.
type keptTransport struct {
	*http.Transport
	tls [sha256.Size]byte // of the Secret that it was made with
}

// transportFor returns the transport for requests by a rule. credential is nil if the entry has
// none.
func (c *Client) transportFor(r *rule, with *credential, crossed bool) *http.Transport {
	key, hash := transportKey{r, crossed}, [sha256.Size]byte{}
	if with != nil {
		hash = with.tls
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, ok := c.transports[key]; ok {
		if kept.tls == hash {
			return kept.Transport
		}
		kept.CloseIdleConnections() // those in use are closed after their request
	}
	transport := c.newTransport(r, with, crossed)
	c.transports[key] = keptTransport{transport, hash}
	return transport
}

func (c *Client) newTransport(r *rule, with *credential, crossed bool) *http.Transport {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CA != "" {
		config.RootCAs, _ = parseCA([]byte(r.CA)) // the entry was checked
	}
	if with != nil && with.roots != nil {
		config.RootCAs = with.roots
	}
	if with != nil && with.certificate != nil && !crossed {
		config.Certificates = []tls.Certificate{*with.certificate}
	}
	_, proxy := r.proxyURL()
	d := &dialer{Dialer: net.Dialer{Timeout: dialTimeout, Resolver: c.config.Resolver}, client: c, rule: r, tls: config, proxy: proxy}
	t := &http.Transport{
		DialContext:            d.connect,
		DialTLSContext:         d.connectTLS,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           c.config.AtOnce,
		MaxIdleConnsPerHost:    min(idlePerHost, c.config.AtOnce),
		Protocols:              &http.Protocols{},
	}
	t.Protocols.SetHTTP1(true)
	if proxy != (target{}) {
		t.DialContext, t.DialTLSContext = d.connectProxy, d.connectThrough
		if r.scheme() == http1 {
			t.Proxy = http.ProxyURL(&url.URL{Scheme: http1, Host: proxy.address()})
		}
	}
	return t
}
