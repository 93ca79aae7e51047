package abi

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// The messages of [ImportHTTP]: SPEC.md, "http".

// HTTPHost is a host that a controller sends requests to.
type HTTPHost struct {
	Host    string   // a name or an address, with a port unless it is that of the scheme; *.example.com, or * for all that the policy allows
	Methods []string // of the requests; none: GET
}

// HTTPCall is the message of the capability http. The body follows its text, after a byte 0.
// The reply is an [HTTPReply].
type HTTPCall struct {
	Method  string // "" for GET
	URL     string // absolute, of the scheme https or http
	Headers []HTTPHeader
	Timeout int64  // ms, for the whole exchange; 0 means most of what is left until the deadline of the call
	Body    []byte `json:"-"` // any bytes
}

// HTTPHeader is one line of a header. A name with several values has several lines.
type HTTPHeader struct {
	Name  string
	Value string
}

// HTTPReply is the reply to an [HTTPCall]. The body follows its text, after a byte 0.
type HTTPReply struct {
	Status  int          // of the answer, such as 200; 0 if there is none
	URL     string       // the last one, if there were redirects
	Headers []HTTPHeader // ordered by name, without those of the connection
	Error   *Failure     // why there is no answer: Reason is one of the HTTP constants
	Body    []byte       `json:"-"` // any bytes
}

// Reasons of [HTTPReply.Error].
const (
	HTTPTimeout     = "Timeout"     // no complete answer in time; the server may have handled the request
	HTTPUnreachable = "Unreachable" // the name does not resolve, or the connection cannot be made or broke
	HTTPTLS         = "TLS"         // the server's certificate is not valid for the host
	HTTPRedirects   = "Redirects"   // more than 10 redirects, or one without a target
	HTTPCircuitOpen = "CircuitOpen" // the last requests to the host failed; none is sent for some time
	HTTPLimited     = "Limited"     // more requests than the policy allows at once, or in a second
	HTTPCredential  = "Credential"  // the credential of the host cannot be read, or the answer contains it
	HTTPBadAnswer   = "BadAnswer"   // the answer is not HTTP
)

// httpSeparator is between the text of a message and its body.
const httpSeparator = 0

// EncodeHTTPCall returns the message of the capability http.
func EncodeHTTPCall(c *HTTPCall) []byte {
	return withBody(message.Encode(256+len(c.Body), c.fields), c.Body)
}

// DecodeHTTPCall decodes and checks the message of the capability http. The host returns
// [CodeInvalid] to the guest if there is an error. Body aliases data.
func DecodeHTTPCall(data []byte) (*HTTPCall, error) {
	c := &HTTPCall{}
	text, body := cutBody(data)
	c.Body = body
	return message.Checked(c, decodeCall(text, c.fields), c.check)
}

// EncodeHTTPReply returns the reply to http.
func EncodeHTTPReply(r *HTTPReply) []byte {
	return withBody(message.Encode(512+len(r.Body), r.fields), r.Body)
}

// DecodeHTTPReply decodes the reply to http. Body aliases data.
func DecodeHTTPReply(data []byte) (*HTTPReply, error) {
	text, body := cutBody(data)
	r := &HTTPReply{Body: body}
	return message.Checked(r, message.Decode(text, r.fields), nil)
}

func withBody(text, body []byte) []byte {
	if len(body) == 0 {
		return text
	}
	return append(append(text, httpSeparator), body...)
}

// cutBody returns the text before the first byte 0, which no JSON text has, and the body
// behind it.
func cutBody(data []byte) (text, body []byte) {
	text, body, _ = bytes.Cut(data, []byte{httpSeparator})
	return text, body
}

func (h *HTTPHost) fields(f *message.Fields) {
	f.Required("host", &h.Host)
	message.Texts(f, "methods", MaxHTTPMethods, &h.Methods)
}

func (c *HTTPCall) fields(f *message.Fields) {
	f.Text("method", &c.Method)
	f.Required("url", &c.URL)
	message.Objects(f, "headers", MaxHTTPHeaders, &c.Headers, (*HTTPHeader).fields)
	f.Duration("timeout", &c.Timeout)
}

func (h *HTTPHeader) fields(f *message.Fields) {
	f.Required("name", &h.Name)
	f.Text("value", &h.Value)
}

func (r *HTTPReply) fields(f *message.Fields) {
	f.Count("status", &r.Status)
	f.Text("url", &r.URL)
	message.Objects(f, "headers", math.MaxInt, &r.Headers, (*HTTPHeader).fields)
	message.Pointer(f, "error", &r.Error, (*Failure).Fields)
}

// check checks what does not depend on the manifest and the policy. Whether the URL is one is
// for the host to find out.
func (c *HTTPCall) check() error {
	if c.URL == "" {
		return rawjson.NewError("url", "is required, such as https://api.example.com/")
	}
	if c.Method != "" {
		if err := CheckMethod(c.Method); err != nil {
			return rawjson.Within("method", err)
		}
	}
	return cmp.Or(
		message.CheckLength("body", len(c.Body), MaxHTTPBody),
		message.CheckLength("url", len(c.URL), MaxHTTPURL),
		message.CheckEach("headers", c.Headers, HTTPHeader.check),
	)
}

func (h HTTPHeader) check() error {
	if !consistsOf(h.Name, "!#$%&'*+-.^_`|~") { // RFC 9110, token
		return rawjson.NewError("name", rawjson.Quote(h.Name)+" is not the name of a header")
	}
	for i := range len(h.Value) {
		if c := h.Value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return rawjson.NewError("value", "of "+h.Name+" has a control character") // without it: it may be a credential
		}
	}
	return cmp.Or(message.CheckLength("name", len(h.Name), MaxName), message.CheckLength("value", len(h.Value), MaxHTTPHeader))
}

// CheckMethod refuses what is no method that a request can have. CONNECT would open a tunnel, and an
// answer to TRACE has the credential.
func CheckMethod(method string) error {
	for i := range len(method) {
		if c := method[i]; c < 'A' || c > 'Z' {
			return rawjson.NewError("", rawjson.Quote(method)+" is not a method in upper case, such as PUT")
		}
	}
	switch method {
	case "":
		return rawjson.NewError("", "is empty: name a method, such as PUT")
	case "CONNECT", "TRACE":
		return rawjson.NewError("", method+" is not supported: use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")
	}
	return message.CheckLength("", len(method), MaxHTTPMethod)
}

// check refuses what no URL can have as its host.
func (h HTTPHost) check() error {
	return cmp.Or(
		checkHost(h.Host),
		message.CheckEach("methods", h.Methods, CheckMethod),
		message.CheckDistinct("methods", "", h.Methods, func(m string) string { return m }),
	)
}

// Allows reports whether requests with the method can be sent to the host, which is in lower case and
// has a port unless it is that of the scheme.
func (h HTTPHost) Allows(method, host string) bool {
	return h.Has(host) && (slices.Contains(h.Methods, method) || len(h.Methods) == 0 && method == "GET")
}

// Has reports whether the entry is for the host.
func (h HTTPHost) Has(host string) bool {
	below, wildcard := strings.CutPrefix(h.Host, "*")
	return host == h.Host || wildcard && strings.HasSuffix(host, below) && len(host) > len(below)
}

// UsesHTTP reports whether a controller sends requests.
func (m *Manifest) UsesHTTP() bool {
	return slices.ContainsFunc(m.Controllers, func(c Controller) bool { return len(c.HTTP) > 0 })
}

// checkHTTP returns an error for a host that is given twice: of which entry would the methods
// be?
func (c Controller) checkHTTP() error {
	return cmp.Or(
		message.CheckEach("http", c.HTTP, HTTPHost.check),
		message.CheckDistinct("http", "host", c.HTTP, func(h HTTPHost) string { return h.Host }),
	)
}
