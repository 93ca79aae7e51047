package receives

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/thole-dev/thole/host/sanitize"
)

// This file has the answers to requests.

// refusal is why a request is refused.
type refusal struct {
	status int
	text   string
	plugin string        // that the refused event is for; "" if that is not known
	again  time.Duration // when the request may be sent again; 0: it should not be
	other  bool          // another replica of the host may take it
	cause  error         // for the log of the host; nil: none
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// busy is a refusal of what is to be sent again.
func busy(format string, args ...any) *refusal {
	return &refusal{status: http.StatusServiceUnavailable, text: fmt.Sprintf(format, args...), again: time.Second, other: true}
}

// because returns the refusal with an error for the log.
func (r *refusal) because(err error) *refusal {
	r.cause = err
	return r
}

// of returns the refusal of an event of a plugin.
func (r *refusal) of(plugin string) *refusal {
	r.plugin = plugin
	return r
}

// within returns the refusal of an event of a batch.
func (r *refusal) within(e *received) *refusal {
	if e.batched {
		r.text = fmt.Sprintf("event %d: %s", e.index, r.text)
	}
	return r
}

// maxShown bounds what an answer shows of a request.
const maxShown = 200

func quoted(s string) string { return strconv.Quote(sanitize.Truncate(s, maxShown)) }

// Codes returns the statuses that requests are answered with.
func Codes() []int {
	return []int{
		http.StatusAccepted, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests, http.StatusServiceUnavailable,
	}
}

// write answers a request that is refused. The connection is closed if another replica is to be tried,
// which a client behind a Service reaches by another connection alone, and if there may be a body that
// was not read, which the server would otherwise read.
func (r *refusal) write(w http.ResponseWriter, bodyRead bool) {
	header := w.Header()
	switch {
	case r.status == http.StatusUnauthorized:
		header.Set("WWW-Authenticate", "Bearer")
	case r.status == http.StatusMethodNotAllowed:
		header.Set("Allow", http.MethodPost)
	case r.again > 0:
		header.Set("Retry-After", strconv.Itoa(int((r.again+time.Second-1)/time.Second)))
	}
	if r.other || !bodyRead {
		header.Set("Connection", "close")
	}
	http.Error(w, r.text, r.status)
}

// accepted answers a request whose events are queued.
func accepted(w http.ResponseWriter, objects int) {
	text, _ := json.Marshal(map[string]int{"objects": objects}) // cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(append(text, '\n')) // a client that is gone has sent its events nevertheless
}
