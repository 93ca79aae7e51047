package effect

import (
	"io"
	"net/http"
)

// This file keeps a replica that does not lead its plugin from writing: [Config.MayWrite].

// guard is a transport that sends no write which may not be sent.
type guard struct {
	next     http.RoundTripper
	mayWrite func() error
	begin    func() (end func(), err error) // nil: nothing is to be done
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
	end, err := g.beginWrite()
	if err != nil {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, err
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

func (g guard) beginWrite() (end func(), err error) {
	if g.begin == nil {
		return func() {}, g.check()
	}
	end, err = g.begin()
	if err != nil {
		return nil, unsentError{err}
	}
	return end, nil
}

func (g guard) check() error {
	if err := g.mayWrite(); err != nil {
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
