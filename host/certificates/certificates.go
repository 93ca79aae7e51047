package certificates

import (
	"bytes"
	"crypto"
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
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// This file makes certificates, and decides when they are replaced. RATIONALE.md has the reasons.
//
// Each certificate has an authority of its own, whose key is forgotten as soon as it has signed it.
// Clients, such as the API server, trust the bundle: the authorities of all certificates that are valid. A rotation
// has two steps, which any replica may take:
//
//	renew    two thirds of the certificate's life are over: make the next one, and add its
//	         authority to the bundle, without those that have expired. All replicas go on to
//	         serve the certificate.
//	promote  the bundle has reached the clients: serve the next certificate.
//
// The authority before stays in the bundle until the next rotation: whoever still serves its
// certificate, for as long as that is valid, is trusted.

// pair is a certificate with its key.
type pair struct {
	certificate, key []byte // in PEM
	leaf             *x509.Certificate
	tls              tls.Certificate
}

// parsePair parses a certificate and its key.
func parsePair(certificate, key []byte) (*pair, error) {
	parsed, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err // which does not contain the key
	}
	return &pair{certificate: certificate, key: key, leaf: parsed.Leaf, tls: parsed}, nil
}

// backdate is by how much a certificate is older than it is, for clocks that are late.
const backdate = time.Hour

// made returns when the certificate was made.
func (p *pair) made() time.Time { return p.leaf.NotBefore.Add(backdate) }

// at returns the time when a part of its life is over.
func (p *pair) at(part float64) time.Time {
	return p.made().Add(time.Duration(part * float64(p.leaf.NotAfter.Sub(p.made()))))
}

// covers reports whether a certificate is for all of the names.
func (p *pair) covers(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return p.leaf.VerifyHostname(name) != nil })
}

// isUsable reports whether the certificate may be served.
func (p *pair) isUsable(w wanted, now time.Time) bool {
	return now.Before(p.leaf.NotAfter) && p.covers(w.names)
}

// isTrustedBy reports whether a bundle has the authority of the certificate, whatever the time is.
func (p *pair) isTrustedBy(bundle []byte) bool {
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(bundle)
	_, err := p.leaf.Verify(x509.VerifyOptions{Roots: authorities, CurrentTime: p.made()})
	return err == nil
}

// certificates is what the Secret has. It is not changed.
type certificates struct {
	now    *pair  // is served
	next   *pair  // nil, but between renew and promote
	bundle []byte // authorities in PEM, in the order in which they were made
}

// wanted is what certificates are to be like.
type wanted struct {
	names    []string // of the host, for clients; DNS names and IP addresses
	validity time.Duration
}

// Parts of the life of a certificate.
const (
	renewAt  = 2.0 / 3
	forcedAt = 0.9 // the next one is served although it is not known whether the bundle has arrived
	// settleFor is how long the next one waits at least: replicas of the API server may be late.
	settleFor = 1.0 / 30
	maxSettle = time.Minute
)

// advance returns the certificates that there are to be, c itself if it is those, and what was
// done. c may be nil. arrived reports whether the API server has its bundle.
func (c *certificates) advance(w wanted, now time.Time, arrived func(bundle []byte) bool) (_ *certificates, done string, err error) {
	switch {
	case c == nil || c.now == nil:
		return c.start(w, now, "made")
	case !now.Before(c.now.leaf.NotAfter):
		return c.start(w, now, "replaced: the one before has expired")
	case !c.now.covers(w.names):
		return c.start(w, now, "replaced: the names of the host have changed")
	case c.next != nil && !c.next.isUsable(w, now):
		return &certificates{now: c.now, bundle: c.bundle}, "the next one is not usable, and was dropped", nil
	case c.next == nil && !now.Before(c.now.at(renewAt)):
		next, authority, err := newPair(w, now)
		return &certificates{now: c.now, next: next, bundle: join(valid(c.bundle, now), authority)}, "the next one was made", err
	case c.next != nil && c.mayPromote(now, arrived):
		return &certificates{now: c.next, bundle: c.bundle}, "the next one is served", nil
	}
	return c, "", nil
}

// keep returns the certificates that there are to be if c was read and this replica serves others: c
// as a rule, and those if c was damaged or deleted. It is also those if c has a certificate that is
// of no use, or not the authority of what is served: somebody has put an older Secret in its place.
// Its authorities join the bundle, since a replica that has started meanwhile serves its certificate.
// c and served may be nil.
func (c *certificates) keep(served *certificates, w wanted, now time.Time) *certificates {
	switch {
	case c == nil:
		return served
	case served == nil || !served.now.isUsable(w, now) || c.now.isUsable(w, now) && served.now.isTrustedBy(c.bundle):
		return c
	}
	return &certificates{now: served.now, next: served.next, bundle: valid(join(c.bundle, served.bundle), now)}
}

func (c *certificates) mayPromote(now time.Time, arrived func([]byte) bool) bool {
	life := c.next.leaf.NotAfter.Sub(c.next.made())
	settled := !now.Before(c.next.made().Add(min(time.Duration(settleFor*float64(life)), maxSettle)))
	return !now.Before(c.now.at(forcedAt)) || settled && arrived(c.bundle)
}

// start returns certificates with one that is served at once, since that before is of no use.
func (c *certificates) start(w wanted, now time.Time, done string) (*certificates, string, error) {
	first, authority, err := newPair(w, now)
	if err != nil {
		return nil, "", err
	}
	var before []byte
	if c != nil {
		before = valid(c.bundle, now)
	}
	return &certificates{now: first, bundle: join(before, authority)}, done, nil
}

// SelfSigned returns a certificate for names that is valid for a while from now on, and its authority
// in PEM, which nobody knows yet.
func SelfSigned(names []string, validity time.Duration) (certificate *tls.Certificate, authority []byte, err error) {
	p, authority, err := newPair(wanted{names, validity}, time.Now())
	if err != nil {
		return nil, nil, err
	}
	return &p.tls, authority, nil
}

// newPair makes a certificate and its authority.
func newPair(w wanted, now time.Time) (_ *pair, authority []byte, err error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template := x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: fmt.Sprintf("thole-ca-%x", serial.Bytes()[:4])},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(w.validity),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	signed, err := x509.CreateCertificate(rand.Reader, &template, &template, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, nil, err
	}
	parent, err := x509.ParseCertificate(signed)
	if err != nil {
		return nil, nil, err
	}
	p, err := signLeaf(w, parent, authorityKey)
	return p, encodeCertificate(signed), err
}

// signLeaf makes a certificate that an authority signs.
func signLeaf(w wanted, authority *x509.Certificate, by crypto.Signer) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{
		SerialNumber: new(big.Int).Add(authority.SerialNumber, big.NewInt(1)), Subject: pkix.Name{CommonName: "thole"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range w.names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	signed, err := x509.CreateCertificate(rand.Reader, &template, authority, key.Public(), by)
	if err != nil {
		return nil, err
	}
	keyText, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, errors.New("encode the private key") // and nothing of it
	}
	return parsePair(encodeCertificate(signed), keyText)
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}

// maxBundle bounds the authorities: a rotation needs two.
const maxBundle = 8

// valid returns the authorities of a bundle that have not expired, each once. Of too many the first
// are left out.
func valid(bundle []byte, now time.Time) []byte {
	all, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return nil
	}
	all = slices.DeleteFunc(all, func(c *x509.Certificate) bool { return !now.Before(c.NotAfter) })
	var texts [][]byte
	for i, c := range all {
		if !slices.ContainsFunc(all[i+1:], c.Equal) {
			texts = append(texts, encodeCertificate(c.Raw))
		}
	}
	return join(texts[max(0, len(texts)-maxBundle):]...)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// Contains reports whether a bundle has all authorities of another one.
func Contains(bundle, wanted []byte) bool {
	all, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return false
	}
	each, err := cert.ParseCertsPEM(wanted)
	return err == nil && !slices.ContainsFunc(each, func(w *x509.Certificate) bool {
		return !slices.ContainsFunc(all, w.Equal)
	})
}
