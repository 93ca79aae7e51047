package operator

import (
	"errors"
	"slices"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/codec"
)

// record is what a run leaves to the next one, in the memo of the object:
//
//	{"given":"1x8…","seen":"1x8…","pending":[{"a":"updated","g":2,"n":1,"t":1767225600000,"e":"broken"}]}
//
// It fits into the 4 KiB of a memo, by [maxKept], [maxState] and [maxMessage].
type record struct {
	given   string // version of the object in the last run
	seen    string // the same, with what that run has patched
	pending []event
}

const (
	maxKept  = 2    // events that wait beside the newest one
	maxState = 1024 // bytes of JSON
)

// event is an event, and what is known of the calls for it.
type event struct {
	action     Action
	generation int64
	calls      int
	due        int64  // when it is delivered again, in milliseconds since 1970
	message    string // of the error of the last call
	state      sdk.Raw
	kept       bool // a newer event was delivered since its last call
	done       bool // the last call succeeded, so that it is only delivered again if an effect fails
}

func (e *event) exported() Pending {
	return Pending{Action: e.action, Generation: e.generation, Calls: e.calls, Message: e.message}
}

// keep sets the state that a call has returned.
func (e *event) keep(state sdk.Value) error {
	if state == nil {
		return nil
	}
	text, err := sdk.Encode(state)
	if err == nil && len(text) > maxState {
		err = errors.New("larger than 1 KiB")
	}
	if err != nil {
		return sdk.Stalled("InvalidState", errors.New("encode State: "+err.Error()))
	}
	e.state = text
	return nil
}

// take removes an event, and returns it.
func (c *record) take(i int) event {
	e := c.pending[i]
	c.pending = slices.Delete(c.pending, i, i+1)
	return e
}

func (c *record) drop(matches func(event) bool) {
	c.pending = slices.DeleteFunc(c.pending, matches)
}

// first returns the index of the event that is due first, of those that are not done; -1 if
// there is none.
func (c *record) first() int {
	first := -1
	for i, e := range c.pending {
		if !e.done && (first < 0 || e.due < c.pending[first].due) {
			first = i
		}
	}
	return first
}

// AppendJSON implements the codec of the SDK.
func (c *record) AppendJSON(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = codec.AppendString(codec.AppendName(dst, "given"), c.given)
	dst = codec.AppendString(codec.AppendName(dst, "seen"), c.seen)
	dst = codec.AppendName(dst, "pending")
	events := len(dst)
	for i := range c.pending {
		dst = c.pending[i].append(append(dst, ','))
	}
	return codec.CloseObject(codec.CloseArray(dst, events), start), nil
}

func (e *event) append(dst []byte) []byte {
	start := len(dst)
	dst = codec.AppendString(codec.AppendName(dst, "a"), string(e.action))
	dst = codec.AppendInt(codec.AppendName(dst, "g"), e.generation)
	dst = codec.AppendInt(codec.AppendName(dst, "n"), int64(e.calls))
	dst = codec.AppendInt(codec.AppendName(dst, "t"), e.due)
	dst = codec.AppendString(codec.AppendName(dst, "e"), e.message)
	if e.state != nil {
		dst = append(codec.AppendName(dst, "s"), e.state...)
	}
	dst = codec.AppendBool(codec.AppendName(dst, "k"), e.kept)
	dst = codec.AppendBool(codec.AppendName(dst, "d"), e.done)
	return codec.CloseObject(dst, start)
}

// DecodeJSON implements the codec of the SDK.
func (c *record) DecodeJSON(r *sdk.Reader) {
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "given":
			codec.ReadString(r, &c.given)
		case "seen":
			codec.ReadString(r, &c.seen)
		case "pending":
			for more := r.FirstElement(); more; more = r.NextElement() {
				var e event
				e.read(r)
				c.pending = append(c.pending, e)
			}
		}
	}
}

func (e *event) read(r *sdk.Reader) {
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "a":
			codec.ReadString(r, (*string)(&e.action))
		case "g":
			codec.ReadInt(r, &e.generation)
		case "n":
			codec.ReadInt(r, &e.calls)
		case "t":
			codec.ReadInt(r, &e.due)
		case "e":
			codec.ReadString(r, &e.message)
		case "s":
			e.state = append(sdk.Raw(nil), r.Raw()...)
		case "k":
			codec.ReadBool(r, &e.kept)
		case "d":
			codec.ReadBool(r, &e.done)
		}
	}
}
