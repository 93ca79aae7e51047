package egress

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	contract "github.com/thole-dev/thole/abi/http"
)

// exchange is one call of [Client.Do].
type exchange struct {
	client   *Client
	declared []contract.Host
	most     int          // bytes of the body
	may      func() error // see [Client.Do]; nil: all may be sent
	refused  error        // of may: what [Client.Do] returns

	rule      *rule    // of the first request; nil: none was allowed
	first     *request // nil: the call is not valid
	redirects int
}

// answer is an answer that has been read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends the request of a call, and those that redirects lead to.
func (x *exchange) do(ctx context.Context, call *contract.Call) (*contract.Reply, error) {
	q, err := x.client.parse(call)
	if err != nil {
		return nil, err
	}
	x.first = q
	ctx, cancel := withTimeout(ctx, call.Timeout)
	defer cancel()
	r, err := x.client.authorize(x.declared, q.method, q.to)
	x.rule = r // also if its address is not allowed
	if err != nil {
		return nil, err
	}
	if err := x.client.checkHeader(r, q.header); err != nil {
		return nil, err
	}
	leave, err := x.client.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return x.follow(withCallEnd(ctx), q, r)
}

// follow sends a request and follows redirects.
func (x *exchange) follow(ctx context.Context, q *request, r *rule) (*contract.Reply, error) {
	for {
		a, err := x.send(ctx, q, r)
		if err != nil {
			return nil, err
		}
		if !isRedirect(a.status) {
			return &contract.Reply{Status: a.status, URL: q.url.String(), Headers: replyHeader(a.header), Body: a.body}, nil
		}
		if x.redirects++; x.redirects > maxRedirects {
			return nil, failed(contract.Redirects, "there were more than %d redirects", maxRedirects)
		}
		if q, err = q.redirected(a.status, a.header["Location"]); err != nil {
			return nil, err
		}
		if r, err = x.client.authorize(x.declared, q.method, q.to); err != nil {
			return nil, err
		}
		if err := x.client.checkHeader(r, q.header); err != nil {
			return nil, err
		}
	}
}

// parse returns the request of a call.
func (c *Client) parse(call *contract.Call) (*request, error) {
	method := cmp.Or(call.Method, defaultMethod)
	if err := contract.CheckMethod(method); err != nil {
		return nil, invalid("the method of the request: %s", err.Error())
	}
	u, to, err := parseURL(call.URL)
	if err != nil {
		return nil, invalid("the URL of the request %s", err.Error())
	}
	header, err := requestHeader(call.Headers, "thole/"+c.config.Plugin)
	if err != nil {
		return nil, err
	}
	return &request{method: method, url: u, to: to, header: header, body: call.Body}, nil
}

const (
	// defaultTimeout is that of a call whose context has no deadline.
	defaultTimeout = 30 * time.Second
	// share of the time that is left until the deadline of the run is for a request, so that
	// the run can handle that there was no answer.
	share = 0.9
)

// withTimeout returns the context of a call. ms is the timeout that the plugin asks for, 0 for
// none.
func withTimeout(ctx context.Context, ms int64) (context.Context, context.CancelFunc) {
	timeout := defaultTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Duration(share * float64(time.Until(deadline)))
	}
	if ms > 0 && ms < int64(timeout/time.Millisecond) {
		timeout = time.Duration(ms) * time.Millisecond
	}
	return context.WithTimeout(ctx, timeout)
}

// slot waits until one more request may be sent.
func (c *Client) slot(ctx context.Context) (leave func(), err error) {
	leave, ok := c.state.slots.enter(ctx)
	if !ok {
		return nil, failed(contract.Limited, "the plugin has %d requests at once, as many as its policy allows (http.requests)", c.config.AtOnce)
	}
	return leave, nil
}

// send sends one request. The credential of a Secret that has changed is tried once, if the host
// has refused the one that was known.
func (x *exchange) send(ctx context.Context, q *request, r *rule) (*answer, error) {
	c := x.client
	c.readSecrets(ctx, q.to)
	with, err := c.credentialFor(ctx, r)
	if err != nil {
		return nil, err
	}
	a, err := x.sendOnce(ctx, q, r, with)
	if err != nil || a.status != http.StatusUnauthorized || with == nil || q.crossed {
		return a, err
	}
	if again, changed := c.secrets.refused(ctx, *r.SecretRef, with); changed {
		return x.sendOnce(ctx, q, r, again)
	}
	return a, nil
}

// sendOnce sends one request, within the limits of the plugin and of the host's circuit.
func (x *exchange) sendOnce(ctx context.Context, q *request, r *rule, with *credential) (a *answer, err error) {
	c := x.client
	if err := c.state.rate.Wait(ctx); err != nil {
		return nil, failed(contract.Limited, "the plugin sends more than %v requests in a second, as many as its policy allows (http.requestsPerSecond)", c.config.PerSecond)
	}
	leave, err := c.state.circuits.enter(q.to.scheme + "://" + q.to.authority())
	if err != nil {
		return nil, err
	}
	if x.may != nil {
		if x.refused = x.may(); x.refused != nil {
			leave(errNotSent)
			return nil, x.refused
		}
	}
	a, err = c.roundTrip(ctx, q, r, with, x.most)
	leave(err)
	if err != nil {
		return nil, err
	}
	needles := c.secrets.withheld.needles()
	found := needles.inHeader(ctx, a.header) || needles.in(ctx, a.body)
	switch {
	case ctx.Err() != nil:
		return nil, classifyError(ctx, ctx.Err(), true, false)
	case len(needles) > 0 && !searchable(a):
		return nil, failed(contract.Credential, "the answer is compressed otherwise than by gzip, or is a part of one: it cannot be searched for the credential of the host, and is withheld")
	case found:
		return nil, failed(contract.Credential, "the answer contains the credential of the host, and is withheld")
	}
	return a, nil
}

// searchable reports whether all of an answer is there as it was written.
func searchable(a *answer) bool {
	plain := !slices.ContainsFunc(a.header["Content-Encoding"], func(value string) bool { return value != "" && !strings.EqualFold(value, "identity") })
	return plain && a.status != http.StatusPartialContent && a.header["Content-Range"] == nil
}

// roundTrip sends a request and reads the answer.
func (c *Client) roundTrip(ctx context.Context, q *request, r *rule, with *credential, most int) (*answer, error) {
	var answered, uncertified atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			_, without := got.Conn.(*withoutCertificate)
			uncertified.Store(without)
		},
		GotFirstResponseByte: func() { answered.Store(true) },
	})
	response, err := c.transportFor(r, with, q.crossed).RoundTrip(q.message(traced, r, with))
	if err != nil {
		return nil, classifyError(ctx, err, answered.Load(), uncertified.Load())
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols {
		return nil, failed(contract.BadAnswer, "the server changes the protocol, which was not asked for")
	}
	a := &answer{status: response.StatusCode, header: response.Header}
	if isRedirect(a.status) {
		return a, nil // without the body, which nobody gets
	}
	a.body, err = io.ReadAll(io.LimitReader(response.Body, int64(most)+1))
	switch {
	case len(a.body) > most:
		return nil, ErrTooLarge
	case err != nil:
		return nil, classifyError(ctx, err, true, false)
	}
	return a, nil
}

// message returns the request as the transport sends it.
func (q *request) message(ctx context.Context, r *rule, with *credential) *http.Request {
	header := q.header.Clone()
	if with != nil && !q.crossed {
		with.set(header, r.Header)
	}
	m := &http.Request{
		Method: q.method, URL: q.url, Header: header, Host: q.to.authority(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}
	if len(q.body) > 0 {
		m.ContentLength = int64(len(q.body))
		m.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(q.body)), nil }
		m.Body, _ = m.GetBody()
	}
	return m.WithContext(ctx)
}
