package abi

import (
	"bytes"
	"cmp"
	"math"
	"strings"
	"time"

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
	return withObject(encode(len(q.State)+len(q.Config)+256, q.fieldsBeforeObject), q.Object)
}

// EncodeDaemonRequest returns the text of the request of a step.
func EncodeDaemonRequest(q *DaemonRequest) []byte {
	return bytes.Join(EncodeDaemonRequestParts(q), nil)
}

// DecodeDaemonRequest decodes the request of a step.
func DecodeDaemonRequest(data []byte) (*DaemonRequest, error) {
	q, f := &DaemonRequest{}, &fields{r: rawjson.NewReader(data)}
	f.value(func(f *fields) {
		q.fieldsBeforeObject(f)
		f.raw("object", &q.Object)
	})
	return checked(q, f.r.End(), nil)
}

// EncodeDaemonResult returns the text that a step writes.
func EncodeDaemonResult(out *DaemonResult) []byte { return encode(len(out.State)+128, out.fields) }

// DecodeDaemonResult decodes and checks what a step has written. Every error is a
// [*rawjson.Error] and of class abi. The result does not alias data: State and Signals outlive the
// step, and so does the Error of a daemon that waits to be started anew. Empty data is an empty
// result: a guest that fails need not write one.
func DecodeDaemonResult(data []byte) (*DaemonResult, error) {
	out := &DaemonResult{}
	if len(data) == 0 {
		return out, nil
	}
	err := decodeStrict(data, out.fields)
	if out, err = checked(out, err, out.check); err != nil {
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

func (d *Daemon) fields(f *fields) {
	f.text("labelSelector", &d.LabelSelector)
	f.duration("timeout", &d.Timeout)
	f.duration("grace", &d.Grace)
}

func (q *DaemonRequest) fieldsBeforeObject(f *fields) {
	f.required("controller", &q.Controller)
	texts(f, "events", math.MaxInt, &q.Events)
	f.raw("state", &q.State)
	f.time("now", &q.Now)
	f.seed("seed", &q.Seed)
	f.raw("config", &q.Config)
}

func (out *DaemonResult) fields(f *fields) {
	f.object("wait", out.Wait != DaemonWait{}, out.Wait.fields)
	f.boolean("end", &out.End)
	f.raws("signals", MaxSignals, &out.Signals)
	f.raw("state", &out.State)
	pointer(f, "error", &out.Error, (*Failure).fields)
}

func (w *DaemonWait) fields(f *fields) {
	f.duration("after", &w.After)
	f.boolean("object", &w.Object)
	f.boolean("reads", &w.Reads)
}

func (out *DaemonResult) check() error {
	if out.Error != nil {
		out.Error.Message = rawjson.Truncate(out.Error.Message, MaxErrorMessage)
	}
	return cmp.Or(
		checkEach("signals", out.Signals, func(s []byte) error { return checkLength("", len(s), MaxSignal) }),
		checkLength("state", len(out.State), MaxDaemonState),
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
	return rawjson.Within("daemon", checkLength("labelSelector", len(c.Daemon.LabelSelector), MaxSelector))
}
