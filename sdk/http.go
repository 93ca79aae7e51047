package sdk

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi/http"
)

// HTTPHost is a host that a controller sends requests to by [Run.HTTP].
//
//	type HTTPHost struct {
//		Host    string   // a name or an address, with a port unless that is the default of the scheme; *.example.com, or * for all that the policy allows
//		Methods []string // of the requests; none: GET
//	}
//
//	func (h HTTPHost) Allows(method, host string) bool
//	func (h HTTPHost) Has(host string) bool            // reports whether the entry is for the host
type HTTPHost = http.Host

// HTTPHeader is one line of a header.
//
//	type HTTPHeader struct {
//		Name  string
//		Value string
//	}
type HTTPHeader = http.Header

// HTTPRequest is a request to another system.
type HTTPRequest struct {
	Method  string // "" for GET
	URL     string // absolute, https or http, without user and password
	Headers []HTTPHeader
	// Timeout limits the whole exchange; 0 leaves the run a tenth of its time.
	Timeout time.Duration
	Body    []byte // at most 1 MiB
}

// HTTPResponse is the answer to an [HTTPRequest], whatever its status.
type HTTPResponse struct {
	Status  int
	URL     string // that answered, after redirects
	Headers []HTTPHeader
	Body    []byte
}

// Header returns the first value of a header, "" if there is none. The case of the name does not
// matter.
func (r *HTTPResponse) Header(name string) string {
	i := slices.IndexFunc(r.Headers, func(h HTTPHeader) bool { return strings.EqualFold(h.Name, name) })
	if i < 0 {
		return ""
	}
	return r.Headers[i].Value
}

// OK reports whether the status is one of success, 200 to 299.
func (r *HTTPResponse) OK() bool { return r.Status/100 == 2 }

// Reasons of an [HTTPError].
const (
	HTTPTimeout     = http.Timeout     // no complete answer in time
	HTTPUnreachable = http.Unreachable // no connection, or it broke
	HTTPTLS         = http.TLS         // the certificate of the server is not valid for the host
	HTTPRedirects   = http.Redirects   // too many redirects
	HTTPCircuitOpen = http.CircuitOpen // the last requests to the host failed: none is sent for some time
	HTTPLimited     = http.Limited     // more requests than the policy allows
	HTTPCredential  = http.Credential  // the credential of the host cannot be read, or the answer contains it
	HTTPBadAnswer   = http.BadAnswer   // the answer is not HTTP
)

// HTTPError is the error of a request that got no answer.
type HTTPError struct {
	Method string
	URL    string // without the query, which may have what must not be told
	Reason string // one of the HTTP constants; "" with an Err of this package
	Err    error  // such as [ErrDenied] or [ErrTooLarge]
}

func (e *HTTPError) Error() string {
	text := "http " + e.Method + " " + e.URL + ": "
	if errors.Is(e.Err, ErrDenied) {
		return text + "denied by the manifest or by the policy of the plugin: the log of the host states what would allow it"
	}
	if errors.Is(e.Err, ErrTooLarge) {
		return text + "the answer is longer than " + strconv.Itoa(http.MaxAnswer>>20) + " MiB: ask for less at once"
	}
	return text + e.Err.Error()
}

// Unwrap returns Err.
func (e *HTTPError) Unwrap() error { return e.Err }

// HTTP sends a request to another system and waits for the answer. Host and method must be in HTTP
// of the [Controller], and the policy of the plugin must allow them; the host of the plugin adds the
// credential that the policy names, which the plugin never has. The error is an [*HTTPError]. A
// status such as 404 or 500 is none.
//
// Unlike an intent, a request is made at once. A run that is repeated makes its requests again, also
// those that had succeeded, and a run that fails later does not undo them. So send what can be sent
// again: a PUT of the whole state, or a request with the key of [ObjectMeta.IdempotencyKey]. An error
// such as [HTTPTimeout] leaves open whether the request was handled.
//
// While the plugin waits it uses no fuel and keeps no other run from executing. The deadline of the
// run goes on.
func (r *Run) HTTP(request HTTPRequest) (*HTTPResponse, error) {
	reply, code := r.host.HTTP(http.EncodeCall(&http.Call{
		Method: request.Method, URL: request.URL, Headers: request.Headers, Timeout: milliseconds(request.Timeout), Body: request.Body,
	}))
	failed := &HTTPError{Method: request.Method, Err: codeError(code)}
	var answer *http.Reply
	if failed.Err == nil {
		answer, failed.Err = http.DecodeReply(reply)
	}
	if failed.Err == nil && answer.Error != nil {
		failed.Reason, failed.Err = answer.Error.Reason, errors.New(answer.Error.Reason+": "+answer.Error.Message)
	}
	if failed.Err == nil {
		return &HTTPResponse{Status: answer.Status, URL: answer.URL, Headers: answer.Headers, Body: answer.Body}, nil
	}
	if failed.Method == "" {
		failed.Method = "GET"
	}
	failed.URL, _, _ = strings.Cut(request.URL, "?")
	return nil, failed
}

// HTTP is [Run.HTTP]. A step is repeated when the host has failed, so the same holds for its requests.
func (s *Step) HTTP(request HTTPRequest) (*HTTPResponse, error) { return s.run.HTTP(request) }

// IdempotencyKey returns a key for one effect of an object in its present generation: the same in each
// repetition of a run, and another one when the spec has changed. Many services take it in the header
// Idempotency-Key and do a request with it once. effect tells several requests of a run apart.
func (m ObjectMeta) IdempotencyKey(effect string) string {
	return m.UID + "-" + strconv.FormatInt(m.Generation, 10) + "-" + effect
}
