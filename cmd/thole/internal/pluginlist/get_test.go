package pluginlist

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secured starts a server that lists its plugins to who has the token "good", and returns its address
// without a scheme and the file of its authority.
func secured(t *testing.T) (address, authority string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /plugins", func(w http.ResponseWriter, r *http.Request) {
		switch token := r.Header.Get("Authorization"); token {
		case "Bearer good":
			_, _ = w.Write([]byte(reply))
		case "Bearer elsewhere":
			http.Redirect(w, r, "/other", http.StatusFound)
		default:
			http.Error(w, "\x1b[2Jwho is "+token+"?", http.StatusUnauthorized)
		}
	})
	mux.HandleFunc("GET /other", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(reply)) })
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return strings.TrimPrefix(server.URL, "https://"), write(t, string(text))
}

func write(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAHostThatAsksForAToken(t *testing.T) {
	address, authority := secured(t)
	good := write(t, "good\n")
	for name, c := range map[string]struct {
		server Server
		want   string // of the error; "": none
	}{
		"with the scheme":        {Server{Address: "https://" + address, TokenFile: good}, ""},
		"without the scheme":     {Server{Address: address, TokenFile: good}, ""},
		"in clear text":          {Server{Address: "http://" + address, TokenFile: good}, "400 Bad Request"},
		"the authority":          {Server{Address: address, TokenFile: good, AuthorityFile: authority}, ""},
		"another authority":      {Server{Address: address, TokenFile: good, AuthorityFile: good}, "has no certificate in PEM"},
		"no file of a authority": {Server{Address: address, TokenFile: good, AuthorityFile: "none"}, "read the certificate authority: open none"},
		"no token":               {Server{Address: address}, "the host answers 401 Unauthorized:  [2Jwho is ?"},
		"another token":          {Server{Address: address, TokenFile: write(t, "bad")}, "the host answers 401 Unauthorized:  [2Jwho is Bearer bad?"},
		"no file of a token":     {Server{Address: address, TokenFile: "none"}, "read the token: open none"},
		"a redirect":             {Server{Address: address, TokenFile: write(t, "elsewhere")}, "302 Found"},
	} {
		list, err := c.server.Get(t.Context())
		switch {
		case c.want == "" && (err != nil || len(list.plugins) != 2):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\x1b")):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestAPasswordInAnAddressIsInNoError(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	at := strings.Replace(server.URL, "http://", "http://me:hidden@", 1)
	if _, err := (Server{Address: at}).Get(t.Context()); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
}

// Beyond this machine a certificate that nobody knows is refused before the token is sent.
func TestOnlyLoopbackAddressesNeedNoAuthority(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1": true, "localhost": true, "::1": true, "10.0.0.1": false, "thole.thole-system.svc": false, "localhost.example": false, "127.0.0.1.example": false} {
		if c, err := (Server{}).tls(host); err != nil || c.InsecureSkipVerify != want {
			t.Errorf("%s is verified: %t, want %t", host, !c.InsecureSkipVerify, !want)
		}
	}
}

func TestATokenIsNotSentInClearText(t *testing.T) {
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(reply))
	}))
	t.Cleanup(server.Close)
	if _, err := (Server{Address: server.URL, TokenFile: write(t, "good")}).Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(sent) != 1 || sent[0] != "" {
		t.Errorf("sent were %q", sent)
	}
}
