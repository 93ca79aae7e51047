package webhooks

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/sanitize"
)

// Clients decides who may ask for reviews: whoever has a certificate that one of some authorities
// has signed. A nil one lets everybody ask.
//
// Conversions need no certificate: the API server presents none for them, whatever its
// --admission-control-config-file names (NewCRConverterFactory in
// k8s.io/apiextensions-apiserver).
type Clients struct {
	file    string
	names   []string // common names; nil for all
	trusted atomic.Pointer[trusted]
	known   atomic.Pointer[verified]
}

// trusted is the content of the file, which is read again when it has changed.
type trusted struct {
	text []byte
	pool *x509.CertPool
	read time.Time
}

// verified is the certificate that was accepted last: there are as many connections as replicas of
// the API server, and each of them asks often.
type verified struct {
	raw   []byte
	by    *trusted
	until time.Time
}

// NewClients returns nil if there is no file.
func NewClients(file string, names []string) (*Clients, error) {
	if file == "" {
		return nil, nil
	}
	c := &Clients{file: file, names: names}
	if _, err := c.authorities(); err != nil {
		return nil, err
	}
	return c, nil
}

// rereadAfter is how often the file is read.
const rereadAfter = 10 * time.Second

// authorities returns the certificates of the file. If that cannot be read any more they are those
// before.
func (c *Clients) authorities() (*trusted, error) {
	before := c.trusted.Load()
	if before != nil && time.Since(before.read) < rereadAfter {
		return before, nil
	}
	text, err := os.ReadFile(c.file)
	now := &trusted{text: text, pool: x509.NewCertPool(), read: time.Now()}
	switch {
	case err == nil && before != nil && bytes.Equal(text, before.text), before != nil && err != nil:
		now.text, now.pool = before.text, before.pool
	case err != nil:
		return nil, fmt.Errorf("read webhooks.clientCA: %w", err)
	case !now.pool.AppendCertsFromPEM(text) && before != nil:
		now.text, now.pool = before.text, before.pool
	case !hasCertificate(text):
		return nil, fmt.Errorf("read webhooks.clientCA: %s has no certificate in PEM", c.file)
	}
	c.trusted.Store(now)
	return now, nil
}

func hasCertificate(text []byte) bool {
	block, _ := pem.Decode(text)
	return block != nil
}

// auth makes the server ask for a certificate. It is checked for each request, which can be
// answered with the reason why it is refused.
func (c *Clients) auth() tls.ClientAuthType {
	if c == nil {
		return tls.NoClientCert
	}
	return tls.RequestClientCert
}

// check returns why a request is refused, nil if it is not.
func (c *Clients) check(r *http.Request, export string) error {
	if c == nil || export == contract.ExportConvert {
		return nil
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return errors.New("the client has presented no certificate: name one to the API server by --admission-control-config-file, which webhooks.clientCA of the host has signed")
	}
	by, err := c.authorities()
	if err != nil {
		return err
	}
	leaf, now := r.TLS.PeerCertificates[0], time.Now()
	if k := c.known.Load(); k != nil && k.by.pool == by.pool && now.Before(k.until) && bytes.Equal(k.raw, leaf.Raw) {
		return nil
	}
	between := x509.NewCertPool()
	for _, certificate := range r.TLS.PeerCertificates[1:] {
		between.AddCert(certificate)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{Roots: by.pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	switch name := leaf.Subject.CommonName; {
	case err != nil:
		return fmt.Errorf("webhooks.clientCA of the host does not accept the client's certificate: %s", sanitize.Line(sanitize.Truncate(err.Error(), maxShown)))
	case c.names != nil && !slices.Contains(c.names, name):
		return fmt.Errorf("the common name of the client's certificate, %s, is not one of webhooks.clientNames of the host", quoted(name))
	}
	c.known.Store(&verified{raw: leaf.Raw, by: by, until: validUntil(chains[0], now)})
	return nil
}

// validUntil returns until when a chain need not be verified again.
func validUntil(chain []*x509.Certificate, now time.Time) time.Time {
	until := now.Add(time.Minute)
	for _, certificate := range chain {
		if certificate.NotAfter.Before(until) {
			until = certificate.NotAfter
		}
	}
	return until
}
