package receives

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// MaxBody bounds the body of a request.
	MaxBody = 1 << 20
	// bodyTimeout is how long a client may take to send it.
	bodyTimeout = 10 * time.Second
)

// readBody reads the body of a request. The memory that it takes grows with what was sent.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	tooLarge := refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes: send smaller batches", MaxBody)
	if r.ContentLength > MaxBody {
		return nil, tooLarge
	}
	// An error is that the connection cannot do it; then the server's own limit is left.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.bodyTimeout))
	var body bytes.Buffer
	_, err := io.Copy(&body, http.MaxBytesReader(w, r.Body, MaxBody))
	_, isTooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		return body.Bytes(), nil
	case isTooLarge:
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(http.StatusRequestTimeout, "the body did not come in %s", h.bodyTimeout)
	}
	return nil, refuse(http.StatusBadRequest, "the body cannot be read: it is not sent as its headers state")
}
