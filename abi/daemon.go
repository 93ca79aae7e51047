package abi

import (
	"bytes"
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// The messages of [ExportDaemon]: SPEC.md, "Daemon".

// Daemon asks for a daemon of each object of a controller.
type Daemon struct {
	LabelSelector string // in the notation of kubectl: objects without a match have no daemon; "" for all
	Timeout       int64  // ms, the deadline of one step; 0 means the host's default
	Grace         int64  // ms, the deadline of the last step; 0 means the host's default
}

// DaemonRequest is the input of one step of a daemon.
type DaemonRequest struct {
	Controller string        // the name of the controller
	Object     []byte        // JSON, as in [Request]; in the last step as much as is known of it
	Events     []DaemonEvent // why the step is made: one or more
	State      []byte        // JSON: that of the last step; nil with [DaemonStart]
	Now        time.Time     // UTC: the time that every clock of the guest starts from
	Seed       [32]byte      // random, different for each step; not suitable for secrets
	Config     []byte        // JSON: the administrator's configuration of the plugin; nil if there is none
}

// DaemonEvent is a cause of a step.
type DaemonEvent string

const (
	DaemonStart  DaemonEvent = "start"  // the first step, also after a failure and on another host
	DaemonTime   DaemonEvent = "time"   // the time of the last step has passed
	DaemonObject DaemonEvent = "object" // the spec, labels or annotations of the object have changed
	DaemonIndex  DaemonEvent = "index"  // what the last step has read of an index has changed
	DaemonRead   DaemonEvent = "read"   // what the last step has read otherwise has changed
	DaemonStop   DaemonEvent = "stop"   // the last step: nothing can be read
)

// DaemonResult is the message that a step writes.
type DaemonResult struct {
	Wait    DaemonWait
	End     bool     // no further step is made: the daemon has done its work
	Signals [][]byte // JSON of up to MaxSignal bytes each: they make the object due, and are in its next request
	State   []byte   // JSON of up to MaxDaemonState bytes, for the next step
	Error   *Failure // with a code other than [CodeOK]
}

// DaemonWait is what a daemon waits for. The zero value waits for its last step.
type DaemonWait struct {
	After  int64 // ms; less than 100 counts as 100; 0 for no time
	Object bool  // a change of the spec, labels or annotations of the object
	Reads  bool  // a change of what the step has read
}

// EncodeDaemonRequestParts returns the text of the request of a step in parts, as
// [EncodeRequestParts] does.
func EncodeDaemonRequestParts(q *DaemonRequest) [][]byte {
	return withObject(message.Encode(len(q.State)+len(q.Config)+256, q.fieldsBeforeObject), q.Object)
}

// EncodeDaemonRequest returns the text of the request of a step.
func EncodeDaemonRequest(q *DaemonRequest) []byte {
	return bytes.Join(EncodeDaemonRequestParts(q), nil)
}

// DecodeDaemonRequest decodes the request of a step.
func DecodeDaemonRequest(data []byte) (*DaemonRequest, error) {
	q := &DaemonRequest{}
	return message.Checked(q, message.Decode(data, func(f *message.Fields) {
		q.fieldsBeforeObject(f)
		f.Raw("object", &q.Object)
	}), nil)
}

// EncodeDaemonResult returns the text that a step writes.
func EncodeDaemonResult(out *DaemonResult) []byte {
	return message.Encode(len(out.State)+128, out.fields)
}

// DecodeDaemonResult decodes and checks what a step has written. Every error is a
// [*rawjson.Error] and of class abi. The result does not alias data: State and Signals outlive the
// step, and so does the Error of a daemon that waits to be started anew. Empty data is an empty
// result: a guest that fails need not write one.
func DecodeDaemonResult(data []byte) (*DaemonResult, error) {
	out := &DaemonResult{}
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

func (q *DaemonRequest) fieldsBeforeObject(f *message.Fields) {
	f.Required("controller", &q.Controller)
	message.Texts(f, "events", math.MaxInt, &q.Events)
	f.Raw("state", &q.State)
	f.Time("now", &q.Now)
	f.Seed("seed", &q.Seed)
	f.Raw("config", &q.Config)
}

func (out *DaemonResult) fields(f *message.Fields) {
	f.Object("wait", out.Wait != DaemonWait{}, out.Wait.fields)
	f.Bool("end", &out.End)
	f.Raws("signals", MaxSignals, &out.Signals)
	f.Raw("state", &out.State)
	message.Pointer(f, "error", &out.Error, (*Failure).Fields)
}

func (w *DaemonWait) fields(f *message.Fields) {
	f.Duration("after", &w.After)
	f.Bool("object", &w.Object)
	f.Bool("reads", &w.Reads)
}

func (out *DaemonResult) check() error {
	if out.Error != nil {
		out.Error.Message = rawjson.Truncate(out.Error.Message, MaxErrorMessage)
	}
	return cmp.Or(
		message.CheckEach("signals", out.Signals, func(s []byte) error { return message.CheckLength("", len(s), MaxSignal) }),
		message.CheckLength("state", len(out.State), MaxDaemonState),
	)
}

// checkDaemon requires a finalizer: the object stays until the daemon has been stopped.
func (c Controller) checkDaemon() error {
	if c.Daemon == nil {
		return nil
	}
	if !c.Finalizer {
		return rawjson.NewError("daemon", "needs finalizer: the object stays until its daemon has been stopped")
	}
	return rawjson.Within("daemon", message.CheckLength("labelSelector", len(c.Daemon.LabelSelector), MaxSelector))
}
