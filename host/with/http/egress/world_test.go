package egress

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		os.Setenv(name, "http://127.0.0.1:9") // which no request may use
	}
	os.Unsetenv("NO_PROXY")
	await.Main(m, func() error { return goleak.Find() })
}

const most = 1 << 20

// everything is a manifest's wish for all hosts and methods.
var everything = []contract.Host{{Host: "*", Methods: []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}}}

// client is a client whose log and calls are kept.
type client struct {
	*Client
	log   *logBuffer
	codes []string              // host and code of each call
	ended []events.RequestEnded // of the calls of get

	mu sync.Mutex
}

type logBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *logBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func newClient(t *testing.T, config Config) *client {
	t.Helper()
	if problems := config.Entries.Problems(nil); len(problems) > 0 {
		t.Fatal(problems)
	}
	c := &client{log: &logBuffer{}}
	config.Plugin = "p"
	config.Logger = hclog.New(&hclog.LoggerOptions{Output: c.log, Level: hclog.Trace})
	config.Observe = func(host, code string, _ time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.codes = append(c.codes, host+" "+code)
	}
	c.Client = New(config)
	t.Cleanup(c.Close)
	return c
}

func (c *client) get(t *testing.T, url string) (*contract.Reply, error) {
	t.Helper()
	return c.Do(t.Context(), everything, &contract.Call{URL: url}, most, nil, func(e events.RequestEnded) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended = append(c.ended, e)
	})
}

func (c *client) lastCode() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.codes[len(c.codes)-1]
}

// mustGet returns the answer to a GET.
func (c *client) mustGet(t *testing.T, url string) *contract.Reply {
	t.Helper()
	reply, err := c.get(t, url)
	if err != nil || reply.Error != nil {
		t.Fatalf("GET %s: %+v, %v", url, reply, err)
	}
	return reply
}

func wantDenied(t *testing.T, reply *contract.Reply, err error, text string) {
	t.Helper()
	if _, ok := errors.AsType[*DeniedError](err); !ok || reply != nil || !strings.Contains(err.Error(), text) {
		t.Fatalf("%+v, %v, want it denied with %q", reply, err, text)
	}
}

func wantInvalid(t *testing.T, reply *contract.Reply, err error, text string) {
	t.Helper()
	if _, ok := errors.AsType[*InvalidError](err); !ok || reply != nil || !strings.Contains(err.Error(), text) {
		t.Fatalf("%+v, %v, want it invalid with %q", reply, err, text)
	}
}

func wantFailure(t *testing.T, reply *contract.Reply, err error, reason string) {
	t.Helper()
	if err != nil || reply == nil {
		t.Fatalf("%+v, %v, want %s", reply, err, reason)
	}
	if reply.Error == nil || reply.Error.Reason != reason || reply.Status != 0 || len(reply.Body)+len(reply.Headers) > 0 {
		t.Fatalf("%+v (error %+v), %v, want %s", reply, reply.Error, err, reason)
	}
}

// hostOf returns host and port of a server.
func hostOf(server *httptest.Server) string { return server.Listener.Addr().String() }

// local allows GET and POST to a server on loopback.
func local(server *httptest.Server) Entry {
	return Entry{Host: hostOf(server), Scheme: "http", Methods: []string{"GET", "POST", "PUT", "HEAD"}, Addresses: []string{"loopback"}}
}

func serve(t *testing.T, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server
}

// authority makes certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.certificate, _ = x509.ParseCertificate(der)
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

// issue returns a certificate and its key as PEM.
func (a *authority) issue(t *testing.T, change func(*x509.Certificate)) (certificate, key string) {
	t.Helper()
	private, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return a.issueFor(t, private, change)
}

// issueRSA returns a certificate and a key that has more lines.
func (a *authority) issueRSA(t testing.TB) (certificate, key string) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return a.issueFor(t, private, nil)
}

func (a *authority) issueFor(t testing.TB, private crypto.Signer, change func(*x509.Certificate)) (certificate, key string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"api.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, _ := x509.MarshalPKCS8PrivateKey(private)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// serveTLS starts a server with a certificate of the authority.
func (a *authority) serve(t *testing.T, change func(*x509.Certificate), configure func(*tls.Config), handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	certificate, key := a.issue(t, change)
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handle)
	server.Config.ErrorLog = hclog.NewNullLogger().StandardLogger(nil)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	if configure != nil {
		configure(server.TLS)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// dns is a server of names. A name with several lists of records has the next one at each
// query, and keeps the last.
type dns struct {
	mu    sync.Mutex
	names map[string][][]string // name to records: addresses, or the name that it is an alias of
	asked int
}

// resolver returns a resolver that asks d.
func (d *dns) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go d.serve(server)
		return client, nil
	}}
}

// serve answers queries as by TCP, with the length before each message.
func (d *dns) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(query) != nil || len(m.Questions) != 1 {
			return
		}
		answer, _ := d.answer(m).Pack()
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

func (d *dns) answer(query dnsmessage.Message) *dnsmessage.Message {
	q := query.Questions[0]
	m := &dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true, RecursionAvailable: true}, Questions: query.Questions}
	name := strings.TrimSuffix(q.Name.String(), ".")
	d.mu.Lock()
	defer d.mu.Unlock()
	lists, known := d.names[name]
	if !known {
		m.RCode = dnsmessage.RCodeNameError
		return m
	}
	records := lists[0]
	if q.Type == dnsmessage.TypeA {
		if d.asked++; len(lists) > 1 {
			d.names[name] = lists[1:]
		}
	}
	for _, record := range records {
		d.add(m, q.Name, q.Type, record)
	}
	return m
}

func (d *dns) add(m *dnsmessage.Message, name dnsmessage.Name, kind dnsmessage.Type, record string) {
	header := dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: 0}
	addr, err := netip.ParseAddr(record)
	switch {
	case err != nil:
		alias := dnsmessage.MustNewName(record + ".")
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.CNAMEResource{CNAME: alias}})
		for _, of := range d.names[record][0] {
			d.add(m, alias, kind, of)
		}
	case addr.Is4() && kind == dnsmessage.TypeA:
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
	case addr.Is6() && kind == dnsmessage.TypeAAAA:
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
	}
}
