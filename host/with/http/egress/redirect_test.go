package egress

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	contract "github.com/thole-dev/thole/abi/http"
)

func TestMethodAfterARedirect(t *testing.T) {
	for _, test := range []struct {
		status       int
		method, then string
	}{
		{301, "GET", "GET"},
		{301, "HEAD", "HEAD"},
		{301, "POST", "GET"},
		{301, "PUT", "PUT"},
		{302, "GET", "GET"},
		{302, "HEAD", "HEAD"},
		{302, "POST", "GET"},
		{302, "PUT", "PUT"},
		{303, "GET", "GET"},
		{303, "HEAD", "HEAD"},
		{303, "POST", "GET"},
		{303, "PUT", "GET"},
		{307, "GET", "GET"},
		{307, "HEAD", "HEAD"},
		{307, "POST", "POST"},
		{307, "PUT", "PUT"},
		{308, "GET", "GET"},
		{308, "HEAD", "HEAD"},
		{308, "POST", "POST"},
		{308, "PUT", "PUT"},
		{300, "GET", ""},
		{304, "GET", ""},
		{305, "GET", ""},
		{306, "GET", ""},
	} {
		t.Run(fmt.Sprint(test.status, test.method), func(t *testing.T) {
			var got *http.Request
			var body []byte
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					w.Header().Set("Location", "then?x=1")
					w.WriteHeader(test.status)
					return
				}
				got = r
				body, _ = io.ReadAll(r.Body)
			})
			c := newClient(t, Config{Entries: Entries{local(server)}})
			reply, err := c.Do(t.Context(), everything, &contract.Call{
				Method: test.method, URL: server.URL + "/", Body: []byte("body"),
				Headers: []contract.Header{{Name: "Content-Type", Value: "text/x"}, {Name: "X-Own", Value: "1"}, {Name: "Authorization", Value: "mine"}, {Name: "Cookie", Value: "c=1"}},
			}, most, nil, nil)
			if err != nil || reply.Error != nil {
				t.Fatalf("%+v, %v", reply, err)
			}
			if test.then == "" {
				if got != nil || reply.Status != test.status || header(reply, "Location") != "then?x=1" {
					t.Errorf("%+v was followed to %v", reply, got)
				}
				return
			}
			if got.Method != test.then || got.RequestURI != "/then?x=1" || reply.URL != server.URL+"/then?x=1" {
				t.Errorf("%s %s: %+v", got.Method, got.RequestURI, reply)
			}
			if kept := test.method == test.then; kept != (string(body) == "body") || kept != (got.Header.Get("Content-Type") == "text/x") {
				t.Errorf("body %q, header %v", body, got.Header)
			}
			if got.Header.Get("X-Own")+got.Header.Get("Authorization")+got.Header.Get("Cookie") != "1minec=1" {
				t.Errorf("header at the same origin: %v", got.Header)
			}
		})
	}
}

func TestRedirectIsCheckedLikeANewRequest(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("reached")) })
	var status int
	first := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target.URL, status) })
	get := func(host string) contract.Host { return contract.Host{Host: host} }
	for _, test := range []struct {
		name     string
		status   int
		method   string
		declared []contract.Host
		entries  Entries
		want     string
	}{
		{name: "allowed", declared: []contract.Host{get(hostOf(first)), get(hostOf(target))}, entries: Entries{local(first), local(target)}},
		{name: "not declared", declared: []contract.Host{get(hostOf(first))}, entries: Entries{local(first), local(target)}, want: "the manifest"},
		{name: "no entry", declared: everything, entries: Entries{local(first)}, want: "the policy does not allow"},
		{name: "address", declared: everything, entries: Entries{local(first), {Host: hostOf(target), Scheme: "http"}}, want: "the address of"},
		{
			name: "method becomes GET", status: 303, method: "POST", declared: everything,
			entries: Entries{local(first), {Host: hostOf(target), Scheme: "http", Methods: []string{"POST"}, Addresses: []string{"loopback"}}}, want: "requests GET",
		},
		{
			name: "method stays", status: 307, method: "POST", declared: everything,
			entries: Entries{local(first), {Host: hostOf(target), Scheme: "http", Methods: []string{"GET"}, Addresses: []string{"loopback"}}}, want: "requests POST",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			status = max(test.status, 302)
			c := newClient(t, Config{Entries: test.entries})
			reply, err := c.Do(t.Context(), test.declared, &contract.Call{Method: test.method, URL: first.URL}, most, nil, nil)
			if test.want != "" {
				wantDenied(t, reply, err, test.want)
			} else if err != nil || string(reply.Body) != "reached" {
				t.Errorf("%+v, %v", reply, err)
			}
		})
	}
}

func TestRedirectsAreBounded(t *testing.T) {
	n := 0
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		switch r.URL.Path {
		case "/none":
			w.WriteHeader(http.StatusFound)
		case "/two":
			w.Header()["Location"] = []string{"/target", "/target"}
			w.WriteHeader(http.StatusFound)
		case "/target":
		case "/ten":
			if n <= 10 {
				http.Redirect(w, r, "/ten", http.StatusFound)
			}
		default:
			w.Header().Set("Location", map[string]string{"/loop": "/loop", "/backslash": `/\127.0.0.1`, "/file": "file:///etc/passwd", "/broken": "http://[::1", "/port": "http://127.0.0.1:0/"}[r.URL.Path])
			w.WriteHeader(http.StatusFound)
		}
	})
	c := newClient(t, Config{Entries: Entries{local(server)}, PerSecond: 1e6})
	for _, path := range []string{"/none", "/two", "/loop", "/backslash", "/file", "/broken", "/port"} {
		reply, err := c.get(t, server.URL+path)
		wantFailure(t, reply, err, contract.Redirects)
	}
	n = 0
	c.mustGet(t, server.URL+"/ten")
	if n != 11 {
		t.Errorf("%d requests", n)
	}
	n = -1 // one redirect more
	reply, err := c.get(t, server.URL+"/ten")
	wantFailure(t, reply, err, contract.Redirects)
	if n != 10 {
		t.Errorf("%d requests", n)
	}
}

func TestRedirectToAnotherOriginLosesWhatIsForTheFirst(t *testing.T) {
	var requests []*http.Request
	var first, second string
	handle := func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r)
		switch r.URL.Path {
		case "/1":
			http.Redirect(w, r, second+"/2", http.StatusTemporaryRedirect)
		case "/2":
			http.Redirect(w, r, "/4", http.StatusTemporaryRedirect) // at the same origin
		case "/4":
			http.Redirect(w, r, first+"/3", http.StatusTemporaryRedirect)
		}
	}
	a, b := serve(t, handle), serve(t, handle)
	first, second = a.URL, b.URL
	credentialed := local(a)
	credentialed.SecretRef, credentialed.Header = &SecretRef{Namespace: "n", Name: "s"}, "X-Token"
	other := local(b)
	other.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
	c := newClient(t, Config{Entries: Entries{credentialed, other}, Secrets: secretOf("token", "the-token-of-the-host")})
	reply, err := c.Do(t.Context(), everything, &contract.Call{Method: "POST", URL: first + "/1", Body: []byte("x"), Headers: []contract.Header{
		{Name: "Authorization", Value: "mine"}, {Name: "Cookie", Value: "c=1"}, {Name: "Cookie2", Value: "c"}, {Name: "WWW-Authenticate", Value: "w"}, {Name: "X-Own", Value: "1"},
	}}, most, nil, nil)
	if err != nil || reply.Error != nil || len(requests) != 4 || reply.URL != first+"/3" {
		t.Fatalf("%+v, %v after %d requests", reply, err, len(requests))
	}
	if got := requests[0].Header; got.Get("X-Token") != "the-token-of-the-host" || got.Get("Authorization") != "mine" || got.Get("Cookie") != "c=1" {
		t.Errorf("the first has %v", got)
	}
	for _, r := range requests[1:] { // the last is back at the first origin
		for _, name := range []string{"Authorization", "Cookie", "Cookie2", "Www-Authenticate", "X-Token", "Referer"} {
			if r.Header[name] != nil {
				t.Errorf("%s has %s: %v", r.URL, name, r.Header[name])
			}
		}
		if !slices.Equal(r.Header["X-Own"], []string{"1"}) {
			t.Errorf("%s has lost X-Own", r.URL)
		}
	}
}

func TestRedirectFromHTTPSToHTTPIsDenied(t *testing.T) {
	plain := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was followed") })
	ca := newAuthority(t)
	server := ca.serve(t, nil, nil, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) })
	c := newClient(t, Config{Entries: Entries{local(plain), {Host: hostOf(server), CA: ca.pem, Addresses: []string{"loopback"}}}})
	reply, err := c.get(t, server.URL)
	wantDenied(t, reply, err, "redirects from https to http")
	if strings.Contains(err.Error(), hostOf(plain)) {
		t.Error(err)
	}
}
