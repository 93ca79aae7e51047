package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/sdk"
)

// ServeHTTP makes a handler the rest of the world: it answers what the plugin sends to the hosts of
// its manifest. No connection is made. Without a handler every host is unreachable. The policy is one
// that allows all that the manifest asks for.
func (w *World) ServeHTTP(handler http.Handler) { w.http = handler }

// FailHTTP makes the requests of the plugin fail with a reason, such as [sdk.HTTPTimeout]; "" ends
// that. The handler is still called for one that ends by HTTPTimeout, as a server may be.
func (w *World) FailHTTP(reason string) { w.failedHTTP = reason }

// HTTP returns the answer of the handler to a [contract.Call].
func (r asHost) HTTP(message []byte) ([]byte, int64) {
	r.tb.Helper()
	call, err := contract.DecodeCall(message)
	var request *http.Request
	if err == nil {
		request, err = requestOf(call)
	}
	if err != nil {
		return r.invalid("http", err)
	}
	answer, err := r.world.send(request, call.Body)
	if denied, ok := errors.AsType[*deniedError](err); ok {
		return r.denied("http", denied)
	}
	reply := &contract.Reply{}
	if err != nil {
		reply.Error = &abi.Failure{Reason: err.Error(), Message: "there is no answer"}
	} else {
		defer answer.Body.Close()
		reply.Status, reply.URL = answer.StatusCode, answer.Request.URL.String()
		for _, name := range slices.Sorted(maps.Keys(answer.Header)) {
			for _, value := range answer.Header[name] {
				reply.Headers = append(reply.Headers, contract.Header{Name: name, Value: value})
			}
		}
		reply.Body, _ = io.ReadAll(answer.Body) // of a recorder
	}
	text := contract.EncodeReply(reply)
	return text, int64(len(text))
}

// maxRedirects is how many redirects a host follows.
const maxRedirects = 10

// send sends a request, and those that redirects lead to, by the rules of the host: abi/http/SPEC.md.
func (w *World) send(request *http.Request, body []byte) (*http.Response, error) {
	for range maxRedirects + 1 {
		answer, err := w.roundTrip(request)
		if err != nil || !isRedirect(answer.StatusCode) {
			return answer, err
		}
		to, err := answer.Location()
		switch {
		case err != nil:
			return nil, noAnswer(sdk.HTTPRedirects)
		case request.URL.Scheme == "https" && to.Scheme == "http":
			return nil, &deniedError{errors.New("a redirect from https to http is not followed")}
		}
		next := request.Clone(request.Context())
		next.URL, next.Host = to, to.Host
		if answer.StatusCode == http.StatusSeeOther && next.Method != http.MethodHead || answer.StatusCode < http.StatusSeeOther && next.Method == http.MethodPost {
			next.Method, body = http.MethodGet, nil
		}
		next.Body = io.NopCloser(bytes.NewReader(body))
		request = next
	}
	return nil, noAnswer(sdk.HTTPRedirects)
}

func isRedirect(status int) bool {
	return slices.Contains([]int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}, status)
}

func requestOf(call *contract.Call) (*http.Request, error) {
	u, err := url.Parse(call.URL)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.User != nil:
		return nil, errors.New("url: is not an absolute URL of the scheme https or http, without user and password")
	}
	request, err := http.NewRequestWithContext(context.Background(), call.Method, call.URL, bytes.NewReader(call.Body))
	if err != nil {
		return nil, err
	}
	for _, h := range call.Headers {
		request.Header.Add(h.Name, h.Value)
	}
	return request, nil
}

// portOf has the port of each scheme, which a host in a manifest does not have.
var portOf = map[string]string{"http": ":80", "https": ":443"}

// roundTrip sends a request to the handler.
func (w *World) roundTrip(request *http.Request) (*http.Response, error) {
	host := strings.TrimSuffix(strings.ToLower(request.URL.Host), portOf[request.URL.Scheme])
	if !slices.ContainsFunc(contract.HostsOf(&w.controller), func(h contract.Host) bool { return h.Allows(request.Method, host) }) {
		return nil, &deniedError{fmt.Errorf("HTTP of the controller does not have %s of %s", request.Method, host)}
	}
	failed := w.failedHTTP
	if w.http == nil && failed == "" {
		failed = sdk.HTTPUnreachable
	}
	recorder := httptest.NewRecorder()
	if w.http != nil && (failed == "" || failed == sdk.HTTPTimeout) {
		w.http.ServeHTTP(recorder, request)
	}
	if failed != "" {
		return nil, noAnswer(failed)
	}
	answer := recorder.Result()
	answer.Request = request
	return answer, nil
}

type deniedError struct{ error }

// noAnswer is the reason of a request without an answer.
type noAnswer string

func (e noAnswer) Error() string { return string(e) }
