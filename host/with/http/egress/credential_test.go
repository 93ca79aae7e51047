package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	contract "github.com/thole-dev/thole/abi/http"
)

// secretOf returns a reader of a Secret with keys and values.
func secretOf(pairs ...string) SecretReader {
	data := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = []byte(pairs[i+1])
	}
	return func(context.Context, SecretRef) (map[string][]byte, error) { return data, nil }
}

func TestCredentialReachesTheServer(t *testing.T) {
	for _, test := range []struct {
		name          string
		secret        []string
		header        string
		in            string
		want, another string
	}{
		{"token", []string{"token", "t-o-k-e-n\n"}, "", "Authorization", "Bearer t-o-k-e-n", ""},
		{"token in a header", []string{"token", "t-o-k-e-n"}, "x-api-key", "X-Api-Key", "t-o-k-e-n", ""},
		{"token before password", []string{"token", "t-o-k-e-n", "username", "u", "password", "p"}, "", "Authorization", "Bearer t-o-k-e-n", ""},
		{"basic", []string{"username", "u", "password", "päss\n"}, "", "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("u:päss")), ""},
		{"no username", []string{"password", "pass"}, "", "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(":pass")), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got http.Header
			server := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
			e := local(server)
			e.SecretRef, e.Header = &SecretRef{Namespace: "n", Name: "s"}, test.header
			c := newClient(t, Config{Entries: Entries{e}, Secrets: secretOf(test.secret...)})
			c.mustGet(t, server.URL)
			if v := got.Get(test.in); v != test.want {
				t.Errorf("%s: %q, want %q", test.in, v, test.want)
			}
			reply, err := c.Do(t.Context(), everything, &contract.Call{URL: server.URL, Headers: []contract.Header{{Name: test.in, Value: "x"}}}, most, nil, nil)
			wantInvalid(t, reply, err, "has the credential of the policy's entry")
			reply, err = c.Do(t.Context(), everything, &contract.Call{URL: server.URL, Headers: []contract.Header{{Name: "range", Value: "bytes=0-3"}}}, most, nil, nil)
			wantInvalid(t, reply, err, "Range is not supported with a policy that has a credential")
		})
	}
}

func TestSecretThatHasNoCredentialIsAFailure(t *testing.T) {
	ca := newAuthority(t)
	certificate, key := ca.issue(t, nil)
	_, otherKey := ca.issue(t, nil)
	for name, pairs := range map[string][]string{
		"empty": nil, "other keys": {"Token", "very-secret"}, "empty token": {"token", "\n"}, "username alone": {"username", "very-secret"},
		"token with a line break": {"token", "very-secret\nX: y"}, "username with a colon": {"username", "a:b", "password", "very-secret"},
		"certificate alone": {"tls.crt", certificate}, "key alone": {"tls.key", key}, "key of another": {"tls.crt", certificate, "tls.key", otherKey},
		"certificate that is none": {"tls.crt", "very-secret", "tls.key", "very-secret"}, "authority that is none": {"ca.crt", "very-secret", "token", "very-secret"},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
			e := local(server)
			e.SecretRef = &SecretRef{Namespace: "namespace-of", Name: "the-secret"}
			c := newClient(t, Config{Entries: Entries{e}, Secrets: secretOf(pairs...)})
			reply, err := c.get(t, server.URL)
			wantFailure(t, reply, err, contract.Credential)
			if strings.Contains(reply.Error.Message, "namespace-of") || strings.Contains(c.log.text(), "very-secret") || !strings.Contains(c.log.text(), "the Secret namespace-of/the-secret has no credential: ") {
				t.Errorf("%s\n%s", reply.Error.Message, c.log.text())
			}
		})
	}
}

func TestSecretThatCannotBeRead(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	e := local(server)
	e.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
	resource := schema.GroupResource{Resource: "secrets"}
	for text, err := range map[string]error{
		`secrets \"s\" not found`:                               apierrors.NewNotFound(resource, "s"),
		"thole rbac prints the rights that are needed":          apierrors.NewForbidden(resource, "s", errors.New("no rights")),
		"the Secret n/s cannot be read: the API server is away": errors.New("the API server is away"),
	} {
		c := newClient(t, Config{Entries: Entries{e}, Secrets: func(context.Context, SecretRef) (map[string][]byte, error) { return nil, err }})
		reply, err := c.get(t, server.URL)
		wantFailure(t, reply, err, contract.Credential)
		if !strings.Contains(c.log.text(), text) || strings.Contains(reply.Error.Message, "s cannot be read: ") {
			t.Errorf("%s\n%s", reply.Error.Message, c.log.text())
		}
	}
	c := newClient(t, Config{Entries: Entries{e}, Secrets: func(ctx context.Context, _ SecretRef) (map[string][]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	reply, err := c.Do(t.Context(), everything, &contract.Call{URL: server.URL, Timeout: 20}, most, nil, nil)
	wantFailure(t, reply, err, contract.Timeout)
}

// rotating is a Secret whose token changes.
type rotating struct {
	mu    sync.Mutex
	token string
	err   error
	reads int
}

func (r *rotating) read(context.Context, SecretRef) (map[string][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	return map[string][]byte{"token": []byte(r.token)}, r.err
}

func TestSecretIsReadAgain(t *testing.T) {
	valid, sent := "token-number-1", 0
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent++
		io.Copy(io.Discard, r.Body)
		if r.Header.Get("Authorization") != "Bearer "+valid {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	e := local(server)
	e.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
	secret, now := &rotating{token: "token-number-1"}, time.Now()
	c := newClient(t, Config{Entries: Entries{e}, Secrets: secret.read, Now: func() time.Time { return now }, PerSecond: 1e6})
	status := func(want, wantReads, wantSent int) {
		t.Helper()
		secret.reads, sent = 0, 0
		reply, err := c.Do(t.Context(), everything, &contract.Call{Method: "POST", URL: server.URL, Body: []byte("x")}, most, nil, nil)
		if err != nil || reply.Status != want || secret.reads != wantReads || sent != wantSent {
			t.Fatalf("%+v, %v with %d reads and %d requests, want %d, %d and %d", reply, err, secret.reads, sent, want, wantReads, wantSent)
		}
	}
	status(200, 1, 1)
	now = now.Add(59 * time.Second)
	status(200, 0, 1)
	now = now.Add(time.Second)
	status(200, 1, 1)

	valid, secret.token = "token-number-2", "token-number-2" // both have changed: the 401 shows it
	now = now.Add(2 * time.Second)
	status(200, 1, 2)
	valid = "token-number-3" // the host alone has
	status(401, 0, 1)        // the Secret was read a moment ago
	now = now.Add(2 * time.Second)
	status(401, 1, 1)
	now = now.Add(2 * time.Second)
	secret.err = errors.New("the API server is away")
	status(401, 1, 1)
	reply, err := c.get(t, server.URL)
	wantFailure(t, reply, err, contract.Credential)
	if secret.reads != 1 {
		t.Errorf("%d reads", secret.reads)
	}
	secret.err, secret.token = nil, "token-number-3"
	now = now.Add(2 * time.Second)
	status(200, 1, 1)
}

func TestConcurrentRequestsReadTheSecretOnce(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	e := local(server)
	e.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
	secret := &rotating{token: "the-token"}
	c := newClient(t, Config{Entries: Entries{e}, Secrets: func(ctx context.Context, ref SecretRef) (map[string][]byte, error) {
		<-time.After(20 * time.Millisecond) // all others come meanwhile
		return secret.read(ctx, ref)
	}})
	var wait sync.WaitGroup
	for range 10 {
		wait.Go(func() {
			if reply, err := c.get(t, server.URL); err != nil || reply.Status != http.StatusOK {
				t.Errorf("%+v, %v", reply, err)
			}
		})
	}
	wait.Wait()
	if secret.reads != 1 {
		t.Errorf("%d reads", secret.reads)
	}
}

// encodings are ways in which a server shows what it has got.
var encodings = map[string]func(string) string{
	"as it is":             func(s string) string { return s },
	"base64":               func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 after 1 byte":  func(s string) string { return base64.StdEncoding.EncodeToString([]byte("a" + s + "bcd")) },
	"base64 after 2 bytes": func(s string) string { return base64.StdEncoding.EncodeToString([]byte("ab" + s + "c")) },
	"base64 of a header": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte("Authorization: Bearer " + s + "\r\n"))
	},
	"base64 of URLs":    func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("??>" + s)) },
	"hex":               func(s string) string { return hex.EncodeToString([]byte(s)) },
	"hex in upper case": func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"JSON":              func(s string) string { text, _ := json.Marshal(map[string]string{"a": s}); return string(text) },
	"HTML":              func(s string) string { return html.EscapeString(s) },
	"query":             func(s string) string { return "a=" + url.QueryEscape(s) },
	"path":              func(s string) string { return "/" + url.PathEscape(s) },
	"base64 in lines": func(s string) string {
		return inLines(base64.StdEncoding.EncodeToString([]byte("Authorization: Bearer "+strings.Repeat("a", 40)+s)), "\n")
	},
	"every letter for a URL":   func(s string) string { return escapedEach(s, "%%%02x") + "%zz%" },
	"every letter in JSON":     func(s string) string { return escapedEach(s, `\u%04x`) + `\u00` },
	"every letter in a string": func(s string) string { return escapedEach(s, `\x%02X`) },
	"every letter in HTML":     func(s string) string { return escapedEach(s, "&#%d;") },
	"slashes":                  func(s string) string { return strings.NewReplacer("/", `\/`, `"`, `\"`).Replace(s) },
	"header of the request":    func(s string) string { return "Authorization: Bearer " + s },
}

func escapedEach(text, format string) (out string) {
	for i := range len(text) {
		out += fmt.Sprintf(format, text[i])
	}
	return out
}

// places are where a server shows it.
var places = map[string]func(w http.ResponseWriter, text string){
	"body":   func(w http.ResponseWriter, text string) { fmt.Fprintf(w, "you sent %s to me", text) },
	"header": func(w http.ResponseWriter, text string) { w.Header().Set("X-Echo", text) },
	"location": func(w http.ResponseWriter, text string) {
		w.Header().Set("Location", "/?"+url.QueryEscape(text))
		w.WriteHeader(http.StatusFound)
	},
	"location without redirect": func(w http.ResponseWriter, text string) { w.Header().Set("Location", "/"+text) },
	"error": func(w http.ResponseWriter, text string) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, text)
	},
	"status line":         func(w http.ResponseWriter, text string) { hijacked("HTTP/1.1 200 "+text+"\r\n\r\n")(w, nil) },
	"answer that is none": func(w http.ResponseWriter, text string) { hijacked(text+"\r\n\r\n")(w, nil) },
	"header that is none": func(w http.ResponseWriter, text string) { hijacked("HTTP/1.1 200 OK\r\n"+text+"\r\n\r\n")(w, nil) },
	"length that is none": func(w http.ResponseWriter, text string) {
		hijacked("HTTP/1.1 200 OK\r\nContent-Length: "+text+"\r\n\r\n")(w, nil)
	},
	"chunks that are none": func(w http.ResponseWriter, text string) {
		hijacked("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+text+"\r\n")(w, nil)
	},
	"location that is none": func(w http.ResponseWriter, text string) {
		w.Header().Set("Location", "http://["+text)
		w.WriteHeader(http.StatusFound)
	},
}

func TestCredentialIsInNothingThatLeavesTheClient(t *testing.T) {
	const token = `s3cret/tok&n+"with"<marks>~?` // other texts in every encoding
	for name, secret := range map[string][]string{
		"token": {"token", token}, "basic": {"username", "somebody", "password", token},
	} {
		for place, show := range places {
			for encoding, encode := range encodings {
				t.Run(name+"/"+place+"/"+encoding, func(t *testing.T) {
					shown := encode(token)
					server := serve(t, func(w http.ResponseWriter, r *http.Request) {
						if r.Header.Get("Authorization") == "" {
							t.Error("the server has no credential to show")
						}
						show(w, shown)
					})
					e := local(server)
					e.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
					c := newClient(t, Config{Entries: Entries{e}, Secrets: secretOf(secret...)})
					reply, err := c.get(t, server.URL)
					if reply == nil {
						reply = &contract.Reply{}
					}
					text := c.log.text() + fmt.Sprintf("%+v", c.ended) + strings.Join(c.codes, " ") + fmt.Sprint(err) + string(contract.EncodeReply(reply))
					if strings.Contains(text, shown) || strings.Contains(text, token) {
						t.Errorf("the credential is in %s", text)
					}
					if withheld := place == "body" || place == "header" || place == "location" || place == "error"; withheld {
						wantFailure(t, reply, err, contract.Credential)
					}
				})
			}
		}
	}
	// A header of Basic is withheld as well.
	for _, encode := range []func(string) string{encodings["as it is"], encodings["base64"], encodings["hex"], encodings["base64 in lines"]} {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, encode("Authorization: "+r.Header.Get("Authorization")+"\r\n"))
		})
		e := local(server)
		e.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
		c := newClient(t, Config{Entries: Entries{e}, Secrets: secretOf("username", "somebody", "password", "some password")})
		reply, err := c.get(t, server.URL)
		wantFailure(t, reply, err, contract.Credential)
		if c.lastCode() != hostOf(server)+" credential" {
			t.Error(c.codes)
		}
	}
}

// Names of headers and hosts lose the case of their letters.
func TestCredentialInANameIsWithheld(t *testing.T) {
	const token = "MixedCaseToken"
	for name, show := range map[string]func(w http.ResponseWriter){
		"header": func(w http.ResponseWriter) { w.Header().Set("X-"+token, "x") },
		"host": func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://"+strings.ToLower(token)+".test/")
			w.WriteHeader(http.StatusFound)
		},
		"escaped": func(w http.ResponseWriter) {
			w.Header().Set("Location", "/%4dixed%43aseToken")
			w.WriteHeader(http.StatusFound)
		},
		"escaped in a query that is broken": func(w http.ResponseWriter) {
			w.Header().Set("Location", "/?%zz=%4dixed%43aseToken")
			w.WriteHeader(http.StatusFound)
		},
		"verbatim": func(w http.ResponseWriter) { w.Header().Set("Location", "/"+token); w.WriteHeader(http.StatusFound) },
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) { show(w) })
			e := local(server)
			e.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
			c := newClient(t, Config{Entries: Entries{e}, Secrets: secretOf("token", token)})
			reply, err := c.get(t, server.URL)
			wantFailure(t, reply, err, contract.Credential)
		})
	}
}

// A host may show the credential to a request that has none, and one that the Secret had before.
func TestCredentialOfAnotherRequestIsWithheld(t *testing.T) {
	seen := ""
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			seen = r.Header.Get("Authorization")
			return
		}
		fmt.Fprint(w, seen)
	})
	plain, credentialed := local(server), local(server)
	plain.Methods, credentialed.Methods = []string{"GET"}, []string{"POST"}
	credentialed.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
	secret, now := &rotating{token: "the-first-token"}, time.Now()
	c := newClient(t, Config{Entries: Entries{plain, credentialed}, Secrets: secret.read, Now: func() time.Time { return now }})
	post := func() {
		t.Helper()
		if reply, err := c.Do(t.Context(), everything, &contract.Call{Method: "POST", URL: server.URL}, most, nil, nil); err != nil || reply.Status != 200 {
			t.Fatalf("%+v, %v", reply, err)
		}
	}
	c.mustGet(t, server.URL)
	post()
	reply, err := c.get(t, server.URL)
	wantFailure(t, reply, err, contract.Credential)
	before := seen
	secret.token, now = "the-second-token", now.Add(time.Hour)
	post()
	seen = before
	reply, err = c.get(t, server.URL)
	wantFailure(t, reply, err, contract.Credential)
	seen = "the-third-token"
	c.mustGet(t, server.URL)
}

// echoing returns a server that shows the last credential that it was sent, and two entries for it: GET
// has no Secret, POST has one.
func echoing(t *testing.T) (server *httptest.Server, plain, credentialed Entry) {
	t.Helper()
	seen := "Bearer the-token-of-the-host"
	server = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			seen = r.Header.Get("Authorization")
			return
		}
		fmt.Fprint(w, seen)
	})
	plain, credentialed = local(server), local(server)
	plain.Methods, credentialed.Methods = []string{"GET"}, []string{"POST"}
	credentialed.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
	return server, plain, credentialed
}

// A revision without the entry that has the Secret must not show what an older one has sent.
func TestCredentialOfAnotherRevisionIsWithheld(t *testing.T) {
	server, plain, credentialed := echoing(t)
	state := NewState()
	first := newClient(t, Config{State: state, Entries: Entries{credentialed}, Secrets: secretOf("token", "the-token-of-the-host")})
	if reply, err := first.Do(t.Context(), everything, &contract.Call{Method: "POST", URL: server.URL}, most, nil, nil); err != nil || reply.Status != 200 {
		t.Fatalf("%+v, %v", reply, err)
	}
	second := newClient(t, Config{State: state, Entries: Entries{plain}})
	reply, err := second.get(t, server.URL)
	wantFailure(t, reply, err, contract.Credential)
}

// The host may have the credential since before the start.
func TestCredentialOfAnotherEntryIsWithheldAfterARestart(t *testing.T) {
	server, plain, credentialed := echoing(t)
	elsewhere := Entry{Host: "elsewhere.test", SecretRef: &SecretRef{Namespace: "n", Name: "elsewhere"}} // which may be the same server
	reads := map[SecretRef]int{}
	c := newClient(t, Config{Entries: Entries{plain, credentialed, elsewhere}, Secrets: func(ctx context.Context, ref SecretRef) (map[string][]byte, error) {
		reads[ref]++
		return secretOf("token", map[string]string{"s": "another-token", "elsewhere": "the-token-of-the-host"}[ref.Name])(ctx, ref)
	}})
	for range 2 {
		reply, err := c.get(t, server.URL)
		wantFailure(t, reply, err, contract.Credential)
	}
	if len(reads) != 2 || reads[*credentialed.SecretRef] != 1 || reads[*elsewhere.SecretRef] != 1 {
		t.Errorf("reads %v", reads)
	}
}

// By parts of answers a credential could be read piece by piece.
func TestRangeIsRefusedWithACredentialOfAnyEntry(t *testing.T) {
	server, plain, credentialed := echoing(t)
	call := &contract.Call{URL: server.URL, Headers: []contract.Header{{Name: "range", Value: "bytes=0-3"}}}
	c := newClient(t, Config{Entries: Entries{plain, credentialed}, Secrets: secretOf("token", "the-token-of-the-host")})
	reply, err := c.Do(t.Context(), everything, call, most, nil, nil)
	wantInvalid(t, reply, err, "Range is not supported with a policy that has a credential")
	for _, alias := range []string{"Request-Range", "x-ms-range"} {
		_, err := c.Do(t.Context(), everything, &contract.Call{URL: server.URL, Headers: []contract.Header{{Name: alias, Value: "bytes=0-3"}}}, most, nil, nil)
		wantInvalid(t, nil, err, "Range is not supported with a policy that has a credential")
	}
	later := newClient(t, Config{State: c.state, Entries: Entries{plain}}) // after the credential was read
	if reply, err := c.Do(t.Context(), everything, &contract.Call{Method: "POST", URL: server.URL}, most, nil, nil); err != nil || reply.Status != 200 {
		t.Fatalf("%+v, %v", reply, err)
	}
	reply, err = later.Do(t.Context(), everything, call, most, nil, nil)
	wantInvalid(t, reply, err, "Range is not supported with a policy that has a credential")
	without := newClient(t, Config{Entries: Entries{plain}})
	if reply, err := without.Do(t.Context(), everything, call, most, nil, nil); err != nil || reply.Status != 200 {
		t.Errorf("%+v, %v", reply, err)
	}
}

// What cannot be searched for the credential is withheld.
func TestAnswerThatCannotBeSearchedIsWithheld(t *testing.T) {
	for name, show := range map[string]func(w http.ResponseWriter){
		"deflate": func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "deflate") },
		"twice":   func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "gzip, gzip") },
		"x-gzip":  func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "X-Gzip") },
		"br":      func(w http.ResponseWriter) { w.Header()["Content-Encoding"] = []string{"identity", "br"} },
		"206":     func(w http.ResponseWriter) { w.WriteHeader(http.StatusPartialContent) },
		"range":   func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 0-3/40") },
	} {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			show(w)
			_, _ = w.Write([]byte("text"))
		})
		credentialed := local(server)
		credentialed.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
		reply, err := newClient(t, Config{Entries: Entries{credentialed}, Secrets: secretOf("token", "the-token-of-the-host")}).get(t, server.URL)
		wantFailure(t, reply, err, contract.Credential)
		if reply, err := newClient(t, Config{Entries: Entries{local(server)}}).get(t, server.URL); err != nil || string(reply.Body) != "text" {
			t.Errorf("%s, without a credential: %+v, %v", name, reply, err)
		}
	}
	for _, encoding := range []string{"", "identity", "Identity"} {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Encoding"] = []string{encoding}
		})
		credentialed := local(server)
		credentialed.SecretRef = &SecretRef{Namespace: "n", Name: "s"}
		newClient(t, Config{Entries: Entries{credentialed}, Secrets: secretOf("token", "the-token-of-the-host")}).mustGet(t, server.URL)
	}
}

// A redirect may lead to another entry, of which the header is that of the credential.
func TestRedirectWithTheHeaderOfACredentialIsRefused(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			t.Error("the redirect was followed")
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	post, get := local(server), local(server)
	post.Methods, get.Methods = []string{"POST"}, []string{"GET"}
	get.SecretRef, get.Header = &SecretRef{Namespace: "n", Name: "s"}, "X-Api-Key"
	c := newClient(t, Config{Entries: Entries{post, get}, Secrets: secretOf("token", "the-token-of-the-host")})
	reply, err := c.Do(t.Context(), everything, &contract.Call{Method: "POST", URL: server.URL, Headers: []contract.Header{{Name: "x-api-key", Value: "x"}}}, most, nil, nil)
	wantInvalid(t, reply, err, "the header X-Api-Key has the credential")
}

// An entry without a Secret does not need those of other entries.
func TestSecretOfAnotherEntryNeedNotBeReadable(t *testing.T) {
	server, plain, credentialed := echoing(t)
	c := newClient(t, Config{Entries: Entries{plain, credentialed}, Secrets: func(context.Context, SecretRef) (map[string][]byte, error) {
		return nil, errors.New("the API server is away")
	}})
	c.mustGet(t, server.URL)
}

func TestRememberedCredentialsAreBounded(t *testing.T) {
	w, of := &withheld{}, func(token string) *credential {
		c, _ := parseCredential(map[string][]byte{"token": []byte(token)})
		return c
	}
	for i := range maxWithheld + 3 {
		w.add(SecretRef{Name: fmt.Sprint(i)}, of(fmt.Sprintf("the-token-%d-", i)))
	}
	ref, first := SecretRef{Name: "5"}, of("the-token-5-")
	if again := w.add(ref, first); again == first || again.token != first.token {
		t.Error("the same value is kept twice")
	}
	w.add(ref, of("the-second-token"))
	w.add(ref, of("the-third-token"))
	n := w.needles()
	for text, want := range map[string]bool{"the-token-0-": false, "the-token-3-": true, "the-token-5-": false, "the-second-token": true, "the-third-token": true} {
		if n.in(t.Context(), []byte(text)) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}

func TestClientCertificate(t *testing.T) {
	ca := newAuthority(t)
	certificate, key := ca.issue(t, nil)
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	block, _ := pem.Decode([]byte(key))
	show := ""
	requiring := func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, roots }
	handle := func(w http.ResponseWriter, r *http.Request) {
		if show != "" {
			fmt.Fprint(w, show)
			return
		}
		fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}
	server := ca.serve(t, nil, requiring, handle)
	entry := Entry{Host: hostOf(server), Addresses: []string{"loopback"}, SecretRef: &SecretRef{Namespace: "n", Name: "s"}}
	c := newClient(t, Config{Entries: Entries{entry}, Secrets: secretOf("tls.crt", certificate, "tls.key", key, "ca.crt", ca.pem)})
	if reply := c.mustGet(t, server.URL); string(reply.Body) != "test" {
		t.Errorf("%s", reply.Body)
	}
	for _, show = range []string{key, strings.Split(key, "\n")[1], base64.StdEncoding.EncodeToString(block.Bytes), base64.StdEncoding.EncodeToString([]byte(key)), hex.EncodeToString(block.Bytes)} {
		reply, err := c.get(t, server.URL)
		wantFailure(t, reply, err, contract.Credential)
	}
	show = ""
	// Without a certificate the server ends the handshake.
	entry.SecretRef, entry.CA = nil, ca.pem
	without := newClient(t, Config{Entries: Entries{entry}})
	reply, err := without.get(t, server.URL)
	wantFailure(t, reply, err, contract.TLS)
	for _, text := range []string{c.log.text(), without.log.text()} {
		if strings.Contains(text, strings.Split(key, "\n")[1]) {
			t.Error(text)
		}
	}

	// A redirect from elsewhere gets none.
	other := ca.serve(t, nil, nil, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, server.URL, http.StatusFound) })
	c = newClient(t, Config{Secrets: secretOf("tls.crt", certificate, "tls.key", key, "ca.crt", ca.pem), Entries: Entries{
		{Host: hostOf(server), Addresses: []string{"loopback"}, SecretRef: &SecretRef{Namespace: "n", Name: "s"}}, {Host: hostOf(other), Addresses: []string{"loopback"}, CA: ca.pem},
	}})
	c.mustGet(t, server.URL) // leaves a connection with the certificate
	reply, err = c.get(t, other.URL)
	wantFailure(t, reply, err, contract.TLS)
}

// With TLS 1.3 a server that insists on a certificate closes the connection after the handshake, and its
// complaint may be lost.
func TestServerThatClosesForWantOfACertificate(t *testing.T) {
	ca := newAuthority(t)
	certificate, key := ca.issue(t, nil)
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	for auth, want := range map[tls.ClientAuthType]string{tls.RequestClientCert: contract.TLS, tls.NoClientCert: contract.Unreachable} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: auth}).Handshake()
				_ = conn.(*net.TCPConn).SetLinger(0)
				conn.Close()
			}
		}()
		c := newClient(t, Config{Entries: Entries{{Host: l.Addr().String(), Addresses: []string{"loopback"}, CA: ca.pem}}})
		reply, err := c.get(t, "https://"+l.Addr().String()+"/")
		wantFailure(t, reply, err, want)
	}
}

// A new certificate is used at once for new connections, and those with the old one are closed.
func TestRotatedClientCertificateIsUsed(t *testing.T) {
	ca := newAuthority(t)
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	server := ca.serve(t, nil, func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, roots }, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.PeerCertificates[0].SerialNumber)
	})
	serial, now := int64(10), time.Now()
	c := newClient(t, Config{
		Entries: Entries{{Host: hostOf(server), CA: ca.pem, Addresses: []string{"loopback"}, SecretRef: &SecretRef{Namespace: "n", Name: "s"}}}, Now: func() time.Time { return now },
		Secrets: func(ctx context.Context, ref SecretRef) (map[string][]byte, error) {
			certificate, key := ca.issue(t, func(c *x509.Certificate) { c.SerialNumber.SetInt64(serial) })
			return secretOf("tls.crt", certificate, "tls.key", key)(ctx, ref)
		},
	})
	for range 2 {
		if reply := c.mustGet(t, server.URL); string(reply.Body) != fmt.Sprint(serial) {
			t.Errorf("%s, want %d", reply.Body, serial)
		}
		serial, now = serial+1, now.Add(time.Hour)
	}
	if len(c.transports) != 1 {
		t.Errorf("%d transports", len(c.transports))
	}
}

func TestCertificateOfTheServerIsVerified(t *testing.T) {
	ca, another := newAuthority(t), newAuthority(t)
	for _, test := range []struct {
		name      string
		change    func(*x509.Certificate)
		configure func(*tls.Config)
		entry     Entry
		url       string
		want      string // "": there is an answer
	}{
		{name: "right", entry: Entry{CA: ca.pem}},
		{name: "right by name", entry: Entry{CA: ca.pem, Host: "api.test"}},
		{name: "of several authorities", entry: Entry{CA: another.pem + "\n" + ca.pem}},
		{name: "authority of the Secret", entry: Entry{SecretRef: &SecretRef{Namespace: "n", Name: "s"}, CA: another.pem}},
		{name: "authority that is not known", want: "its authority is not known"},
		{name: "another authority", entry: Entry{CA: another.pem}, want: "its authority is not known"},
		{name: "another name", entry: Entry{CA: ca.pem, Host: "other.test"}, want: "it is not for the host other.test"},
		{name: "another address", change: func(c *x509.Certificate) { c.IPAddresses = nil }, entry: Entry{CA: ca.pem}, want: "it is not for the host 127.0.0.1"},
		{name: "expired", change: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, entry: Entry{CA: ca.pem}, want: "it has expired"},
		{name: "not valid yet", change: func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }, entry: Entry{CA: ca.pem}, want: "not valid yet"},
		{name: "for clients", change: func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] }, entry: Entry{CA: ca.pem}, want: "may not be used like this"},
		{name: "old TLS", configure: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, entry: Entry{CA: ca.pem}, want: "the TLS handshake failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := ca.serve(t, test.change, test.configure, func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 1 {
					t.Errorf("protocol %s", r.Proto)
				}
			})
			port := hostOf(server)[strings.LastIndex(hostOf(server), ":"):]
			test.entry.Host = cmp.Or(test.entry.Host, "127.0.0.1") + port
			test.entry.Addresses = []string{"loopback"}
			c := newClient(t, Config{
				Entries: Entries{test.entry}, Secrets: secretOf("ca.crt", ca.pem),
				Resolver: (&dns{names: map[string][][]string{"api.test": {{"127.0.0.1"}}, "other.test": {{"127.0.0.1"}}}}).resolver(),
			})
			reply, err := c.get(t, "https://"+test.entry.Host)
			if test.want == "" {
				if err != nil || reply.Status != 200 {
					t.Fatalf("%+v, %v", reply.Error, err)
				}
				return
			}
			wantFailure(t, reply, err, contract.TLS)
			if !strings.Contains(reply.Error.Message, test.want) {
				t.Error(reply.Error.Message)
			}
		})
	}
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	c := newClient(t, Config{Entries: Entries{{Host: hostOf(plain), Addresses: []string{"loopback"}}}})
	reply, err := c.get(t, "https://"+hostOf(plain))
	wantFailure(t, reply, err, contract.TLS)
}

// A name may come to resolve to a public address, to which the credential would go in clear.
func TestCredentialByHTTPGoesToLoopbackOnly(t *testing.T) {
	names := &dns{names: map[string][][]string{"local.test": {{public}}}}
	c := newClient(t, Config{Secrets: secretOf("token", "the-token"), Resolver: names.resolver(), Entries: Entries{
		{Host: "local.test", Scheme: "http", Addresses: []string{"127.0.0.0/8"}, SecretRef: &SecretRef{Namespace: "n", Name: "s"}},
	}})
	dialled, replies, errs := dials(t, c, "", "http://local.test/")
	wantDenied(t, replies[0], errs[0], "the address of local.test")
	if len(dialled) > 0 {
		t.Errorf("%q were dialled", dialled)
	}
}
