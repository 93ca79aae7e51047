package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
)

func header(reply *contract.Reply, name string) string {
	for _, h := range reply.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

func TestRequestReachesTheServerAsThePluginWroteIt(t *testing.T) {
	var got *http.Request
	var body []byte
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header()["X-Several"] = []string{"1", "2"}
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("Proxy-Authenticate", "x")
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte("a\x00b"))
	})
	c := newClient(t, Config{Entries: Entries{local(server)}})
	reply, err := c.Do(t.Context(), everything, &contract.Call{
		Method: "POST", URL: server.URL + "/a%2Fb/../c?q=%20&r#fragment", Body: []byte("x\x00y"),
		Headers: []contract.Header{{Name: "x-one", Value: "1"}, {Name: "X-One", Value: "2"}, {Name: "Authorization", Value: "mine"}},
	}, most, nil, nil)
	if err != nil || reply.Error != nil || reply.Status != 201 || string(reply.Body) != "a\x00b" || reply.URL != server.URL+"/a%2Fb/../c?q=%20&r" {
		t.Fatalf("%+v, %v", reply, err)
	}
	if got.Method != http.MethodPost || got.RequestURI != "/a%2Fb/../c?q=%20&r" || got.Host != hostOf(server) || string(body) != "x\x00y" || got.ContentLength != 3 {
		t.Errorf("%s %s of %s with %q (%d)", got.Method, got.RequestURI, got.Host, body, got.ContentLength)
	}
	if !slices.Equal(got.Header["X-One"], []string{"1", "2"}) || got.UserAgent() != "thole/p" || got.Header.Get("Authorization") != "mine" {
		t.Errorf("header %v", got.Header)
	}
	if !slices.IsSortedFunc(reply.Headers, func(a, b contract.Header) int { return strings.Compare(a.Name, b.Name) }) ||
		header(reply, "Keep-Alive")+header(reply, "Proxy-Authenticate") != "" || header(reply, "X-Several") != "1" {
		t.Errorf("header of the answer: %v", reply.Headers)
	}
	if c.lastCode() != hostOf(server)+" 201" {
		t.Error(c.codes)
	}
	if log := c.log.text(); !strings.Contains(log, "/a%2Fb/../c") || strings.Contains(log, "%20") || strings.Contains(log, "mine") {
		t.Error(log)
	}
}

func TestRequestNeedsManifestAndPolicy(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	host := hostOf(server)
	for _, test := range []struct {
		name     string
		declared []contract.Host
		entries  Entries
		method   string
		dryRun   bool
		want     string // "": it is sent
	}{
		{name: "both", declared: []contract.Host{{Host: host}}, entries: Entries{local(server)}},
		{name: "manifest has all", declared: []contract.Host{{Host: "*"}}, entries: Entries{local(server)}},
		{
			name: "nothing declared", entries: Entries{local(server)},
			want: "the manifest of the controller does not declare requests GET to " + host + "; it has to have http: [{host: " + host + ", methods: [GET]}]",
		},
		{name: "other port declared", declared: []contract.Host{{Host: "127.0.0.1"}}, entries: Entries{local(server)}, want: "manifest"},
		{name: "other host declared", declared: []contract.Host{{Host: "*.test"}}, entries: Entries{local(server)}, want: "manifest"},
		{name: "method not declared", declared: []contract.Host{{Host: host}}, method: "POST", entries: Entries{local(server)}, want: "manifest"},
		{name: "HEAD is not GET", declared: []contract.Host{{Host: host}}, method: "HEAD", entries: Entries{local(server)}, want: "manifest"},
		{
			name: "no entry", declared: everything,
			want: "the policy does not allow requests GET to http://" + host + "; p.yaml would allow them by http: {hosts: [{host: '" + host + "', scheme: http, methods: [GET]}]}",
		},
		{name: "other scheme", declared: everything, entries: Entries{{Host: host, Addresses: []string{"loopback"}}}, want: "scheme: http"},
		{name: "other port", declared: everything, entries: Entries{{Host: "127.0.0.1", Scheme: "http", Addresses: []string{"loopback"}}}, want: "policy"},
		{name: "every host at the port of the scheme", declared: everything, entries: Entries{{Host: "*", Scheme: "http", Addresses: []string{"loopback"}}}, want: "policy"},
		{name: "method without entry", declared: everything, method: "DELETE", entries: Entries{local(server)}, want: "methods: [DELETE]"},
		{name: "default is GET", declared: everything, method: "POST", entries: Entries{{Host: host, Scheme: "http", Addresses: []string{"loopback"}}}, want: "methods: [POST]"},
		{name: "dry run", declared: everything, method: "POST", dryRun: true, entries: Entries{local(server)}, want: "the policy has dryRun"},
		{name: "dry run of GET", declared: everything, dryRun: true, entries: Entries{local(server)}},
		{name: "dry run of HEAD", declared: everything, method: "HEAD", dryRun: true, entries: Entries{local(server)}},
		{name: "address", declared: everything, entries: Entries{{Host: host, Scheme: "http"}}, want: "the address of " + host + " is not public, or not one that the policy's entry for " + host},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, Config{Entries: test.entries, DryRun: test.dryRun})
			reply, err := c.Do(t.Context(), test.declared, &contract.Call{Method: test.method, URL: server.URL}, most, nil, nil)
			if test.want != "" {
				wantDenied(t, reply, err, test.want)
				return
			}
			if err != nil || reply.Status != 200 {
				t.Fatalf("%+v, %v", reply, err)
			}
		})
	}
}

// A call is in metrics, in the log and in an event.
func TestEachCallIsObserved(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/gone", http.StatusFound)
			return
		}
		w.WriteHeader(http.StatusGone)
	})
	c := newClient(t, Config{Entries: Entries{local(server)}})
	if reply, err := c.get(t, server.URL+"/moved?key=hidden"); err != nil || reply.Status != http.StatusGone {
		t.Fatalf("%+v, %v", reply, err)
	}
	if c.lastCode() != hostOf(server)+" 410" {
		t.Error(c.codes)
	}
	if log := c.log.text(); !strings.Contains(log, "url="+server.URL+"/moved ") || !strings.Contains(log, "code=410 redirects=1") || strings.Contains(log, "hidden") {
		t.Error(log)
	}
	e := c.ended[0]
	if e.Since.IsZero() || e.Duration <= 0 {
		t.Errorf("since %s for %s", e.Since, e.Duration)
	}
	e.Since, e.Duration = time.Time{}, 0
	if want := (events.RequestEnded{Method: "GET", Host: hostOf(server), Status: 410, Redirects: 1, Code: "410"}); e != want {
		t.Errorf("the event is %+v, want %+v", e, want)
	}
	server.Close()
	if _, err := c.get(t, server.URL); err != nil {
		t.Fatal(err)
	}
	if e := c.ended[1]; e.Status != 0 || e.Code != "unreachable" || e.Method != http.MethodGet {
		t.Errorf("the event of a request without an answer is %+v", e)
	}
}

// The log has what the plugin must not know, and what to write.
func TestDeniedAddressIsInTheLog(t *testing.T) {
	c := newClient(t, Config{Entries: everywhere(), Resolver: testNames().resolver()})
	reply, err := c.get(t, "http://metadata.test/")
	wantDenied(t, reply, err, "the address of * is not public")
	if log := c.log.text(); !strings.Contains(log, "address=169.254.169.254") || !strings.Contains(log, "class=metadata") || !strings.Contains(log, "addresses: [169.254.169.254/32]") {
		t.Error(log)
	}
	if c.lastCode() != "* denied" {
		t.Error(c.codes)
	}
	for url, want := range map[string]string{"http://169.254.169.254/": "* denied", "http://a.test:81/": " denied"} {
		reply, err := c.get(t, url)
		wantDenied(t, reply, err, "")
		if c.lastCode() != want {
			t.Errorf("%s: %q", url, c.lastCode())
		}
	}
}

// What allows all addresses, or all of a network, does not allow those of metadata services.
func TestMetadataNeedsItsOwnEntry(t *testing.T) {
	wide := Entry{Host: "*", Addresses: []string{"0.0.0.0/0", "::/0", "link-local", "private", "169.254.169.254/31", "fd00:ec2::254/127"}}.addresses()
	for _, addr := range metadata {
		if class, ok := wide.allow(addr); ok || class != classMetadata {
			t.Errorf("%s is allowed as %s", addr, class)
		}
		if _, ok := (Entry{Addresses: []string{single(addr).String()}}).addresses().allow(addr); !ok {
			t.Errorf("%s is not allowed by itself", addr)
		}
	}
	for _, text := range []string{"169.254.169.254", "169.254.169.252", "169.254.170.2", "169.254.170.23", "169.254.0.23", "169.254.10.10", "169.254.42.42", "fe80::a9fe:a9fe", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42", "fd00:c1::a9fe:a9fe", "fd00:a9fe:a9fe::1", "fd00:100::100:200", "100.100.100.200", "168.63.129.16", "192.0.0.192"} {
		if _, ok := wide.allow(netip.MustParseAddr(text)); ok {
			t.Errorf("%s is allowed", text)
		}
	}
	mapped := netip.MustParseAddr("64:ff9b::a9fe:a9fe")
	if _, ok := wide.allow(mapped); ok {
		t.Error("NAT64 to metadata is allowed")
	}
}

func TestEntryAboutTheFewestHostsCounts(t *testing.T) {
	rules := rulesOf(Entries{
		{Host: "*", Header: "0"},
		{Host: "*.test", Header: "1"},
		{Host: "a.b.test", Methods: []string{"POST"}, Header: "2"},
		{Host: "*.b.test", Header: "3"},
		{Host: "a.b.test", Header: "4"},
		{Host: "a.b.test", Header: "5"},
	})
	for of, want := range map[string]string{"GET a.b.test": "4", "POST a.b.test": "2", "GET c.b.test": "3", "GET b.test": "1", "GET test": "0", "GET 192.0.2.1": "0"} {
		method, host, _ := strings.Cut(of, " ")
		_, to, err := parseURL("https://" + host)
		if r := ruleFor(rules, method, to); err != nil || r == nil || r.Header != want {
			t.Errorf("%s: %+v, want %s", of, r, want)
		}
	}
	_, to, _ := parseURL("https://c.b.test")
	if r := ruleFor(rules, "POST", to); r != nil {
		t.Errorf("%+v", r)
	}
}

func TestHeaderThatIsNotThePluginsIsRefused(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	c := newClient(t, Config{Entries: Entries{local(server)}})
	for _, name := range []string{
		"Host", "host", "Connection", "Proxy-Authorization", "Proxy-Connection", "proxy-x", "Transfer-Encoding", "Content-Length", "Upgrade",
		"TE", "Trailer", "Keep-Alive", "Expect", "Accept-Encoding", "HTTP2-Settings",
	} {
		reply, err := c.Do(t.Context(), everything, &contract.Call{URL: server.URL, Headers: []contract.Header{{Name: name, Value: "x"}}}, most, nil, nil)
		wantInvalid(t, reply, err, "is set by the host")
	}
	for _, line := range []contract.Header{{Name: "a b", Value: "x"}, {Name: "", Value: "x"}, {Name: "a:", Value: "x"}, {Name: "a", Value: "x\r\nHost: y"}, {Name: "a", Value: "x\x00"}} {
		reply, err := c.Do(t.Context(), everything, &contract.Call{URL: server.URL, Headers: []contract.Header{line}}, most, nil, nil)
		wantInvalid(t, reply, err, "a header of the request is not valid")
	}
	for _, method := range []string{"CONNECT", "TRACE", "get", "GET /x HTTP/1.1\r\n", "", strings.Repeat("A", 99)} {
		reply, err := c.Do(t.Context(), everything, &contract.Call{Method: method + " ", URL: server.URL}, most, nil, nil)
		wantInvalid(t, reply, err, "the method of the request")
		if method != "" {
			reply, err = c.Do(t.Context(), everything, &contract.Call{Method: method, URL: server.URL}, most, nil, nil)
			wantInvalid(t, reply, err, "the method of the request")
		}
	}
	if c.lastCode() != " invalid" {
		t.Error(c.codes)
	}
}

func TestAnswerIsBounded(t *testing.T) {
	endless := func(w io.Writer) {
		for chunk := bytes.Repeat([]byte("x"), 1<<16); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	for _, test := range []struct {
		name   string
		handle http.HandlerFunc
		want   string
	}{
		{"as large as allowed", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1000)) }, ""},
		{"one byte more", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1001)) }, "too large"},
		{"endless", func(w http.ResponseWriter, _ *http.Request) { endless(w) }, "too large"},
		{"gzip", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "gzip" {
				w.WriteHeader(http.StatusBadRequest)
			}
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			z.Write(make([]byte, 1000))
			z.Close()
		}, ""},
		{"gzip bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			z.Write(make([]byte, 100<<20))
			z.Close()
		}, "too large"},
		{"gzip that is none", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write([]byte("not gzip, but long enough for a header of it"))
		}, contract.BadAnswer},
		{"large header", func(w http.ResponseWriter, _ *http.Request) {
			for i := range 5 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", contract.MaxHeader))
			}
		}, contract.BadAnswer},
		{"less than it states", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("x"))
		}, contract.Unreachable},
		{"not HTTP", hijacked("SSH-2.0-OpenSSH_9.6\r\nsecret-of-the-server\r\n\r\n"), contract.BadAnswer},
		{"broken chunks", hijacked("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), contract.BadAnswer},
		{"two lengths", hijacked("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), contract.BadAnswer},
		{"other protocol", hijacked("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), contract.BadAnswer},
		{"closed", hijacked(""), contract.Unreachable},
		{"interim answers without end", func(w http.ResponseWriter, _ *http.Request) {
			for i := range 10_000 {
				w.Header().Set("Link", strings.Repeat(fmt.Sprint(i), 100))
				w.WriteHeader(http.StatusEarlyHints)
			}
		}, contract.BadAnswer},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := serve(t, test.handle)
			c := newClient(t, Config{Entries: Entries{local(server)}})
			reply, err := c.Do(t.Context(), everything, &contract.Call{URL: server.URL}, 1000, nil, nil)
			switch test.want {
			case "":
				if err != nil || reply.Status != 200 || len(reply.Body) != 1000 {
					t.Errorf("%+v, %v", reply, err)
				}
			case "too large":
				if !errors.Is(err, ErrTooLarge) || reply != nil {
					t.Errorf("%+v, %v", reply, err)
				}
			default:
				wantFailure(t, reply, err, test.want)
				if strings.Contains(reply.Error.Message, "secret-of-the-server") || strings.Contains(reply.Error.Message, "127.0.0.1") {
					t.Error(reply.Error.Message)
				}
			}
		})
	}
}

// A request that was handled must not fail because of the header of its answer.
func TestHeaderOfAnAnswerIsCutToTheLimits(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("A", strings.Repeat("x", contract.MaxHeader+1))
		w.Header().Set("B", strings.Repeat("x", contract.MaxHeader))
		w.Header().Set("C", strings.Repeat("\xffx", contract.MaxHeader/2)) // longer as UTF-8
		for i := range contract.MaxHeaders + 1 {
			w.Header().Add("X", fmt.Sprint(i))
		}
	})
	c := newClient(t, Config{Entries: Entries{local(server)}})
	reply, err := c.Do(t.Context(), everything, &contract.Call{Method: "PUT", URL: server.URL}, most, nil, nil)
	if err != nil || reply.Status != 200 || len(reply.Headers) != contract.MaxHeaders {
		t.Fatalf("%+v, %v", reply, err)
	}
	if first, last := reply.Headers[0], reply.Headers[contract.MaxHeaders-1]; first.Name != "B" || reply.Headers[1].Name == "C" || last.Name != "X" {
		t.Errorf("from %s to %s", first.Name, last.Name)
	}
}

// hijacked returns a handler that sends a text as it is.
func hijacked(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		io.WriteString(conn, text)
		if strings.Contains(text, " 101 ") {
			io.Copy(io.Discard, conn) // until the client ends
		}
	}
}

func TestServerThatIsSlowEndsInATimeout(t *testing.T) {
	handlers := map[string]http.HandlerFunc{
		"header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"body": func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("begin"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"byte by byte": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				w.Write([]byte("x"))
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		},
	}
	for name, handle := range handlers {
		t.Run(name, func(t *testing.T) {
			server := serve(t, handle)
			c := newClient(t, Config{Entries: Entries{local(server)}})
			reply, err := c.Do(t.Context(), everything, &contract.Call{URL: server.URL, Timeout: 50}, most, nil, nil)
			wantFailure(t, reply, err, contract.Timeout)

			if c.lastCode() != hostOf(server)+" timeout" {
				t.Error(c.codes)
			}
		})
	}
}

// A request ends before its run does, which has time to handle that.
func TestTimeoutLeavesTimeToTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for _, test := range []struct {
			inRun bool
			ms    int64
			want  time.Duration
		}{
			{true, 0, 9 * time.Second},
			{true, 50, 50 * time.Millisecond},
			{true, 9500, 9 * time.Second},
			{true, 1 << 62, 9 * time.Second},
			{true, -1, 9 * time.Second},
			{false, 0, 30 * time.Second},
			{false, 60_000, 30 * time.Second},
			{false, 20, 20 * time.Millisecond},
		} {
			ctx := t.Context()
			if test.inRun {
				ctx = run
			}
			ctx, cancel := withTimeout(ctx, test.ms)
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != test.want {
				t.Errorf("%d ms: %s, want %s", test.ms, time.Until(deadline), test.want)
			}
			cancel()
		}
	})
}

func TestEndOfTheRunIsItsError(t *testing.T) {
	began := make(chan struct{})
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	})
	c := newClient(t, Config{Entries: Entries{local(server)}})
	ended := errors.New("the run has ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-began
		cancel(ended)
	}()
	if reply, err := c.Do(ctx, everything, &contract.Call{URL: server.URL}, most, nil, nil); !errors.Is(err, ended) || reply != nil {
		t.Errorf("%+v, %v", reply, err)
	}
	if c.lastCode() != hostOf(server)+" canceled" {
		t.Error(c.codes)
	}
}

func TestWhatCannotBeReached(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	closed.Close()
	c := newClient(t, Config{
		Entries:  Entries{{Host: address, Scheme: "http", Addresses: []string{"loopback"}}, {Host: "missing.test", Scheme: "http"}},
		Resolver: testNames().resolver(),
	})
	reply, err := c.get(t, "http://"+address)
	wantFailure(t, reply, err, contract.Unreachable)
	if reply.Error.Message != "the connection failed: connection refused" {
		t.Error(reply.Error.Message)
	}
	reply, err = c.get(t, "http://missing.test")
	wantFailure(t, reply, err, contract.Unreachable)
	if reply.Error.Message != "the name of the host does not resolve" {
		t.Error(reply.Error.Message)
	}
}

// The handshake of a connection ends with the call, not when the transport gives up.
func TestNothingGoesOnAfterTheCall(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // speaks no TLS
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	began, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := listener.Accept()
		if err == nil {
			conn.Read(make([]byte, 1))
			close(began)
			io.Copy(io.Discard, conn)
			conn.Close()
		}
	}()
	c := newClient(t, Config{Entries: Entries{{Host: listener.Addr().String(), Addresses: []string{"loopback"}}}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	if reply, err := c.Do(ctx, everything, &contract.Call{URL: "https://" + listener.Addr().String()}, most, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", reply, err)
	}
	select {
	case <-ended:
	case <-time.After(dialTimeout / 2):
		t.Error("the handshake goes on")
	}
}

func TestRequestsAtOnceAreLimited(t *testing.T) {
	var now, highest atomic.Int32
	release := make(chan struct{})
	server := serve(t, func(http.ResponseWriter, *http.Request) {
		highest.Store(max(highest.Load(), now.Add(1)))
		<-release
		now.Add(-1)
	})
	c := newClient(t, Config{Entries: Entries{local(server)}, AtOnce: 2, PerSecond: 1000})
	results := make(chan *contract.Reply, 5)
	for range 2 {
		go func() {
			reply, _ := c.get(t, server.URL)
			results <- reply
		}()
	}
	await.Until(t, "two requests at the server", func() bool { return now.Load() == 2 })
	reply, err := c.Do(t.Context(), everything, &contract.Call{URL: server.URL, Timeout: 30}, most, nil, nil)
	wantFailure(t, reply, err, contract.Limited)
	for range 3 { // these wait
		go func() {
			reply, _ := c.get(t, server.URL)
			results <- reply
		}()
	}
	close(release)
	for range 5 {
		if reply := <-results; reply == nil || reply.Status != 200 {
			t.Errorf("%+v", reply)
		}
	}
	if highest.Load() > 2 {
		t.Errorf("%d at once", highest.Load())
	}
}

func TestRequestsPerSecondAreLimited(t *testing.T) {
	var n atomic.Int32
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, "/redirect", http.StatusFound)
		}
	})
	c := newClient(t, Config{Entries: Entries{local(server)}, AtOnce: 3, PerSecond: 0.001})
	for range 3 {
		c.mustGet(t, server.URL)
	}
	reply, err := c.Do(t.Context(), everything, &contract.Call{URL: server.URL}, most, nil, nil)
	wantFailure(t, reply, err, contract.Limited)
	if n.Load() != 3 {
		t.Errorf("%d requests", n.Load())
	}
	c = newClient(t, Config{Entries: Entries{local(server)}, AtOnce: 3, PerSecond: 0.001})
	reply, err = c.Do(t.Context(), everything, &contract.Call{URL: server.URL + "/redirect"}, most, nil, nil)
	wantFailure(t, reply, err, contract.Limited) // each redirect is a request
}

// Who may replace a plugin gains no requests by it.
func TestRevisionsShareTheLimits(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fails" {
			hijacked("")(w, r)
		}
	})
	config := Config{Entries: Entries{local(server)}, AtOnce: 5, PerSecond: 0.1, State: NewState()}
	before := newClient(t, config)
	for range 5 {
		reply, err := before.Do(t.Context(), everything, &contract.Call{Method: "POST", URL: server.URL + "/fails"}, most, nil, nil)
		wantFailure(t, reply, err, contract.Unreachable)
	}
	next := newClient(t, config)
	reply, err := next.Do(t.Context(), everything, &contract.Call{URL: server.URL, Timeout: 1000}, most, nil, nil)
	wantFailure(t, reply, err, contract.Limited)
	config.AtOnce, config.PerSecond = 1000, 1e6
	last := newClient(t, config)
	if reply, err = last.get(t, server.URL); err == nil && reply.Status == 0 {
		wantFailure(t, reply, err, contract.CircuitOpen)
	} else {
		t.Errorf("the circuit is closed: %+v, %v", reply, err)
	}
}

// A revision with another limit must not have as many requests as that beside those of the one before.
func TestRevisionsShareTheRequestsAtOnce(t *testing.T) {
	release, arrived := make(chan struct{}), make(chan struct{}, 10)
	server := serve(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	config := Config{Entries: Entries{local(server)}, AtOnce: 3, PerSecond: 1e6, State: NewState()}
	var wait sync.WaitGroup
	begin := func(c *client) {
		wait.Go(func() {
			if reply, err := c.get(t, server.URL); err != nil || reply.Status != 200 {
				t.Errorf("%+v, %v", reply, err)
			}
		})
	}
	before := newClient(t, config)
	for range 3 {
		begin(before)
		<-arrived
	}
	config.AtOnce = 2
	fewer := newClient(t, config)
	reply, err := fewer.Do(t.Context(), everything, &contract.Call{URL: server.URL, Timeout: 20}, most, nil, nil)
	wantFailure(t, reply, err, contract.Limited)
	begin(fewer) // waits
	config.AtOnce = 4
	more := newClient(t, config)
	<-arrived // the one that has waited
	reply, err = more.Do(t.Context(), everything, &contract.Call{URL: server.URL, Timeout: 20}, most, nil, nil)
	wantFailure(t, reply, err, contract.Limited)
	close(release)
	wait.Wait()
	more.mustGet(t, server.URL)
}

func TestHostThatFailsIsLeftAlone(t *testing.T) {
	var n atomic.Int32
	var works atomic.Bool
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		if !works.Load() {
			hijacked("")(w, r)
		}
	})
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	now := time.Now()
	c := newClient(t, Config{Entries: Entries{local(server), local(other)}, Now: func() time.Time { return now }, PerSecond: 1e6})
	fail := func(reason string) {
		t.Helper()
		reply, err := c.Do(t.Context(), everything, &contract.Call{Method: "POST", URL: server.URL, Body: []byte("x")}, most, nil, nil)
		wantFailure(t, reply, err, reason)
	}
	for range 5 {
		fail(contract.Unreachable)
	}
	fail(contract.CircuitOpen)
	if n.Load() != 5 {
		t.Errorf("%d requests", n.Load())
	}
	for range 10 {
		if reply := c.mustGet(t, other.URL); reply.Status != 500 { // which does not open it
			t.Errorf("%+v", reply)
		}
	}
	for _, seconds := range []int{5, 10, 20, 40, 60, 60} {
		now = now.Add(time.Duration(seconds)*time.Second - 1)
		fail(contract.CircuitOpen)
		now = now.Add(1)
		fail(contract.Unreachable) // the probe
		fail(contract.CircuitOpen)
	}
	now = now.Add(time.Minute)
	works.Store(true)
	for range 3 {
		c.mustGet(t, server.URL)
	}
	works.Store(false)
	for range 4 {
		fail(contract.Unreachable)
	}
	works.Store(true)
	c.mustGet(t, server.URL) // the row is broken
	works.Store(false)
	for range 4 {
		fail(contract.Unreachable)
	}
}

// A probe that ends with its run leaves the next one to be a probe, and one with an answer of
// any kind closes the circuit.
func TestProbeOfAHostThatFails(t *testing.T) {
	var serves http.HandlerFunc
	server := serve(t, func(w http.ResponseWriter, r *http.Request) { serves(w, r) })
	now := time.Now()
	c := newClient(t, Config{Entries: Entries{local(server)}, Now: func() time.Time { return now }, PerSecond: 1e6})
	open := func() {
		t.Helper()
		serves = hijacked("")
		for range circuitFailures {
			_, _ = c.Do(t.Context(), everything, &contract.Call{Method: "POST", URL: server.URL}, most, nil, nil)
		}
		reply, err := c.get(t, server.URL)
		wantFailure(t, reply, err, contract.CircuitOpen)
		now = now.Add(time.Hour)
	}
	open()
	began := make(chan struct{})
	serves = func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		reply, err := c.get(t, server.URL) // while the probe is under way
		if err != nil || reply.Error == nil || reply.Error.Reason != contract.CircuitOpen {
			t.Errorf("%+v, %v", reply, err)
		}
		cancel()
	}()
	if _, err := c.Do(ctx, everything, &contract.Call{URL: server.URL}, most, nil, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	serves = func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 10)) }
	if _, err := c.Do(t.Context(), everything, &contract.Call{URL: server.URL}, 5, nil, nil); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	serves = hijacked("")
	for range circuitFailures - 1 { // it is closed: these count from 0
		reply, err := c.Do(t.Context(), everything, &contract.Call{Method: "POST", URL: server.URL}, most, nil, nil)
		wantFailure(t, reply, err, contract.Unreachable)
	}
	serves = hijacked("this is no HTTP\r\n\r\n")
	reply, err := c.get(t, server.URL)
	wantFailure(t, reply, err, contract.BadAnswer)
	serves = hijacked("")
	for range circuitFailures { // and from 0 again
		reply, err := c.Do(t.Context(), everything, &contract.Call{Method: "POST", URL: server.URL}, most, nil, nil)
		wantFailure(t, reply, err, contract.Unreachable)
	}
}

func TestCircuitCountsWhatHasNoAnswer(t *testing.T) {
	for reason, want := range map[string]bool{
		contract.Timeout: true, contract.Unreachable: true, contract.TLS: true, contract.BadAnswer: false, contract.Credential: false, contract.Limited: false, contract.Redirects: false,
	} {
		if breaks(failed(reason, "")) != want {
			t.Errorf("%s is counted: %v", reason, !want)
		}
	}
	if breaks(nil) || breaks(denied("")) || breaks(ErrTooLarge) || breaks(context.Canceled) {
		t.Error("what says nothing about the host is counted")
	}
}

// A server cannot make more series than there are statuses.
func TestCodeOfAnUnknownStatus(t *testing.T) {
	for status, want := range map[int]string{200: "200", 404: "404", 299: "2xx", 999: "9xx"} {
		if got := codeOf(&contract.Reply{Status: status}, nil); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

func TestClosedClientKeepsNoConnection(t *testing.T) {
	began, release := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			began <- struct{}{}
			<-release
		}
	}))
	var open atomic.Int32
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		default:
		}
	}
	server.Start()
	defer server.Close()
	c := newClient(t, Config{Entries: Entries{local(server)}})
	c.mustGet(t, server.URL)
	done := make(chan *contract.Reply)
	go func() {
		reply, _ := c.get(t, server.URL+"/slow")
		done <- reply
	}()
	<-began
	c.Close()
	c.mustGet(t, server.URL) // by a run of the replaced revision
	close(release)
	if reply := <-done; reply == nil || reply.Status != 200 {
		t.Errorf("%+v", reply)
	}
	await.Within(t, idleTimeout/2, "the end of all connections", func() bool { return open.Load() == 0 })
	(*Client)(nil).Close()
}
