package sdk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// Request is one run for one object: the object's metadata, spec and status, and
// by the embedded [Run] everything else that a run can read and do.
//
// Status may be changed in place. The SDK compares it with the status at the
// start of the run and writes the difference: a member that the type does not
// have is left alone, and one that is absent now is removed. Conditions and
// observedGeneration are written by the host, see [Run.SetCondition], unless the
// controller has [StatusOwnerGuest].
type Request[Spec, Status Value] struct {
	ObjectMeta
	*Run
	Spec   Spec
	Status Status
}

// Run is the part of a [Request] that does not depend on the types of spec and
// status, for helper functions that do not use them.
//
// Apply, Delete, Event, SetCondition and Patch have no effect by themselves. They
// collect intents, which the host performs after the run has returned, whether it
// succeeded or failed, and never if it did not return. Reads do not see the
// intents of the same run.
type Run struct {
	// Now is the time of the run, UTC. Package time uses the same clock.
	Now time.Time
	// Attempt is the number of runs that failed since the last one that ended
	// otherwise.
	Attempt int
	// Previous describes how the last run ended. It is nil if that succeeded.
	Previous *Previous
	// Gone is set if the object does not exist any more: see Gone and Cleanup of a
	// [Controller].
	Gone bool
	// Change is how the object differs from what the last run was given that ended well. It
	// is nil unless the controller has Changes.
	Change *Change
	// Timers are the names of the controller's timers that are due.
	Timers []string
	// Signals are what the daemon of the object and the scans of the controller have given, and the
	// events that came for it ([Run.Received]), since the last run that ended well, as JSON; [Decode]
	// reads one. They are best effort: the oldest of more than 64 are lost, and all of them when the
	// host ends.
	Signals [][]byte
	// Reasons are the causes of this run, for telemetry. They are best effort:
	// logic must not depend on them.
	Reasons []Reason
	// Seed is random and different for each run. It is not suitable for secrets.
	Seed [32]byte
	// Log writes to the host's log.
	Log Log

	host   guest.Host
	object []byte // JSON of the primary
	status []byte // its status, nil if there is none
	config []byte
	result abi.Result
	// progress is what the result has of it: that of the request, unless the run sets another.
	progress []byte
	invalid  error // of the first intent or value that could not be encoded

	uniqueNames uint64 // how many UniqueName has returned
}

type (
	// Previous describes how the last run of an object ended.
	//
	//	type Previous struct {
	//		Class    Class
	//		Failures []EffectFailure // effects of that run that failed, in order
	//	}
	Previous = abi.Previous
	// Reason is a cause of a run.
	//
	//	type Reason string
	//
	//	"primary" // the object was changed
	//	"status"  // another client changed only the object's status
	//	"owned"   // an owned object changed
	//	"read"    // an object that the last run read has changed
	//	"requeue" // the last run requested it
	//	"retry"   // the last run failed
	//	"resync"  // the periodic resync, or the start of the host
	//	"plugin"  // a new revision or policy of the plugin
	//	"request" // the annotation reconcile.thole.dev/requestedAt changed
	//	"timer"   // a timer of the controller is due
	//	"signal"  // a capability has named the object
	Reason = abi.Reason
)

// newRun returns the run for a request. Its result keeps the memo unless the run sets another.
func newRun(h guest.Host, q *abi.Request) *Run {
	r := &Run{
		Now: q.Now, Attempt: q.Attempt, Previous: q.Previous, Reasons: q.Reasons, Seed: q.Seed,
		Gone: q.Gone, Timers: dueTimers(q), Signals: q.Signals,
		Log: Log{h}, host: h, object: q.Object, config: q.Config,
		result: abi.Result{Memo: q.Memo},
	}
	r.readChange(q)
	return r
}

// Object returns the JSON of the whole primary. It must not be modified.
func (r *Run) Object() Raw { return r.object }

// Rand returns a random generator seeded with Seed, so that a repeated run of the
// same request makes the same choices.
func (r *Run) Rand() *rand.Rand { return rand.New(rand.NewChaCha8(r.Seed)) }

// Config reads the administrator's configuration of the plugin. into is left
// unchanged if there is none.
func (r *Run) Config(into Value) error {
	if r.config == nil {
		return nil
	}
	if err := decode(r.config, into); err != nil {
		return Stalled("InvalidConfig", errors.New("read config: "+err.Error()))
	}
	return nil
}

// Memo reads the value that an earlier run of this object stored by
// [Run.SetMemo]. ok is false if there is none. A memo is lost when the host
// restarts, and when the plugin is replaced unless [MemoVersion] keeps it, so it
// can only save work.
func (r *Run) Memo(into Value) (ok bool, err error) {
	if r.result.Memo == nil {
		return false, nil
	}
	return true, decode(r.result.Memo, into)
}

// SetMemo stores a value for the next runs of this object, of at most 4 KiB as
// JSON. It remains until it is set again; nil removes it.
func (r *Run) SetMemo(v Value) {
	if v == nil {
		r.result.Memo = nil
		return
	}
	if memo, ok := r.encodeBounded(v, "InvalidMemo", "memo"); ok {
		r.result.Memo = memo
	}
}

// encodeBounded returns v as JSON of at most 4 KiB: the most of a memo and of a progress.
func (r *Run) encodeBounded(v any, reason, what string) (data []byte, ok bool) {
	data, err := encode(v)
	if err == nil && len(data) > abi.MaxMemo {
		err = errors.New("larger than 4 KiB")
	}
	if err != nil {
		r.fail(reason, what, err)
	}
	return data, err == nil
}

// Condition returns the condition of that type on the object at the start of the
// run. ok is false if there is none.
func (r *Run) Condition(conditionType string) (c Condition, ok bool) {
	all, _ := rawjson.Lookup(r.status, "conditions")
	elements, _ := rawjson.Elements(all)
	for _, element := range elements {
		var c Condition
		in := rawjson.NewReader(element)
		readJSONCondition(in, &c)
		if in.End() == nil && c.Type == conditionType {
			return c, true
		}
	}
	return Condition{}, false
}

// NeedsReconciliation reports whether the spec has changed since the host, or a controller with
// [StatusOwnerGuest], last recorded in status.observedGeneration that a run has reached it or was
// [Stalled]; of a kind without generations it is false. A run that does nothing while it is false does
// not notice when something else changes what an earlier run has made, and ends a Stalled without its
// cause having gone.
func (r *Run) NeedsReconciliation() bool {
	generation, _ := rawjson.Lookup(r.object, "metadata", "generation")
	observed, _ := rawjson.Lookup(r.status, "observedGeneration")
	return !bytes.Equal(generation, observed)
}

// ApplyOption changes an intent of [Run.Apply]. Package children has more of them.
type ApplyOption func(*abi.Apply)

// Adopt takes over an existing object that has no controller.
func Adopt() ApplyOption { return func(a *abi.Apply) { a.Adopt = true } }

// Apply requests an object by server-side apply: apiVersion, kind, metadata.name
// and only those fields that are wanted. A field that an earlier run applied and
// that is missing now is removed. The object is a struct, a map, or JSON as bytes.
// An object of a kind in Owns becomes a child of the primary.
func (r *Run) Apply(object Value, options ...ApplyOption) {
	data, err := encode(object)
	if err != nil {
		r.fail("InvalidObject", "object to apply", err)
		return
	}
	intent := abi.Apply{Object: data}
	for _, option := range options {
		option(&intent)
	}
	r.result.Apply = append(r.result.Apply, intent)
}

// DeleteOption changes an intent of [Run.Delete]. Package children has them.
type DeleteOption func(*abi.Delete)

// Delete requests that an object is deleted, after all that the run applies. If it
// does not exist, that is no error. If ref has a UID, only the object with that UID
// is deleted.
func (r *Run) Delete(ref Ref, options ...DeleteOption) {
	intent := abi.Delete{Ref: ref}
	for _, option := range options {
		option(&intent)
	}
	r.result.Delete = append(r.result.Delete, intent)
}

// Prune deletes the objects of kinds in Owns that the controller has created for the primary, and that
// this run names neither in Apply nor otherwise. It takes place after everything else that the run asks
// for, if that has succeeded, and not at all if the run ends with an error. What was adopted, what
// another controller has created, and what exists since before [Controller.Prune] was set is left alone.
//
//	for _, site := range r.Spec.Sites {
//		r.Apply(deploymentOf(site))
//	}
//	r.Prune() // the Deployments of sites that are not in the spec any more
func (r *Run) Prune() { r.result.Prune = true }

// Intend changes the result of the run, for packages that offer what this one does not, such as
// children.
func (r *Run) Intend(change func(*abi.Result)) { change(&r.result) }

// Event emits a Kubernetes Event about the primary. eventType is [Normal] or
// [Warning], and reason is CamelCase.
func (r *Run) Event(eventType, reason, message string) {
	r.result.Events = append(r.result.Events, abi.Event{Type: eventType, Reason: reason, Message: message})
}

// SetCondition sets a condition of a type that the controller owns. The host sets
// the time and the observed generation, and computes Ready from all conditions.
func (r *Run) SetCondition(c Condition) {
	i := slices.IndexFunc(r.result.Conditions, func(other Condition) bool { return other.Type == c.Type })
	if i >= 0 {
		r.result.Conditions[i] = c
		return
	}
	r.result.Conditions = append(r.result.Conditions, c)
}

// RemoveCondition removes a condition of a type that the controller owns.
func (r *Run) RemoveCondition(conditionType string) { r.SetCondition(Condition{Type: conditionType}) }

// Patch changes the primary itself by a merge patch (RFC 7386) of its labels,
// annotations and spec. The patches of several calls are combined.
func (r *Run) Patch(patch Value) {
	data, err := encode(patch)
	if err == nil && r.result.Patch != nil {
		data, err = rawjson.ComposePatches(r.result.Patch, data)
	}
	if err != nil {
		r.fail("InvalidPatch", "patch", err)
		return
	}
	r.result.Patch = data
}

// Patched returns the JSON of the whole primary with the patches of this run so far.
func (r *Run) Patched() (Raw, error) {
	if r.result.Patch == nil {
		return r.object, nil
	}
	return rawjson.MergePatch(r.object, r.result.Patch)
}

// fail records that something could not be encoded. The run ends as stalled,
// whatever it returns: the host would take a missing intent for one that is not
// wanted.
func (r *Run) fail(reason, what string, err error) {
	if r.invalid == nil {
		r.invalid = Stalled(reason, errors.New("encode "+what+": "+err.Error()))
	}
}

// end returns the code and the result for what the author's function returned.
func (r *Run) end(action Action, err error) (abi.Code, *abi.Result) {
	if r.invalid != nil {
		code, failure := failureOf(r.invalid)
		return code, &abi.Result{Memo: r.result.Memo, Error: failure, Sections: r.changed()}
	}
	r.result.Sections = r.changed()
	if err == nil {
		action.write(&r.result)
		return abi.CodeOK, &r.result
	}
	code, failure := failureOf(err)
	r.result.Error = failure
	return code, &r.result
}

// readObject reads the primary in one pass. spec and status point to the author's
// types. It returns the bytes of the status too.
func readObject(object *Reader, meta *ObjectMeta, spec, status any) (raw []byte, err error) {
	reason := "" // of the failure, if the object does not fit the author's types
	read := func(r *Reader, into any, failure string) {
		if readValue(r, into); r.Err() != nil {
			reason = failure
		}
	}
	err = object.Nested(func(r *Reader) {
		for more := r.FirstMember(); more; more = r.NextMember() {
			switch r.Name() {
			case "metadata":
				readJSONObjectMeta(r, meta)
			case "spec":
				read(r, spec, "InvalidSpec")
			case "status":
				start := r.Pos()
				read(r, status, "InvalidStatus")
				raw = r.Since(start)
			}
		}
	})
	switch {
	case err == nil:
		return raw, nil
	case reason == "":
		return nil, rawjson.ErrorOf(err)
	default:
		return nil, Stalled(reason, rawjson.ErrorOf(err))
	}
}

// diffStatus sets the merge patch from the status at the start of the run to the
// author's status now.
func (r *Run) diffStatus(before []byte, status any) {
	after, err := encode(status)
	if err == nil && !bytes.Equal(before, after) {
		r.result.Status, err = rawjson.Diff(omitEqualMembers(objectOrEmpty(before), objectOrEmpty(after)))
	}
	if err != nil {
		r.fail("InvalidStatus", "status", err)
	}
}

// objectOrEmpty returns {} for a status that is absent, such as a nil map.
func objectOrEmpty(status []byte) []byte {
	if len(status) == 0 || string(status) == "null" {
		return []byte("{}")
	}
	return status
}

// omitEqualMembers returns two objects without the members in which they are
// equal. It does so only if both have the same members in the same order, as the
// texts of one codec mostly have; otherwise it returns them unchanged. Comparing
// the bytes costs much less than [rawjson.Diff].
func omitEqualMembers(before, after []byte) (b, a []byte) {
	wb, wa := rawjson.NewWriter(make([]byte, 0, 128)), rawjson.NewWriter(make([]byte, 0, 128))
	same := true
	wb.Object(func() {
		wa.Object(func() { same = copyDifferentMembers(before, after, wb, wa) })
	})
	if !same {
		return before, after
	}
	return wb.Bytes(), wa.Bytes()
}

// copyDifferentMembers reports whether both objects have the same members in the
// same order. It does not read what is behind the last member that differs: there both
// texts are equal.
func copyDifferentMembers(before, after []byte, wb, wa *rawjson.Writer) bool {
	equal := equalEnd(before, after)
	rb, ra := rawjson.NewReader(before), rawjson.NewReader(after)
	moreB, moreA := rb.FirstMember(), ra.FirstMember()
	for ; moreB && moreA && rb.Name() == ra.Name(); moreB, moreA = rb.NextMember(), ra.NextMember() {
		name, b, a := rb.Name(), rb.Raw(), ra.Raw()
		if !bytes.Equal(b, a) {
			wb.Name(name).Raw(b)
			wa.Name(name).Raw(a)
		}
		left := len(before) - rb.Pos()
		if left <= equal && left == len(after)-ra.Pos() && rb.Err() == nil && ra.Err() == nil {
			return true
		}
	}
	return !moreB && !moreA && rb.End() == nil && ra.End() == nil
}

// equalEnd returns how many bytes at their ends two texts have in common.
func equalEnd(a, b []byte) (n int) {
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}
