package serve

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/host/certificates"
	"github.com/thole-dev/thole/host/internal/await"
)

// secured is a server for callers with tokens: "all" may get everything, "metrics" that path alone,
// of "away" the API server cannot be asked, and others are not known.
type secured struct {
	*testing.T
	address string
	client  *http.Client
}

func authorize(_ context.Context, _, token, path string) (status int, why string) {
	switch {
	case token == "all", token == "metrics" && path == "/metrics":
		return http.StatusOK, ""
	case token == "metrics":
		return http.StatusForbidden, "the user may not get " + path
	case token == "away":
		return http.StatusServiceUnavailable, "the API server cannot be asked"
	}
	return http.StatusUnauthorized, "the token is not valid"
}

func startSecured(t *testing.T, change ...func(*Config)) *secured {
	t.Helper()
	certificate, authority, err := certificates.SelfSigned([]string{"127.0.0.1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	s := &secured{T: t, client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}}
	c := Config{
		Metrics: prometheus.NewRegistry(), Checks: func() []Check { return nil }, Plugins: func() any { return "plugins" }, Profiling: true,
		Views:    map[string]http.Handler{"/board": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "board at", r.URL.Path) })},
		Handlers: map[string]http.Handler{"/orders": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })},
		Secure:   &Secure{Certificate: func() (*tls.Certificate, error) { return certificate, nil }, Authorize: authorize},
	}
	for _, f := range change {
		f(&c)
	}
	s.address = strings.TrimPrefix(start(t, c), "http://")
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

// answered is a response with its body.
type answered struct {
	*http.Response
	text string
}

func (s *secured) get(path string, change func(*http.Request)) answered {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "https://"+s.address+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	response, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answered{response, string(text)}
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func password(text string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth("anybody", text) }
}

func TestOnlyProbesAreServedWithoutAToken(t *testing.T) {
	s := startSecured(t)
	protected := []string{"/metrics", "/plugins", "/board", "/board/", "/board/plugins/p", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/symbol"}
	for _, path := range []string{"/healthz", "/readyz", "/readyz?verbose"} {
		if r := s.get(path, nil); r.StatusCode != http.StatusOK || !r.Close {
			t.Errorf("%s: %s %s, keeps the connection: %v", path, r.Status, r.text, !r.Close)
		}
	}
	for name, test := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"nothing":               {nil, http.StatusUnauthorized},
		"a token":               {bearer("all"), http.StatusOK},
		"a token as a password": {password("all"), http.StatusOK},
		"another token":         {bearer("x"), http.StatusUnauthorized},
		"another password":      {password("x"), http.StatusUnauthorized},
		"an empty token":        {bearer(""), http.StatusUnauthorized},
		"an empty password":     {password(""), http.StatusUnauthorized},
		"two tokens":            {func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer all", "Bearer all"} }, http.StatusUnauthorized},
		"two passwords": {func(r *http.Request) {
			password("all")(r)
			r.Header.Add("Authorization", "Bearer all")
		}, http.StatusUnauthorized},
		"a token in the query":     {func(r *http.Request) { r.URL.RawQuery = "access_token=all" }, http.StatusUnauthorized},
		"a long token":             {bearer(strings.Repeat("x", 9000)), http.StatusUnauthorized},
		"no answer about it":       {bearer("away"), http.StatusServiceUnavailable},
		"a header of another kind": {func(r *http.Request) { r.Header.Set("Authorization", "Digest all") }, http.StatusUnauthorized},
	} {
		for _, path := range protected {
			r := s.get(path, test.change)
			if r.StatusCode != test.status {
				t.Errorf("%s with %s: %s %s, want %d", path, name, r.Status, r.text, test.status)
			}
			if refused := test.status != http.StatusOK; refused != r.Close {
				t.Errorf("%s with %s: closes the connection: %v", path, name, r.Close)
			}
			if asks := len(r.Header.Values("WWW-Authenticate")) > 0; asks != (test.status == http.StatusUnauthorized) {
				t.Errorf("%s with %s: asks for a password: %v", path, name, asks)
			}
		}
	}
	for path, want := range map[string]int{"/metrics": http.StatusOK, "/plugins": http.StatusForbidden, "/board": http.StatusForbidden, "/board/plugins/p": http.StatusForbidden, "/debug/pprof/": http.StatusForbidden, "/nothing": http.StatusNotFound} {
		if r := s.get(path, bearer("metrics")); r.StatusCode != want {
			t.Errorf("%s: %s %s, want %d", path, r.Status, r.text, want)
		}
	}
}

func TestPathsAreNotWrittenInAnotherWayToPassTheCheck(t *testing.T) {
	s := startSecured(t)
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, path := range []string{"//plugins", "/healthz/../plugins", "/./plugins", "/%70lugins", "/plugins/", "/healthz/%2e%2e/plugins", "/debug/pprof/../../plugins", "/readyz;/../plugins", "//board", "/%62oard", "/board/plugins/../../plugins"} {
		if r := s.get(path, nil); r.StatusCode == http.StatusOK || strings.Contains(r.text, `"plugins"`) || strings.Contains(r.text, "board at") {
			t.Errorf("%s: %s %s", path, r.Status, r.text)
		}
	}
	for _, method := range []string{http.MethodHead, http.MethodPost, "PROPFIND"} {
		r := s.get("/plugins", func(r *http.Request) { r.Method = method })
		if !slices.Contains([]int{http.StatusUnauthorized, http.StatusMethodNotAllowed}, r.StatusCode) {
			t.Errorf("%s: %s", method, r.Status)
		}
	}
}

func TestHandlersAreServedOverTLSToEverybody(t *testing.T) {
	s := startSecured(t)
	if r := s.get("/orders", func(r *http.Request) { r.Method = http.MethodPost }); r.StatusCode != http.StatusAccepted || r.Close {
		t.Errorf("%s %s, closes the connection: %v", r.Status, r.text, r.Close)
	}
}

// Who has no token keeps no connection: of 512 idle ones, kept by a request a minute, probes would find
// none free.
func TestNoAnswerWithoutATokenKeepsTheConnection(t *testing.T) {
	s := startSecured(t)
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for name, test := range map[string]struct {
		path   string
		change func(*http.Request)
	}{
		"no such path":         {"/nothing", nil},
		"no such profile":      {"/debug/nothing", nil},
		"another method":       {"/healthz", func(r *http.Request) { r.Method = http.MethodPost }},
		"a method of plugins":  {"/plugins", func(r *http.Request) { r.Method = http.MethodDelete }},
		"a redirect":           {"//plugins", nil},
		"a foreign host":       {"/healthz", func(r *http.Request) { r.Host = "evil.example" }},
		"a probe":              {"/readyz", nil},
		"all of the server":    {"/", func(r *http.Request) { r.Method, r.URL.Opaque = http.MethodOptions, "*" }},
		"a token that is none": {"/metrics", bearer("x")},
	} {
		if r := s.get(test.path, test.change); !r.Close {
			t.Errorf("%s: %s keeps the connection", name, r.Status)
		}
	}
	if r := s.get("/metrics", bearer("all")); r.Close {
		t.Error("with a token the connection ends")
	}
}

func TestClearTextAndOldTLSAreRefused(t *testing.T) {
	s := startSecured(t)
	response, err := http.Get("http://" + s.address + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("clear text: %s", response.Status)
	}
	old := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if c, err := tls.Dial("tcp", s.address, old); err == nil {
		c.Close()
		t.Error("TLS 1.1 is served")
	}
	http2 := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}
	c, err := tls.Dial("tcp", s.address, http2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("the protocol is %s", got)
	}
}

func TestLargeHeadersAreRefused(t *testing.T) {
	s := startSecured(t)
	if r := s.get("/healthz", func(r *http.Request) { r.Header.Set("X", strings.Repeat("x", 64<<10)) }); r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%s", r.Status)
	}
}

// Who opens connections and sends nothing, or little, keeps nobody out for longer than the time in which
// a request must be there.
func TestSlowClientsAreDisconnected(t *testing.T) {
	s := startSecured(t)
	trusting := s.client.Transport.(*http.Transport).TLSClientConfig.Clone()
	trusting.ServerName = "127.0.0.1"
	begun := time.Now()
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for i := range maxConnections {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		if i%2 == 0 {
			continue // not even a handshake
		}
		secure := tls.Client(c, trusting)
		secure.SetDeadline(begun.Add(30 * time.Second))
		if _, err := fmt.Fprint(secure, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "); err != nil && i < 10 {
			t.Fatal(err)
		}
	}
	await.Until(t, "a probe is answered", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.address+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := s.client.Do(r)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	for _, c := range open {
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(c).ReadByte(); err == nil {
			continue // an alert of TLS
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a connection without a request stays")
		}
	}
}

// However many connections one address opens, and opens again as they end, another one is served at once.
func TestOneAddressKeepsNobodyOut(t *testing.T) {
	s := startSecured(t, func(c *Config) { c.readTimeout = time.Minute }) // that for an answer, which bounds handshakes too
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for range 2 * maxConnections {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	elsewhere := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	s.client.Transport.(*http.Transport).DialContext = elsewhere.DialContext
	s.client.Timeout = 30 * time.Second // less than connections without a request have
	for range 3 {
		if r := s.get("/healthz", nil); r.StatusCode != http.StatusOK {
			t.Errorf("%s", r.Status)
		}
	}
	for _, c := range open {
		c.Close()
	}
	s.client.Transport.(*http.Transport).DialContext = nil
	await.Until(t, "the first address is served again", func() bool {
		response, err := s.client.Get("https://" + s.address + "/healthz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// Beyond the bound a connection waits until another one has ended.
func TestConnectionsAreBounded(t *testing.T) {
	address := strings.TrimPrefix(start(t, Config{Metrics: prometheus.NewRegistry(), connections: 2}), "http://")
	dial := func() net.Conn {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	first, second := dial(), dial()
	for _, c := range []net.Conn{first, second} { // each is served, and kept
		fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
			t.Fatal(line, err)
		}
	}
	third := dial()
	fmt.Fprint(third, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if err := third.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := third.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the third connection of two is served: %v", err)
	}
	first.Close()
	if err := third.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(third); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200") {
		t.Errorf("after the end of another one: %q, %v", text, err)
	}
}

func TestWithoutProfilingThereAreNoProfiles(t *testing.T) {
	url := start(t, Config{Metrics: prometheus.NewRegistry(), Logger: hclog.NewNullLogger()})
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
		if got := requestFor(t, url+path, "localhost"); got != http.StatusNotFound {
			t.Errorf("%s: %d", path, got)
		}
	}
	url = start(t, Config{Metrics: prometheus.NewRegistry(), Logger: hclog.NewNullLogger(), Profiling: true})
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=1"} {
		if got := requestFor(t, url+path, "localhost"); got != http.StatusOK {
			t.Errorf("%s: %d", path, got)
		}
	}
}
