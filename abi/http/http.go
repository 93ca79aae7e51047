// Package http is what hosts and guests share of the capability by which a plugin sends HTTP requests. SPEC.md
// specifies it.
package http

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Name is the name of the capability: of its section in a controller of a manifest.
const Name = "http"

// Import is the function of the host that sends a request.
const Import = "http" // (ptr, len i32) -> i64: a capability call

// Limits of requests. Sizes are in bytes.
const (
	MaxAnswer  = 4 << 20  // of an answer, which the host keeps until the guest has read it
	MaxHosts   = 64       // of a controller
	MaxHost    = 260      // of a host with its port
	MaxMethods = 16       // of one of them
	MaxMethod  = 32       // of a method
	MaxURL     = 8 << 10  // of a request
	MaxHeaders = 128      // of a request, and of an answer
	MaxHeader  = 16 << 10 // of the value of one of them
	MaxBody    = 1 << 20  // of a request
)

// MaxMessage is the size of the message of [Import].
const MaxMessage = abi.MaxCall + 1 + MaxBody

// Host is a host that a controller sends requests to.
type Host struct {
	Host    string   // a name or an address, with a port unless that is the default of the scheme; *.example.com, or * for all that the policy allows
	Methods []string // of the requests; none: GET
}

// Call is the message of the capability http. The body follows its text, after a byte 0.
// The reply is a [Reply].
type Call struct {
	Method  string // "" for GET
	URL     string // absolute, of the scheme https or http
	Headers []Header
	Timeout int64  // ms, for the whole exchange; 0 means most of what is left until the deadline of the call
	Body    []byte `json:"-"` // any bytes
}

// Header is one line of a header. A name with several values has several lines.
type Header struct {
	Name  string
	Value string
}

// Reply is the reply to a [Call]. The body follows its text, after a byte 0.
type Reply struct {
	Status  int          // of the answer, such as 200; 0 if there is none
	URL     string       // the last one, if there were redirects
	Headers []Header     // ordered by name, without hop-by-hop headers
	Error   *abi.Failure // why there is no answer: Reason is one of the constants
	Body    []byte       `json:"-"` // any bytes
}

// The reasons of [Reply.Error].
const (
	Timeout     = "Timeout"     // no complete answer in time; the server may have handled the request
	Unreachable = "Unreachable" // the name does not resolve, or the connection cannot be made or broke
	TLS         = "TLS"         // the server's certificate is not valid for the host
	Redirects   = "Redirects"   // more than 10 redirects, or one without a target
	CircuitOpen = "CircuitOpen" // the last requests to the host failed; none is sent for some time
	Limited     = "Limited"     // more requests than the policy allows at once, or in a second
	Credential  = "Credential"  // the credential of the host cannot be read, or the answer contains it
	BadAnswer   = "BadAnswer"   // the answer is not HTTP
)

// Reasons returns all of them.
func Reasons() []string {
	return []string{Timeout, Unreachable, TLS, Redirects, CircuitOpen, Limited, Credential, BadAnswer}
}

// separator is between the text of a message and its body.
const separator = 0

// EncodeCall returns the message of the capability http.
func EncodeCall(c *Call) []byte {
	return withBody(message.Encode(256+len(c.Body), c.fields), c.Body)
}

// DecodeCall decodes and checks the message of the capability http. The host returns
// [abi.CodeInvalid] to the guest if there is an error. Body aliases data.
func DecodeCall(data []byte) (*Call, error) {
	c := &Call{}
	text, body := cutBody(data)
	c.Body = body
	return message.Checked(c, abi.DecodeCall(text, c.fields), c.check)
}

// EncodeReply returns the reply to http.
func EncodeReply(r *Reply) []byte {
	return withBody(message.Encode(512+len(r.Body), r.fields), r.Body)
}

// DecodeReply decodes the reply to http. Body aliases data.
func DecodeReply(data []byte) (*Reply, error) {
	text, body := cutBody(data)
	r := &Reply{Body: body}
	return message.Checked(r, message.Decode(text, r.fields), nil)
}

func withBody(text, body []byte) []byte {
	if len(body) == 0 {
		return text
	}
	return append(append(text, separator), body...)
}

// cutBody returns the text before the first byte 0, which no JSON text has, and the body
// behind it.
func cutBody(data []byte) (text, body []byte) {
	text, body, _ = bytes.Cut(data, []byte{separator})
	return text, body
}

func (h *Host) fields(f *message.Fields) {
	f.Required("host", &h.Host)
	message.Texts(f, "methods", MaxMethods, &h.Methods)
}

func (c *Call) fields(f *message.Fields) {
	f.Text("method", &c.Method)
	f.Required("url", &c.URL)
	message.Objects(f, "headers", MaxHeaders, &c.Headers, (*Header).fields)
	f.Duration("timeout", &c.Timeout)
}

func (h *Header) fields(f *message.Fields) {
	f.Required("name", &h.Name)
	f.Text("value", &h.Value)
}

func (r *Reply) fields(f *message.Fields) {
	f.Count("status", &r.Status)
	f.Text("url", &r.URL)
	message.Objects(f, "headers", math.MaxInt, &r.Headers, (*Header).fields)
	message.Pointer(f, "error", &r.Error, (*abi.Failure).Fields)
}

// check checks what does not depend on the manifest and the policy. Whether the URL is one is
// for the host to find out.
func (c *Call) check() error {
	if c.URL == "" {
		return rawjson.NewError("url", "is required, such as https://api.example.com/")
	}
	if c.Method != "" {
		if err := CheckMethod(c.Method); err != nil {
			return rawjson.Within("method", err)
		}
	}
	return cmp.Or(
		message.CheckLength("body", len(c.Body), MaxBody),
		message.CheckLength("url", len(c.URL), MaxURL),
		message.CheckEach("headers", c.Headers, Header.check),
	)
}

func (h Header) check() error {
	if !message.ConsistsOf(h.Name, "!#$%&'*+-.^_`|~") { // RFC 9110, token
		return rawjson.NewError("name", rawjson.Quote(h.Name)+" is not the name of a header")
	}
	for i := range len(h.Value) {
		if c := h.Value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return rawjson.NewError("value", "of "+h.Name+" has a control character") // without it: it may be a credential
		}
	}
	return cmp.Or(message.CheckLength("name", len(h.Name), abi.MaxName), message.CheckLength("value", len(h.Value), MaxHeader))
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
	return message.CheckLength("", len(method), MaxMethod)
}

// check refuses what no URL can have as its host.
func (h Host) check() error {
	return cmp.Or(
		checkHost(h.Host),
		message.CheckEach("methods", h.Methods, CheckMethod),
		message.CheckDistinct("methods", "", h.Methods, func(m string) string { return m }),
	)
}

// Allows reports whether requests with the method can be sent to the host, which is in lower case and
// has a port unless that is the default of the scheme.
func (h Host) Allows(method, host string) bool {
	return h.Has(host) && (slices.Contains(h.Methods, method) || len(h.Methods) == 0 && method == "GET")
}

// Has reports whether the entry is for the host.
func (h Host) Has(host string) bool {
	below, wildcard := strings.CutPrefix(h.Host, "*")
	return host == h.Host || wildcard && strings.HasSuffix(host, below) && len(host) > len(below)
}

// Encode returns the section of a controller with these hosts.
func Encode(hosts []Host) []byte { return message.EncodeArray(hosts, (*Host).fields) }

// Check checks the section of a controller, see [abi.Manifest.CheckSections].
func Check(_ *abi.Controller, section []byte) error {
	_, err := Decode(section)
	return err
}

// Decode decodes and checks the section of a controller. Every error is a [*rawjson.Error]. A host that is
// given twice is an error: its methods would be those of one entry or of the other.
func Decode(section []byte) ([]Host, error) {
	hosts, err := message.DecodeArray(section, MaxHosts, (*Host).fields)
	if err != nil {
		return nil, err
	}
	return hosts, cmp.Or(
		message.CheckEach("", hosts, Host.check),
		message.CheckDistinct("", "host", hosts, func(h Host) string { return h.Host }),
	)
}

// HostsOf returns the hosts that a controller of a checked manifest sends requests to; none if it sends none.
func HostsOf(c *abi.Controller) []Host {
	section := c.Section(Name)
	if section == nil {
		return nil
	}
	hosts, _ := Decode(section) // was checked
	return hosts
}
