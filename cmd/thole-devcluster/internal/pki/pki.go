// Package pki makes the keys and certificates of a development cluster and
// keeps them in one directory. A file that exists and is still valid is used
// again.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/atomicfile"
)

// Base names of the pairs. A pair is a certificate NAME.crt and its key
// NAME.key.
const (
	Authority         = "ca"
	APIServer         = "apiserver"
	Admin             = "admin"
	ControllerManager = "controller-manager"
)

// ServiceAccountKey is the file of the key that signs service account tokens.
// It is never renewed, because every token would become invalid.
const ServiceAccountKey = "service-account.key"

const (
	day = 24 * time.Hour

	authorityLife = 10 * 365 * day // fixed by cert.NewSelfSignedCACert
	leafLife      = 365 * day
	// renewBefore is how long before its end a certificate is renewed. That
	// happens only when a cluster starts; none is expected to run for longer.
	renewBefore = 30 * day
	// clockSlack is how long before its creation a certificate becomes valid,
	// in case the clock is set back a little.
	clockSlack = time.Hour
)

// leaves are the certificates that the authority signs. Members of
// system:masters may do everything, whatever the roles allow: so the
// controllers share one identity and need no roles of their own.
var leaves = map[string]cert.Config{
	APIServer: {
		CommonName: "kube-apiserver",
		AltNames: cert.AltNames{
			DNSNames: []string{
				"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			},
			IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
		},
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	},
	Admin: {
		CommonName:   "admin",
		Organization: []string{"system:masters"},
		Usages:       []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	},
	ControllerManager: {
		CommonName:   "system:kube-controller-manager",
		Organization: []string{"system:masters"},
		Usages:       []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	},
}

// CertFile returns the file name of a pair's certificate.
func CertFile(name string) string { return name + ".crt" }

// KeyFile returns the file name of a pair's key.
func KeyFile(name string) string { return name + ".key" }

// Ensure makes what is missing in dir or about to expire: the authority, the
// certificates that it signs and the service account key. When the authority is
// renewed, all of its certificates are.
func Ensure(dir string) error { return ensure(dir, time.Now()) }

func ensure(dir string, now time.Time) error {
	ca, err := ensurePair(dir, Authority, nil, now)
	if err != nil {
		return err
	}
	for name := range leaves {
		if _, err := ensurePair(dir, name, ca, now); err != nil {
			return err
		}
	}
	return ensureKey(filepath.Join(dir, ServiceAccountKey))
}

// pair is a certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// ensurePair returns the pair of that name in dir, which it makes unless there
// is a valid one. Without an issuer it is the authority.
func ensurePair(dir, name string, issuer *pair, now time.Time) (*pair, error) {
	certPath, keyPath := filepath.Join(dir, CertFile(name)), filepath.Join(dir, KeyFile(name))
	if p, ok := load(certPath, keyPath); ok && p.valid(issuer, now) {
		return p, nil
	}
	p, err := newPair(name, issuer, now)
	if err != nil {
		return nil, fmt.Errorf("make certificate %s: %w", name, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(p.key)
	if err != nil {
		return nil, fmt.Errorf("encode key %s: %w", name, err)
	}
	certPEM, err := cert.EncodeCertificates(p.cert)
	if err != nil {
		return nil, fmt.Errorf("encode certificate %s: %w", name, err)
	}
	// The key first: load refuses a certificate with the key of another.
	if err := atomicfile.Write(keyPath, keyPEM, 0o600); err != nil {
		return nil, err
	}
	return p, atomicfile.Write(certPath, certPEM, 0o644)
}

// load reads a pair. It fails if the key is not that of the certificate.
func load(certPath, keyPath string) (*pair, bool) {
	c, err := tls.LoadX509KeyPair(certPath, keyPath)
	if err != nil {
		return nil, false
	}
	key, ok := c.PrivateKey.(crypto.Signer)
	return &pair{c.Leaf, key}, ok
}

// valid reports whether the pair can be used until the next renewal and is
// signed by the issuer.
func (p *pair) valid(issuer *pair, now time.Time) bool {
	if now.Before(p.cert.NotBefore) || now.Add(renewBefore).After(p.cert.NotAfter) {
		return false
	}
	return issuer == nil || p.cert.CheckSignatureFrom(issuer.cert) == nil
}

func newPair(name string, issuer *pair, now time.Time) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	var c *x509.Certificate
	if issuer == nil {
		c, err = cert.NewSelfSignedCACert(cert.Config{CommonName: "thole-devcluster", NotBefore: now.Add(-clockSlack)}, key)
	} else {
		c, err = sign(leaves[name], key.Public(), issuer, now)
	}
	return &pair{c, key}, err
}

func sign(config cert.Config, key crypto.PublicKey, issuer *pair, now time.Time) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject:     pkix.Name{CommonName: config.CommonName, Organization: config.Organization},
		DNSNames:    config.AltNames.DNSNames,
		IPAddresses: config.AltNames.IPs,
		NotBefore:   now.Add(-clockSlack),
		NotAfter:    now.Add(leafLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: config.Usages,
	}, issuer.cert, key, issuer.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// ensureKey makes a key unless there is a file. A damaged file is not replaced,
// which would invalidate every token; the API server refuses to start with it.
// keyutil.LoadOrGenerateKeyFile would do the same without replacing the file in
// one step: a start that is killed would leave such a file.
func ensureKey(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	return atomicfile.Write(path, key, 0o600)
}
