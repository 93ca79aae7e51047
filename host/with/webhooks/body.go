package webhooks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	contract "github.com/thole-dev/thole/abi/webhooks"
)

const (
	// maxBytes bounds one request. The largest object that the API server takes is 3 MiB, and
	// that of etcd is 1.5 MiB; an update has two.
	maxBytes = 8 << 20
	// maxConverted bounds the results of one conversion. An API server asks for one object, or for
	// those of a list that fit into one request, of which most stay about as large as they are.
	maxConverted = 2 * maxBytes
	// maxBytesInFlight bounds all reviews that are being read or answered, as text, and all
	// conversions with their results. Beside it a request takes a few times as much for a moment,
	// while its objects are copied and encoded for the guest, and the response is. The patch of a
	// mutation decodes them, which takes some ten times their size: that is done in an execution
	// slot, and so for as many at once as there are of these.
	maxBytesInFlight = 32 << 20
	// maxElements bounds the values of a request that are decoded as it comes in: without those
	// inside of objects, which stay text. Each takes up to a hundred bytes, of which a few are in
	// the text. An API server sends some dozens, and one for each object that it has converted.
	maxElements = 64 << 10
	// bodyPart is by how much a request grows while it is read. What a client has announced and
	// not sent takes no room.
	bodyPart = 32 << 10
)

// bodies bounds the bytes of all requests together. Conversions have a room of their own: who has no
// certificate may ask for them, and must not keep reviews out.
type bodies struct{ reviews, conversions *semaphore.Weighted }

func newBodies() bodies {
	return bodies{semaphore.NewWeighted(maxBytesInFlight), semaphore.NewWeighted(maxBytesInFlight)}
}

// begin returns what a request of an export holds: nothing yet.
func (b bodies) begin(export string) *held {
	if export == contract.ExportConvert {
		return &held{room: b.conversions}
	}
	return &held{room: b.reviews}
}

// held is what a request holds of a room.
type held struct {
	room *semaphore.Weighted
	n    atomic.Int64
}

// take takes room for n more bytes, unless that is not free.
func (h *held) take(n int64) error {
	if !h.room.TryAcquire(n) {
		return fmt.Errorf("the host is reading or answering %d MiB of such requests, which is the most that it does at once; try again", maxBytesInFlight>>20)
	}
	h.n.Add(n)
	return nil
}

// release frees all of it.
func (h *held) release() { h.room.Release(h.n.Swap(0)) }

// refusedBodyError is why a body was refused.
type refusedBodyError struct {
	reason string // of [Reasons]
	status int
	text   string
}

// read reads the body of a request into the room that it holds.
func (q *request) read(w http.ResponseWriter, r *http.Request) *refusedBodyError {
	if err := methodAndType(r); err != nil {
		return err
	}
	if r.ContentLength > maxBytes {
		return tooLarge()
	}
	body, rest := make([]byte, 0, min(max(int(r.ContentLength), 0)+1, bodyPart)), http.MaxBytesReader(w, r.Body, maxBytes)
	for {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		if more := int64(cap(body)) - q.held.n.Load(); more > 0 {
			if err := q.held.take(more); err != nil {
				return &refusedBodyError{refusedBusy, http.StatusServiceUnavailable, err.Error()}
			}
		}
		n, failed := rest.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		_, isTooLarge := errors.AsType[*http.MaxBytesError](failed)
		switch {
		case failed == io.EOF:
			q.body = body
			return nil
		case isTooLarge:
			return tooLarge()
		case failed != nil:
			return &refusedBodyError{refusedBody, http.StatusBadRequest, "read the review: " + failed.Error()}
		}
	}
}

func tooLarge() *refusedBodyError {
	return &refusedBodyError{refusedBody, http.StatusRequestEntityTooLarge, fmt.Sprintf("the review is larger than %d MiB", maxBytes>>20)}
}

// elements returns how many values a review has that are decoded; an object counts as one. The text
// need not be valid.
func elements(text []byte) (n int) {
	var keys [3]string // of the members around, by depth
	depth, begin := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			begin = i + 1
			i = endOfString(text, begin)
		case ':':
			if depth < len(keys) {
				keys[depth] = keyBefore(text, begin)
			}
		case '{', '[':
			if !staysText(keys, depth) {
				n++
			}
			depth++
		case '}', ']':
			depth = max(depth-1, 0)
		case ',':
			if !staysText(keys, depth) {
				n++
			}
		}
	}
	return n
}

// endOfString returns where the quote is that ends a string, or the length of the text.
func endOfString(text []byte, begin int) int {
	for i := begin; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

// keyBefore returns the string that begins at an index, if it is one of a few bytes.
func keyBefore(text []byte, begin int) string {
	const longest = len("oldObject")
	end := bytes.IndexByte(text[begin:min(begin+longest+1, len(text))], '"')
	return string(text[begin : begin+max(end, 0)])
}

// staysText reports whether what is at a depth is part of an object: of the fields of type
// RawExtension of both reviews.
func staysText(keys [3]string, depth int) bool {
	if keys[1] != "request" {
		return false
	}
	switch keys[2] {
	case "object", "oldObject", "options":
		return depth > 2
	case "objects":
		return depth > 3
	}
	return false
}
