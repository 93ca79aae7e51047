package pluginlist

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/sanitize"
)

const (
	timeout  = 20 * time.Second
	maxReply = 64 << 20 // bytes
	// podToken is the token that a kubelet mounts for the service account of a pod.
	//nolint:gosec // the path of a file
	podToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"
)

// Server is where a host listens.
type Server struct {
	// Address is such as https://127.0.0.1:8080. The scheme may be left out: the server states whether
	// it needs TLS.
	Address string
	// TokenFile has the token of a caller, which is sent over TLS alone. The default for a loopback
	// address is that of the pod, if there is one.
	TokenFile string
	// AuthorityFile has the certificates, in PEM, of which one has signed that of the server; "" for those
	// that the system trusts. The certificate of a loopback address is not verified without it: whoever
	// listens there is on this machine.
	AuthorityFile string
}

// Validate checks the form of the address.
func (s Server) Validate() error {
	_, _, err := s.parse()
	return err
}

func (s Server) parse() (u *url.URL, hasScheme bool, err error) {
	full := s.Address
	hasScheme = strings.Contains(full, "://")
	if !hasScheme {
		full = "http://" + full
	}
	u, err = url.Parse(full)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, false, fmt.Errorf("address: %q is not an address such as https://127.0.0.1:8080", s.Address)
	}
	return u, hasScheme, nil
}

// Get returns the plugins of a host.
func (s Server) Get(ctx context.Context) (*List, error) {
	base, hasScheme, err := s.parse()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	at := base.JoinPath("plugins")
	status, body, err := s.get(ctx, at)
	if err == nil && status == http.StatusBadRequest && !hasScheme && strings.Contains(string(body), "HTTP request to an HTTPS server") {
		at.Scheme = "https"
		status, body, err = s.get(ctx, at)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the host: %w", err)
	}
	if err := refused(status, body); err != nil {
		return nil, err
	}
	list, err := read(status, body)
	if err != nil {
		return nil, fmt.Errorf("%s: not the reply of a host: %w", at.Redacted(), err)
	}
	return list, nil
}

// RefusedError is why a host does not list its plugins to the caller.
type RefusedError struct{ text string }

func (e *RefusedError) Error() string { return e.text }

func refused(status int, body []byte) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable:
		why := sanitize.Line(sanitize.Truncate(strings.TrimSpace(string(body)), maxReason))
		return &RefusedError{fmt.Sprintf("the host answers %d %s: %s", status, http.StatusText(status), why)}
	}
	return nil
}

func (s Server) get(ctx context.Context, at *url.URL) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return 0, nil, err
	}
	request.Close = true // there is no other one
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if at.Scheme == "https" {
		if transport.TLSClientConfig, err = s.tls(at.Hostname()); err != nil {
			return 0, nil, err
		}
		if err := s.authenticate(request); err != nil {
			return 0, nil, err
		}
	}
	reply, err := transport.RoundTrip(request) // a token is not passed on to where a redirect leads
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	body, err = io.ReadAll(io.LimitReader(reply.Body, maxReply))
	return reply.StatusCode, body, err
}

func (s Server) tls(host string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.AuthorityFile == "" {
		c.InsecureSkipVerify = config.IsLoopback(host)
		return c, nil
	}
	text, err := os.ReadFile(s.AuthorityFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", s.AuthorityFile)
	}
	return c, nil
}

func (s Server) authenticate(r *http.Request) error {
	file := s.TokenFile
	if file == "" && config.IsLoopback(r.URL.Hostname()) {
		if _, err := os.Stat(podToken); err == nil {
			file = podToken
		}
	}
	if file == "" {
		return nil
	}
	token, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	return nil
}

// maxReason is how much is shown of what a host states about a refusal.
const maxReason = 1024

func read(status int, body []byte) (*List, error) {
	if status != http.StatusOK {
		return nil, fmt.Errorf("%d %s", status, http.StatusText(status))
	}
	return decode(body)
}
