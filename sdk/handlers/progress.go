package handlers

import (
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/codec"
)

// progress is what the handlers of a run leave to the next run, if some must be called again:
//
//	{"c":"1x8…","h":{"dns":{"n":2,"s":1767225600000,"u":1767225601000},"cert":{"n":1,"s":1767225600000,"e":true}}}
//
// A progress that holds an entry of each handler must fit in 4 KiB, see [Handlers.Controller].
type progress struct {
	content string // digest of the content of the object
	entries []entry
}

const (
	progressOverhead = len(`{"c":"0123456789abc","h":{}}`)
	maxEntry         = len(`,"":{"n":2147483647,"s":9007199254740992,"u":9007199254740992,"e":true,"d":"0123456789abc"}`)
)

// entry is the progress of one handler for one change.
type entry struct {
	handler string
	calls   int
	started int64  // of the first call, in milliseconds since 1970
	until   int64  // the handler is not called before; in milliseconds since 1970, 0 for no time
	done    bool   // it has succeeded, or failed for good; that of a timer only until the time
	value   string // digest of the value that it was called for, of OnField
}

// find returns the entry of a handler, an empty one if there is none.
func (p *progress) find(handler string) entry {
	for _, e := range p.entries {
		if e.handler == handler {
			return e
		}
	}
	return entry{handler: handler}
}

// rests reports whether the handler is not called at a time.
func (e *entry) rests(now time.Time) bool {
	return e.done && e.until == 0 || now.UnixMilli() < e.until
}

// AppendJSON implements the codec of the SDK.
func (p *progress) AppendJSON(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = codec.AppendString(codec.AppendName(dst, "c"), p.content)
	dst = codec.AppendName(dst, "h")
	entries := len(dst)
	for i := range p.entries {
		dst = p.entries[i].append(codec.AppendName(dst, p.entries[i].handler))
	}
	return codec.CloseObject(codec.CloseObject(dst, entries), start), nil
}

func (e *entry) append(dst []byte) []byte {
	start := len(dst)
	dst = codec.AppendInt(codec.AppendName(dst, "n"), int64(e.calls))
	dst = codec.AppendInt(codec.AppendName(dst, "s"), e.started)
	if e.until != 0 {
		dst = codec.AppendInt(codec.AppendName(dst, "u"), e.until)
	}
	if e.done {
		dst = codec.AppendBool(codec.AppendName(dst, "e"), true)
	}
	if e.value != "" {
		dst = codec.AppendString(codec.AppendName(dst, "d"), e.value)
	}
	return codec.CloseObject(dst, start)
}

// DecodeJSON implements the codec of the SDK.
func (p *progress) DecodeJSON(r *sdk.Reader) {
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "c":
			codec.ReadString(r, &p.content)
		case "h":
			for more := r.FirstMember(); more; more = r.NextMember() {
				e := entry{handler: r.Name()}
				e.read(r)
				p.entries = append(p.entries, e)
			}
		}
	}
}

func (e *entry) read(r *sdk.Reader) {
	for more := r.FirstMember(); more; more = r.NextMember() {
		switch r.Name() {
		case "n":
			codec.ReadInt(r, &e.calls)
		case "s":
			codec.ReadInt(r, &e.started)
		case "u":
			codec.ReadInt(r, &e.until)
		case "e":
			codec.ReadBool(r, &e.done)
		case "d":
			codec.ReadString(r, &e.value)
		}
	}
}
