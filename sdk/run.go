package sdk

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// Run is what a run knows besides the object, and what it can do, for
// controllers of any type: a helper that does not look into spec and status
// takes a *Run.
//
// Apply, Delete, Event, SetCondition and Patch do nothing by themselves. They
// collect what the run wants; the host performs it once the run has returned,
// whether with success or with an error, and never if it did not return. Reads
// do not see what the same run wants.
type Run struct {
	// Now is the time of the run, UTC. Package time agrees with it.
	Now time.Time
	// Attempt counts the runs that failed since the last success.
	Attempt int
	// Previous is how the last run ended, nil if it succeeded.
	Previous *Previous
	// Reasons say why this run happens, for telemetry. They are best effort:
	// never base logic on them.
	Reasons []Reason
	// Seed is fresh for every run, and never a source of secrets.
	Seed [32]byte
	// Log writes to the host's log.
	Log Log

	host   guest.Host
	object []byte // of the primary
	status []byte // of object, nil if it has none
	config []byte
	result abi.Result
	broken *abi.Failure // the first thing that could not be encoded
}

type (
	// Previous is how the last run of an object ended.
	Previous = abi.Previous
	// Reason says why a run happens.
	Reason = abi.Reason
)

func newRun(h guest.Host, q *abi.Request) *Run {
	return &Run{
		Now: q.Now, Attempt: q.Attempt, Previous: q.Previous, Reasons: q.Reasons, Seed: q.Seed,
		Log: Log{h}, host: h, object: q.Object, config: q.Config,
		result: abi.Result{Memo: q.Memo},
	}
}

// Object returns the whole primary as it was sent. Do not change it.
func (r *Run) Object() Raw { return r.object }

// Rand returns a generator that is seeded with Seed: a repeated run with the
// same request makes the same choices.
func (r *Run) Rand() *rand.Rand { return rand.New(rand.NewChaCha8(r.Seed)) }

// Config reads the administrator's configuration of the plugin; without one,
// into is left as it is.
func (r *Run) Config(into any) error {
	if r.config == nil {
		return nil
	}
	if err := decode(r.config, into); err != nil {
		return Stalled("InvalidConfig", errors.New("read config: "+err.Error()))
	}
	return nil
}

// Memo reads what an earlier run of this object left by [Run.SetMemo]; ok is
// false if there is nothing. A memo is lost when the host restarts, and when
// the plugin changes unless [MemoVersion] says otherwise, so it can only save
// work.
func (r *Run) Memo(into any) (ok bool, err error) {
	if r.result.Memo == nil {
		return false, nil
	}
	return true, decode(r.result.Memo, into)
}

// SetMemo leaves a small value for the next runs of this object, at most
// 4 KiB as JSON. It stays until it is set again; nil drops it.
func (r *Run) SetMemo(v any) {
	if v == nil {
		r.result.Memo = nil
		return
	}
	memo, err := encode(v)
	if err == nil && len(memo) > abi.MaxMemo {
		err = errors.New("larger than 4 KiB")
	}
	if err != nil {
		r.spoil("InvalidMemo", "memo", err)
		return
	}
	r.result.Memo = memo
}

// Condition returns the condition of that type on the object, as this run
// found it; ok is false if there is none.
func (r *Run) Condition(conditionType string) (c Condition, ok bool) {
	all, _ := rawjson.Lookup(r.status, "conditions")
	elements, _ := rawjson.Elements(all)
	for _, element := range elements {
		var c Condition
		in := rawjson.NewReader(element)
		readCondition(in, &c)
		if in.End() == nil && c.Type == conditionType {
			return c, true
		}
	}
	return Condition{}, false
}

// spoil notes what could not be encoded. It ends the run, whatever that
// returns: an intent that is missing must not be taken for one that is not
// wanted.
func (r *Run) spoil(reason, what string, err error) {
	if r.broken == nil {
		r.broken = &abi.Failure{Reason: reason, Message: "encode " + what + ": " + err.Error()}
	}
}

// end turns what the author returned into the answer of the run.
func (r *Run) end(action Action, err error) (abi.Code, *abi.Result) {
	if r.broken != nil {
		return abi.CodeStalled, &abi.Result{Memo: r.result.Memo, Error: r.broken}
	}
	if err == nil {
		action.write(&r.result)
		return abi.CodeOK, &r.result
	}
	code, failure := failureOf(err)
	r.result.Error = failure
	return code, &r.result
}
