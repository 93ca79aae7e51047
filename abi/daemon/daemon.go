// Package daemon is what hosts and guests share of the capability by which each object of a controller has a
// daemon: code that watches something for it. SPEC.md specifies it.
package daemon

import (
	"bytes"
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Name is the name of the capability: of its section in a controller of a manifest, and in a policy.
const Name = "daemon"

// Export is the function of a guest that makes steps.
const Export = "daemon" // (len i32) -> i32; required by a section

// Verb is the verb of the [abi.EffectFailure] by which a run shows that the daemon has failed.
const Verb = "daemon"

// MaxState is the longest state of a daemon between two steps, in bytes.
const MaxState = 32 << 10

// Daemon asks for a daemon of each object of a controller.
type Daemon struct {
	LabelSelector string // in the notation of kubectl: objects without a match have no daemon; "" for all
	Timeout       int64  // ms, the deadline of one step; 0 means the host's default
	Grace         int64  // ms, the deadline of the last step; 0 means the host's default
}

// Request is the input of one step.
type Request struct {
	Controller string    // the name of the controller
	Object     []byte    // JSON, as in [abi.Request]; in the last step as much as is known of it
	Events     []Event   // why the step is made: one or more
	State      []byte    // JSON: that of the last step; nil with [Start]
	Now        time.Time // UTC: the time that every clock of the guest starts from
	Seed       [32]byte  // random, different for each step; not suitable for secrets
	Config     []byte    // JSON: the administrator's configuration of the plugin; nil if there is none
}

// Event is a cause of a step.
type Event string

const (
	Start  Event = "start"  // the first step, also after a failure and on another host
	Time   Event = "time"   // the time of the last step has passed
	Object Event = "object" // the spec, labels or annotations of the object have changed
	Index  Event = "index"  // what the last step has read of an index has changed
	Read   Event = "read"   // what the last step has read otherwise has changed
	Stop   Event = "stop"   // the last step: nothing can be read
)

// Result is the message that a step writes.
type Result struct {
	Wait    Wait
	End     bool         // no further step is made: the daemon has done its work
	Signals [][]byte     // JSON of up to [abi.MaxSignal] bytes each, up to [abi.MaxSignals]: they make the object due, and are in its next request
	State   []byte       // JSON of up to MaxState bytes, for the next step
	Error   *abi.Failure // with a code other than [abi.CodeOK]
}

// Wait is what a daemon waits for. The zero value waits for its last step.
type Wait struct {
	After  int64 // ms; less than 100 counts as 100; 0 for no time
	Object bool  // a change of the spec, labels or annotations of the object
	Reads  bool  // a change of what the step has read
}

// Encode returns the section of a controller with this daemon.
func Encode(d *Daemon) []byte { return message.Encode(64, d.fields) }

// Check checks the section of a controller, see [abi.Manifest.CheckSections]. It requires a finalizer: the
// object stays until its daemon has been stopped.
func Check(c *abi.Controller, section []byte) error {
	if !c.Finalizer {
		return rawjson.NewError("", "needs finalizer: the object stays until its daemon has been stopped")
	}
	_, err := Decode(section)
	return err
}

// Decode decodes and checks the section of a controller. Every error is a [*rawjson.Error].
func Decode(section []byte) (*Daemon, error) {
	d := &Daemon{}
	return message.Checked(d, message.DecodeStrict(section, d.fields), func() error {
		return message.CheckLength("labelSelector", len(d.LabelSelector), abi.MaxSelector)
	})
}

// EncodeRequestParts returns the text of the request of a step in parts, as [abi.EncodeRequestParts]
// does.
func EncodeRequestParts(q *Request) [][]byte {
	return message.EncodeParts(len(q.State)+len(q.Config)+256, q.fieldsBeforeObject, q.Object)
}

// EncodeRequest returns the text of the request of a step.
func EncodeRequest(q *Request) []byte { return bytes.Join(EncodeRequestParts(q), nil) }

// DecodeRequest decodes the request of a step.
func DecodeRequest(data []byte) (*Request, error) {
	q := &Request{}
	return message.Checked(q, message.Decode(data, func(f *message.Fields) {
		q.fieldsBeforeObject(f)
		f.Raw("object", &q.Object)
	}), nil)
}

// EncodeResult returns the text that a step writes.
func EncodeResult(out *Result) []byte { return message.Encode(len(out.State)+128, out.fields) }

// DecodeResult decodes and checks what a step has written. Every error is a [*rawjson.Error] and of
// class abi. The result does not alias data: State and Signals outlive the step, and so does the Error
// of a daemon that waits to be started anew. Empty data is an empty result: a guest that fails need not
// write one.
func DecodeResult(data []byte) (*Result, error) {
	out := &Result{}
	if len(data) == 0 {
		return out, nil
	}
	err := message.DecodeStrict(data, out.fields)
	if out, err = message.Checked(out, err, out.check); err != nil {
		return nil, err
	}
	out.State = bytes.Clone(out.State)
	for i := range out.Signals {
		out.Signals[i] = bytes.Clone(out.Signals[i])
	}
	if out.Error != nil {
		out.Error.Reason, out.Error.Message = strings.Clone(out.Error.Reason), strings.Clone(out.Error.Message)
	}
	return out, nil
}

func (d *Daemon) fields(f *message.Fields) {
	f.Text("labelSelector", &d.LabelSelector)
	f.Duration("timeout", &d.Timeout)
	f.Duration("grace", &d.Grace)
}

func (q *Request) fieldsBeforeObject(f *message.Fields) {
	f.Required("controller", &q.Controller)
	message.Texts(f, "events", math.MaxInt, &q.Events)
	f.Raw("state", &q.State)
	f.Time("now", &q.Now)
	f.Seed("seed", &q.Seed)
	f.Raw("config", &q.Config)
}

func (out *Result) fields(f *message.Fields) {
	f.Object("wait", out.Wait != Wait{}, out.Wait.fields)
	f.Bool("end", &out.End)
	f.Raws("signals", abi.MaxSignals, &out.Signals)
	f.Raw("state", &out.State)
	message.Pointer(f, "error", &out.Error, (*abi.Failure).Fields)
}

func (w *Wait) fields(f *message.Fields) {
	f.Duration("after", &w.After)
	f.Bool("object", &w.Object)
	f.Bool("reads", &w.Reads)
}

func (out *Result) check() error {
	out.Error.Truncate()
	return cmp.Or(
		message.CheckEach("signals", out.Signals, func(s []byte) error { return message.CheckLength("", len(s), abi.MaxSignal) }),
		message.CheckLength("state", len(out.State), MaxState),
	)
}
