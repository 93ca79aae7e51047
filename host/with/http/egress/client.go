package egress

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/sanitize"
)

// Config configures a [Client].
type Config struct {
	Plugin  string
	Entries Entries // of the policy, which has been checked
	DryRun  bool    // only GET, HEAD and OPTIONS are sent

	// State is that of the plugin, which gets the limits of this configuration; nil for one of the client
	// alone.
	State *State

	AtOnce    int     // requests at once; default 16
	PerSecond float32 // requests in a second, redirects included; default 50

	// Secrets reads the Secrets of the entries; nil if they name none.
	Secrets SecretReader
	// Observe is called for each call of [Client.Do]. host is that of the policy's entry,
	// "" if there is none. code is a status, such as 200, or one of [Codes]. It may be nil.
	Observe func(host, code string, took time.Duration)
	Logger  hclog.Logger
	// Resolver resolves names; default that of the system.
	Resolver *net.Resolver
	Now      func() time.Time // of Secrets, and of circuits without State; default time.Now
}

// What is sent, and what comes back.
type (
	Host   = contract.Host // of a manifest
	Call   = contract.Call
	Header = contract.Header
	Reply  = contract.Reply
)

// Client sends the requests of one revision of a plugin. Its methods may be called
// concurrently.
type Client struct {
	config   Config
	rules    []*rule
	secrets  *secrets
	state    *State
	dialling func(netip.AddrPort) error // called for what is dialled, in tests

	mu         sync.Mutex
	transports map[transportKey]keptTransport
	running    int // calls of Do
	closed     bool
}

// New returns a client. It must be closed.
func New(c Config) *Client {
	c.AtOnce, c.PerSecond = cmp.Or(c.AtOnce, 16), cmp.Or(c.PerSecond, 50)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.State == nil {
		c.State = newState(c.Now)
	}
	c.State.limit(c.AtOnce, c.PerSecond)
	return &Client{
		config: c, rules: rulesOf(c.Entries), state: c.State, secrets: newSecrets(c.Secrets, c.Now, &c.State.withheld),
		transports: map[transportKey]keptTransport{},
	}
}

// Close closes the connections that no request uses, and those of the others once they have
// ended. [Client.Do] may be called by runs that end later than their revision.
func (c *Client) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.closeIdle()
}

func (c *Client) closeIdle() {
	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
}

// enter counts a call of Do until the function that it returns is called.
func (c *Client) enter() (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.running--; c.running == 0 && c.closed {
			c.closeIdle()
		}
	}
}

// Do sends a request. declared are the hosts of the manifest's controller. The body of the
// answer has at most that many bytes, otherwise the error is [ErrTooLarge].
//
// may is called directly before each request is sent, also for those that redirects lead to, and after
// all waiting for the limits; nil if all may be sent. If it returns an error, nothing more is sent,
// and Do returns that error as it is.
//
// ended is called when the call has ended, with all but the run; nil if nobody wants to know.
//
// Other errors are a [DeniedError], an [InvalidError], or the cause of the end of ctx. Any
// other failure is the Error of the reply. The call ends before the deadline of ctx.
func (c *Client) Do(ctx context.Context, declared []contract.Host, call *contract.Call, most int, may func() error, ended func(events.RequestEnded)) (*contract.Reply, error) {
	defer c.enter()()
	began := time.Now()
	x := &exchange{client: c, declared: declared, most: most, may: may}
	reply, err := x.do(ctx, call)
	if f, ok := errors.AsType[*failure](err); ok {
		reply, err = &contract.Reply{Error: &abi.Failure{Reason: f.reason, Message: f.message}}, nil
	}
	if x.refused != nil {
		reply, err = nil, x.refused
	} else if ctx.Err() != nil && (err != nil || reply.Error != nil) {
		reply, err = nil, context.Cause(ctx)
	}
	e := x.observe(reply, err, began)
	if ended != nil {
		ended(e)
	}
	return reply, err
}

// observe counts and logs a call. The log has neither the query of the URL, nor headers, nor
// anything of the answer; the event has not even the path.
func (x *exchange) observe(reply *contract.Reply, err error, began time.Time) events.RequestEnded {
	code, host, took := codeOf(reply, err), "", time.Since(began)
	if x.rule != nil {
		host = x.rule.Host
	}
	if x.client.config.Observe != nil {
		x.client.config.Observe(host, code, took)
	}
	e := events.RequestEnded{Since: began, Duration: took, Redirects: x.redirects, Code: code}
	if err == nil && reply.Error == nil {
		e.Status = reply.Status
	}
	if x.first != nil {
		e.Method, e.Host = x.first.method, sanitize.Truncate(x.first.to.authority(), maxLoggedURL)
		x.client.config.Logger.Debug("http", "method", x.first.method, "url", sanitize.Line(sanitize.Truncate(x.first.to.scheme+"://"+x.first.to.authority()+x.first.url.EscapedPath(), maxLoggedURL)),
			"code", code, "redirects", x.redirects, "took", took)
	}
	return e
}

const maxLoggedURL = 256

// Codes of calls without an answer, beside the reasons of abi in lower case.
const (
	codeDenied   = "denied"
	codeInvalid  = "invalid"
	codeTooLarge = "toolarge"
	codeCanceled = "canceled"
)

// codeOf returns the label of a call in metrics. A server cannot make more of them than there
// are registered statuses.
func codeOf(reply *contract.Reply, err error) string {
	_, isDenied := errors.AsType[*DeniedError](err)
	_, isInvalid := errors.AsType[*InvalidError](err)
	switch {
	case isDenied:
		return codeDenied
	case isInvalid:
		return codeInvalid
	case errors.Is(err, ErrTooLarge):
		return codeTooLarge
	case err != nil:
		return codeCanceled
	case reply.Error != nil:
		return strings.ToLower(reply.Error.Reason)
	case http.StatusText(reply.Status) == "":
		return strconv.Itoa(reply.Status/100) + "xx"
	}
	return strconv.Itoa(reply.Status)
}

// Codes returns the codes of calls that have failed, for metrics that exist before the first one.
func Codes() []string {
	codes := []string{codeDenied, codeInvalid, codeTooLarge, codeCanceled}
	for _, reason := range contract.Reasons() {
		codes = append(codes, strings.ToLower(reason))
	}
	return codes
}
