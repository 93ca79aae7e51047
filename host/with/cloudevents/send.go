package cloudevents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/thole-dev/thole/host/with/http/egress"
)

const (
	// maxBatch and maxBatchBytes bound a request in mode batch.
	maxBatch      = 100
	maxBatchBytes = 512 << 10
	// maxAnswer is how much of an answer is read. A larger one counts as a failure: nothing is known
	// of it then, not even its status.
	maxAnswer = 64 << 10
	// sendTimeout is that of one request.
	sendTimeout = 10 * time.Second
	// maxRetryAfter bounds the pause that a sink can ask for.
	maxRetryAfter = 10 * time.Minute
)

// verdict is what the answer of a sink means.
type verdict int

const (
	taken   verdict = iota
	refused         // the sink will never take the event
	failed          // to be sent again
)

// answer is what has become of a request.
type answer struct {
	verdict verdict
	why     string        // unless the events were taken
	after   time.Duration // the pause that the sink asks for; 0: none
}

// target is how a sink is reached.
type target struct {
	url    string
	mode   Mode
	hosts  []egress.Host // that of the URL: redirects to others are denied
	client *egress.Client
}

// batch returns how many events, of how many bytes, a request may have.
func (t *target) batch() (most, size int) {
	if t.mode == ModeBatch {
		return maxBatch, maxBatchBytes
	}
	return 1, maxBytes
}

// send sends events.
func (t *target) send(ctx context.Context, events [][]byte) answer {
	call, err := t.call(events)
	if err != nil {
		return answer{verdict: refused, why: err.Error()}
	}
	reply, err := t.client.Do(ctx, t.hosts, call, maxAnswer, nil, nil)
	return judge(reply, err, time.Now())
}

// call returns the request with events, of which there is one unless the mode is batch.
func (t *target) call(events [][]byte) (*egress.Call, error) {
	call := &egress.Call{Method: http.MethodPost, URL: t.url, Timeout: sendTimeout.Milliseconds()}
	contentType := event.ApplicationCloudEventsJSON
	switch t.mode {
	case ModeBinary:
		return call, writeBinary(call, events[0])
	case ModeBatch:
		contentType = event.ApplicationCloudEventsBatchJSON
		call.Body = jsonArray(events)
	default:
		call.Body = events[0]
	}
	call.Headers = []egress.Header{{Name: "Content-Type", Value: contentType}}
	return call, nil
}

// jsonArray returns a JSON array.
func jsonArray(elements [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(elements, []byte{','})...), ']')
}

// writeBinary writes an event to a request with its attributes in headers.
func writeBinary(call *egress.Call, text []byte) error {
	var e event.Event
	if err := json.Unmarshal(text, &e); err != nil {
		return fmt.Errorf("decode event: %w", err)
	}
	request := &http.Request{Header: http.Header{}}
	if err := cehttp.WriteRequest(binding.WithForceBinary(context.Background()), binding.ToMessage(&e), request); err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	for name, values := range request.Header {
		for _, value := range values {
			call.Headers = append(call.Headers, egress.Header{Name: name, Value: value})
		}
	}
	var err error
	if request.Body != nil {
		call.Body, err = io.ReadAll(request.Body)
	}
	return err
}

// judge returns what the reply to a request means. err is that of [egress.Client.Do].
func judge(reply *egress.Reply, err error, now time.Time) answer {
	_, invalid := errors.AsType[*egress.InvalidError](err)
	switch {
	case invalid:
		return answer{verdict: refused, why: err.Error()}
	case err != nil: // also a redirect or an address that is denied, which its administrator may correct
		return answer{verdict: failed, why: err.Error()}
	case reply.Error != nil:
		return answer{verdict: failed, why: reply.Error.Reason + ": " + reply.Error.Message}
	case reply.Status/100 == 2:
		return answer{verdict: taken}
	}
	a := answer{verdict: refused, why: fmt.Sprintf("the sink answers %d", reply.Status), after: retryAfter(reply.Headers, now)}
	if isTemporary(reply.Status) {
		a.verdict = failed
	}
	return a
}

// isTemporary reports whether a status that is not 2xx may become another one for the same event. A
// credential that is being replaced and a path without a server behind it are no fault of the event.
func isTemporary(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status/100 != 4
}

// retryAfter returns the pause that an answer asks for, in seconds or until a time; 0 if it asks for
// none.
func retryAfter(header []egress.Header, now time.Time) time.Duration {
	for _, line := range header {
		if !strings.EqualFold(line.Name, "Retry-After") {
			continue
		}
		if seconds, err := strconv.ParseUint(strings.TrimSpace(line.Value), 10, 64); err == nil {
			return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
		}
		if at, err := http.ParseTime(line.Value); err == nil {
			return min(max(at.Sub(now), 0), maxRetryAfter)
		}
	}
	return 0
}
