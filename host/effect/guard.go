package effect

import (
	"io"
	"net/http"
)

// This file keeps a replica that does not lead its plugin from writing: [Config.Lease].

// Lease is the right to write for a plugin. Its methods do not block.
type Lease interface {
	// Check returns why nothing may be written now, because another replica of the host may
	// lead the plugin.
	Check() error
	// BeginWrite is called before each write is sent, and end when it was answered. The error
	// is that of Check.
	BeginWrite() (end func(), err error)
}

// guard is a transport that sends no write which may not be sent.
type guard struct {
	next  http.RoundTripper
	lease Lease
}

// unsentError is why a write was not sent.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// RoundTrip implements [http.RoundTripper]. A write may have to wait for a connection, be
// sent again on another one, or be sent in parts. So its body, too, is sent only as long as the
// write may be: without all of it the API server performs no request.
func (g guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		return g.next.RoundTrip(request)
	}
	end, err := g.lease.BeginWrite()
	if err != nil {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, unsentError{err}
	}
	defer end()
	guarded := request.WithContext(request.Context()) // a RoundTripper must not change the request
	guarded.Body = g.guardBody(request, request.Body)
	if request.GetBody != nil {
		guarded.GetBody = func() (io.ReadCloser, error) {
			body, err := request.GetBody()
			return g.guardBody(request, body), err
		}
	}
	return g.next.RoundTrip(guarded)
}

func (g guard) check() error {
	if err := g.lease.Check(); err != nil {
		return unsentError{err}
	}
	return nil
}

func (g guard) guardBody(request *http.Request, body io.ReadCloser) io.ReadCloser {
	if body == nil {
		return nil
	}
	return &guardedBody{body, g, request.ContentLength}
}

// guardedBody is the body of a write.
type guardedBody struct {
	io.ReadCloser
	guard guard
	left  int64 // bytes until the write is complete; negative: not known
}

// Read implements [io.Reader]. A transport may read on after the last byte.
func (b *guardedBody) Read(p []byte) (n int, err error) {
	if b.left != 0 {
		if err := b.guard.check(); err != nil {
			return 0, err
		}
	}
	n, err = b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	return n, err
}
