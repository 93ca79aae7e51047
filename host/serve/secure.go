package serve

import (
	"context"
	"crypto/tls"
	"net/http"

	"github.com/thole-dev/thole/host/access"
)

// Secure serves over TLS, and everything but the probes to callers who may get it.
type Secure struct {
	Certificate func() (*tls.Certificate, error)
	// Authorize returns [http.StatusOK] if the caller who has a token may get a path, else another
	// status and why. from is the address of the client.
	Authorize func(ctx context.Context, from, token, path string) (status int, why string)
}

func (s *Secure) tls() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.Certificate() },
		NextProtos:     []string{"http/1.1"}, // one connection cannot have many requests at once
	}
}

// closing serves requests by next, and ends each connection with the answer: nobody keeps one idle without
// a token. [keepOpen] is for those who have one.
func (s *Secure) closing(next http.Handler) http.Handler {
	if s == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		next.ServeHTTP(w, r)
	})
}

// keepOpen lets the connection be used again after the answer.
func keepOpen(w http.ResponseWriter) { w.Header().Del("Connection") }

// protect serves requests of callers who may get a path by next.
func (s *Secure) protect(path string, next http.Handler) http.Handler {
	if s == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, why := http.StatusUnauthorized, "there is no token: send the header Authorization: Bearer TOKEN, or the token as the password of any user"
		if token, ok := tokenOf(r); ok {
			status, why = s.Authorize(r.Context(), access.AddressOf(r), token, path)
		}
		if status == http.StatusOK {
			keepOpen(w)
			next.ServeHTTP(w, r)
			return
		}
		switch status {
		case http.StatusUnauthorized:
			w.Header().Add("WWW-Authenticate", `Bearer realm="thole"`)
			w.Header().Add("WWW-Authenticate", `Basic realm="thole", charset="UTF-8"`) // browsers ask for the password
		case http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, why, status)
	})
}

// tokenOf returns the token of a request. Browsers can send one as a password alone.
func tokenOf(r *http.Request) (token string, ok bool) {
	if _, password, basic := r.BasicAuth(); basic && len(r.Header.Values("Authorization")) == 1 {
		return password, access.IsToken(password)
	}
	return access.Bearer(r.Header)
}
