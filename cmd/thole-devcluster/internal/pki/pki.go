// Package pki makes the keys and certificates of a development cluster and
// keeps them in one directory. What is there and still good is used again.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/atomicfile"
)

// Base names of the pairs; each is a certificate NAME.crt and a key NAME.key.
const (
	Authority         = "ca"
	APIServer         = "apiserver"
	Admin             = "admin"
	ControllerManager = "controller-manager"
)

// ServiceAccountKey signs service account tokens. It is never renewed, for
// with it every token would end.
const ServiceAccountKey = "service-account.key"

const (
	day = 24 * time.Hour

	authorityLife = 10 * 365 * day
	leafLife      = 365 * day
	// renewBefore is how long before its end a certificate is replaced, at a
	// start; no cluster is expected to run longer than that.
	renewBefore = 30 * day
	// clockSlack is how far a certificate reaches back, for clocks that are set
	// back a little.
	clockSlack = time.Hour
)

// CertFile is the file name of a pair's certificate.
func CertFile(name string) string { return name + ".crt" }

// KeyFile is the file name of a pair's key.
func KeyFile(name string) string { return name + ".key" }

// Ensure fills dir: the authority, what it signed, and the service account
// key. A new authority makes everything it signed new.
func Ensure(dir string) error { return ensure(dir, time.Now()) }

func ensure(dir string, now time.Time) error {
	ca, err := ensurePair(dir, Authority, authorityTemplate(now), nil, now)
	if err != nil {
		return err
	}
	for name, template := range leafTemplates(now) {
		if _, err := ensurePair(dir, name, template, ca, now); err != nil {
			return err
		}
	}
	return ensureKey(filepath.Join(dir, ServiceAccountKey))
}

func authorityTemplate(now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: "thole-devcluster"},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
}

func leafTemplates(now time.Time) map[string]*x509.Certificate {
	// Members of system:masters may do everything, whatever the roles say: the
	// controllers share one identity and need no roles of their own.
	masters := []string{"system:masters"}
	return map[string]*x509.Certificate{
		APIServer: server(now, "kube-apiserver",
			[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			[]net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}),
		Admin:             client(now, pkix.Name{CommonName: "admin", Organization: masters}),
		ControllerManager: client(now, pkix.Name{CommonName: "system:kube-controller-manager", Organization: masters}),
	}
}

func server(now time.Time, name string, dns []string, ips []net.IP) *x509.Certificate {
	t := leaf(now, pkix.Name{CommonName: name}, x509.ExtKeyUsageServerAuth)
	t.DNSNames, t.IPAddresses = dns, ips
	return t
}

func client(now time.Time, subject pkix.Name) *x509.Certificate {
	return leaf(now, subject, x509.ExtKeyUsageClientAuth)
}

func leaf(now time.Time, subject pkix.Name, usage x509.ExtKeyUsage) *x509.Certificate {
	return &x509.Certificate{
		Subject:     subject,
		NotBefore:   now.Add(-clockSlack),
		NotAfter:    now.Add(leafLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
}

// pair is a certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// ensurePair returns the pair in dir, made new unless the one there is good.
// Without an issuer it signs itself.
func ensurePair(dir, name string, template *x509.Certificate, issuer *pair, now time.Time) (*pair, error) {
	certPath, keyPath := filepath.Join(dir, CertFile(name)), filepath.Join(dir, KeyFile(name))
	if p, ok := load(certPath, keyPath); ok && p.good(issuer, now) {
		return p, nil
	}
	p, err := issue(template, issuer)
	if err != nil {
		return nil, fmt.Errorf("make certificate %s: %w", name, err)
	}
	// The key first: a certificate without its key is not taken for a pair.
	if err := writeKey(keyPath, p.key); err != nil {
		return nil, err
	}
	if err := writePEM(certPath, "CERTIFICATE", p.cert.Raw, 0o644); err != nil {
		return nil, err
	}
	return p, nil
}

func load(certPath, keyPath string) (*pair, bool) {
	c, err := tls.LoadX509KeyPair(certPath, keyPath)
	if err != nil {
		return nil, false
	}
	key, ok := c.PrivateKey.(*ecdsa.PrivateKey)
	return &pair{cert: c.Leaf, key: key}, ok
}

func (p *pair) good(issuer *pair, now time.Time) bool {
	if now.Before(p.cert.NotBefore) || now.Add(renewBefore).After(p.cert.NotAfter) {
		return false
	}
	return issuer == nil || p.cert.CheckSignatureFrom(issuer.cert) == nil
}

func issue(template *x509.Certificate, issuer *pair) (*pair, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	if issuer == nil {
		issuer = &pair{cert: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.cert, key.Public(), issuer.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &pair{cert: cert, key: key}, err
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// ensureKey makes a key unless there is a file. One that cannot be read is
// left alone, and refused by who uses it: replacing it ends every token.
func ensureKey(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	key, err := newKey()
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	return writeKey(path, key)
}

// writeKey writes the one form that the API server also accepts where it wants
// the public half.
func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	return writePEM(path, "EC PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	return atomicfile.Write(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
