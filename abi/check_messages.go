package abi

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/thole-dev/thole/abi/rawjson"
)

// The checks of decoded messages against SPEC.md: "Manifest", "Result" and
// "get". They return the first error.

func (m *Manifest) check() error {
	if len(m.Controllers) == 0 {
		return rawjson.NewError("controllers", "is empty: register at least one controller")
	}
	return cmp.Or(
		checkName("name", m.Name),
		checkLength("version", len(m.Version), MaxVersion),
		checkLength("memoVersion", len(m.MemoVersion), MaxVersion),
		checkEach("controllers", m.Controllers, Controller.check),
		checkDistinct("controllers", "name", m.Controllers, func(c Controller) string { return c.Name }),
		checkEach("controllers", m.Controllers, m.checkFeatures),
	)
}

// checkFeatureNames refuses a plugin that uses a feature this package does not implement: it
// could not work on this host.
func (m *Manifest) checkFeatureNames() error {
	return checkEach("features", m.Features, func(name string) error {
		if slices.Contains(Features(), name) {
			return nil
		}
		return rawjson.NewError("", rawjson.Quote(name)+" is not a feature of this host: the plugin needs a newer host")
	})
}

// checkFeatures refuses a controller with a field whose feature the manifest
// does not name: a host without the feature would refuse the field, too, but
// could not tell why.
func (m *Manifest) checkFeatures(c Controller) error {
	if c.Retry != (Retry{}) && !slices.Contains(m.Features, FeatureRetry) {
		return rawjson.NewError("retry", "needs the feature "+rawjson.Quote(FeatureRetry)+": name it in features")
	}
	if len(c.Conditions.Summaries) > 0 && !slices.Contains(m.Features, FeatureSummaries) {
		return rawjson.NewError("conditions.summaries", "needs the feature "+rawjson.Quote(FeatureSummaries)+": name it in features")
	}
	return nil
}

func (c Controller) check() error {
	return cmp.Or(
		checkName("name", c.Name),
		rawjson.Within("for", c.For.check()),
		checkKinds("owns", c.Owns),
		checkKinds("reads", c.Reads),
		checkKinds("writes", c.Writes),
		rawjson.Within("retry", c.Retry.check()),
		rawjson.Within("conditions", c.Conditions.check()),
	)
}

// checkKinds checks a list of kinds, which must be distinct.
func checkKinds(field string, kinds []Kind) error {
	return cmp.Or(checkEach(field, kinds, Kind.check), checkDistinct(field, "", kinds, Kind.String))
}

// Bounds of [Retry.Factor], in percent.
const (
	minFactor = 100
	maxFactor = 10_000
)

func (r Retry) check() error {
	switch {
	case r.Factor != 0 && (r.Factor < minFactor || r.Factor > maxFactor):
		return rawjson.NewError("factor", "must be from 100 to 10000, is "+strconv.Itoa(r.Factor)+": it is in percent, 200 doubles each delay")
	case r.Jitter > 100:
		return rawjson.NewError("jitter", "must be at most 100, is "+strconv.Itoa(r.Jitter)+": it is in percent")
	case r.Cap != 0 && r.Cap < r.Initial:
		return rawjson.NewError("cap", "is shorter than initial")
	case r.Then != "" && r.Then != ThenStalled && r.Then != ThenCap:
		return rawjson.NewError("then", rawjson.Quote(string(r.Then))+" is not one of stalled, cap")
	case r.Then != "" && r.Attempts == 0:
		return rawjson.NewError("then", "has no effect without attempts")
	}
	return nil
}

// Types of the conditions that the host sets for every controller.
const (
	conditionReconciling = "Reconciling"
	conditionStalled     = "Stalled"
)

func (c Conditions) check() error {
	return cmp.Or(
		rawjson.Within("target", checkTarget(c.Target)),
		checkTypes("owned", c.Owned),
		checkTypes("summarized", c.Summarized),
		checkTypes("negativePolarity", c.NegativePolarity),
		checkPolarity(c.NegativePolarity, "neither in summarized nor in owned", c.Summarized, c.Owned),
		c.checkSummaries(),
	)
}

// checkSummaries checks each summary with the targets that are not computed
// before it. These cannot be summarized.
func (c Conditions) checkSummaries() error {
	later := []string{c.TargetOrReady()}
	for _, s := range slices.Backward(c.Summaries) {
		later = append(later, s.Target)
	}
	return cmp.Or(
		checkDistinct("summaries", "target", c.Summaries, func(s Summary) string { return s.Target }),
		checkEach("summaries", c.Summaries, func(s Summary) error {
			err := s.check(later)
			later = later[:len(later)-1]
			return err
		}),
	)
}

// check checks a summary. later has conditions.target, the targets that are
// computed after this one, and this one.
func (s Summary) check(later []string) error {
	switch {
	case s.Target == "":
		return rawjson.NewError("target", "is required")
	case s.Target == DefaultTarget, s.Target == later[0]:
		return rawjson.NewError("target", rawjson.Quote(s.Target)+" can only be conditions.target; choose another type")
	case len(s.Summarized) == 0:
		return rawjson.NewError("summarized", "is empty: list the types that "+rawjson.Quote(s.Target)+" depends on")
	}
	return cmp.Or(
		rawjson.Within("target", checkTarget(s.Target)),
		checkTypes("summarized", s.Summarized),
		checkEach("summarized", s.Summarized, func(t string) error { return checkEarlier(t, later) }),
		checkTypes("negativePolarity", s.NegativePolarity),
		checkPolarity(s.NegativePolarity, "not in summarized", s.Summarized),
	)
}

// checkEarlier refuses to summarize a target that is not computed yet.
func checkEarlier(t string, later []string) error {
	if !slices.Contains(later, t) {
		return nil
	}
	return rawjson.NewError("", rawjson.Quote(t)+" is a target that is not computed before this one; list its summary first")
}

// checkTarget checks the type of the summary. It cannot be one that the host computes from
// other rules.
func checkTarget(t string) error {
	switch t {
	case "":
		return nil
	case conditionReconciling, conditionStalled:
		return rawjson.NewError("", t+" is set by the host; choose another type, such as Ready")
	}
	return checkConditionType(t)
}

// checkTypes checks a list of condition types, which must be distinct.
func checkTypes(field string, types []string) error {
	return cmp.Or(
		checkEach(field, types, checkConditionType),
		checkDistinct(field, "", types, func(t string) string { return t }),
	)
}

// checkPolarity refuses a type that none of the other lists has; missing says so.
// It is misspelt: its polarity would have no effect.
func checkPolarity(negative []string, missing string, others ...[]string) error {
	known := slices.Concat(append(others, []string{conditionReconciling, conditionStalled})...)
	return checkEach("negativePolarity", negative, func(t string) error {
		if slices.Contains(known, t) {
			return nil
		}
		return rawjson.NewError("", rawjson.Quote(t)+" is "+missing+rawjson.DidYouMean(t, known))
	})
}

// check truncates messages and returns the first violation of a limit or rule.
func (out *Result) check() error {
	out.truncateMessages()
	return cmp.Or(
		out.checkOutcome(),
		out.checkIntents(),
		checkLength("memo", len(out.Memo), MaxMemo),
		checkEach("conditions", out.Conditions, Condition.check),
		checkEach("apply", out.Apply, Apply.check),
		checkEach("delete", out.Delete, Ref.check),
		checkEach("events", out.Events, Event.check),
		rawjson.Within("status", checkStatus(out.Status)),
		rawjson.Within("patch", checkPatch(out.Patch)),
	)
}

// truncateMessages shortens what is too long. A message may quote text from
// elsewhere, such as the body of an HTTP error, and a run must not fail because
// of its length.
func (out *Result) truncateMessages() {
	if out.Error != nil {
		out.Error.Message = rawjson.Truncate(out.Error.Message, MaxErrorMessage)
	}
	for i := range out.Conditions {
		out.Conditions[i].Message = rawjson.Truncate(out.Conditions[i].Message, MaxConditionMessage)
	}
	for i := range out.Events {
		out.Events[i].Message = rawjson.Truncate(out.Events[i].Message, MaxEventMessage)
	}
}

// checkOutcome accepts an empty outcome, because a result with another code than [CodeOK]
// needs none.
func (out *Result) checkOutcome() error {
	switch out.Result {
	case "", OutcomeSuccess, OutcomeRequeue, OutcomeEmpty:
		return nil
	}
	return rawjson.NewError("result", rawjson.Quote(string(out.Result))+" is not one of success, requeue, empty")
}

// Intents returns the number of entries of apply, delete and events.
func (out *Result) Intents() int { return len(out.Apply) + len(out.Delete) + len(out.Events) }

// checkIntents limits the lists together. The decoder limits each of them.
func (out *Result) checkIntents() error {
	n := out.Intents()
	if n <= MaxIntents {
		return nil
	}
	return rawjson.NewError(intentLists, strconv.Itoa(n)+" entries together, the limit is "+strconv.Itoa(MaxIntents))
}

// intentLists is the path of an error about all three lists.
const intentLists = "apply, delete, events"

// TooManyIntents reports whether err is the error of [DecodeResult] for a
// result with more than [MaxIntents] intents.
func TooManyIntents(err error) bool {
	e, ok := errors.AsType[*rawjson.Error](err)
	if !ok {
		return false
	}
	beyond := "[" + strconv.Itoa(MaxIntents) + "]" // the entry at which the decoder stops
	switch e.Path {
	case intentLists, "apply" + beyond, "delete" + beyond, "events" + beyond:
		return true
	}
	return false
}

// check does not require a reason of a condition that is removed.
func (c Condition) check() error {
	if err := checkConditionType(c.Type); err != nil {
		return rawjson.Within("type", err)
	}
	switch c.Status {
	case "": // removes the condition
		return nil
	case ConditionTrue, ConditionFalse, ConditionUnknown:
		return checkReason(c.Reason, MaxConditionReason)
	default:
		return rawjson.NewError("status", rawjson.Quote(c.Status)+" is not one of True, False, Unknown")
	}
}

func (e Event) check() error {
	if e.Type != EventNormal && e.Type != EventWarning {
		return rawjson.NewError("type", rawjson.Quote(e.Type)+" is not one of Normal, Warning")
	}
	return checkReason(e.Reason, MaxEventReason)
}

func (ref Ref) check() error {
	return cmp.Or(Kind{ref.APIVersion, ref.Kind}.check(), ref.checkName())
}

// checkName checks the lengths of what names an object. Whether there can be
// such an object is for the API server to decide.
func (ref Ref) checkName() error {
	if ref.Name == "" {
		return rawjson.NewError("name", "is required")
	}
	return cmp.Or(
		checkLength("name", len(ref.Name), MaxName),
		checkLength("namespace", len(ref.Namespace), MaxName),
		checkLength("uid", len(ref.UID), MaxName),
	)
}

func (c *ListCall) check() error {
	return cmp.Or(Kind{c.APIVersion, c.Kind}.check(), checkLength("namespace", len(c.Namespace), MaxName))
}

// check requires what identifies the object. The API server checks the rest.
func (a Apply) check() error {
	if len(a.Object) == 0 {
		return rawjson.NewError("object", "is required")
	}
	ref, err := identity(a.Object)
	if err == nil {
		err = cmp.Or(Kind{ref.APIVersion, ref.Kind}.check(), rawjson.Within("metadata", ref.checkName()))
	}
	return rawjson.Within("object", err)
}

// identity reads the kind, namespace and name of an object.
func identity(object []byte) (ref Ref, err error) {
	r := rawjson.NewReader(object)
	r.Object(func(field string) {
		switch field {
		case "apiVersion":
			ref.APIVersion = r.String()
		case "kind":
			ref.Kind = r.String()
		case "metadata":
			r.Object(func(field string) {
				switch field {
				case "name":
					ref.Name = r.String()
				case "namespace":
					ref.Namespace = r.String()
				}
			})
		}
	})
	return ref, r.End()
}

// checkStatus rejects the members of a patch of status that only the host
// writes.
func checkStatus(patch []byte) error {
	if patch == nil {
		return nil
	}
	r := rawjson.NewReader(patch)
	r.Object(func(field string) {
		switch field {
		case "conditions":
			r.Fail("is written by the host; use the conditions beside status")
		case "observedGeneration":
			r.Fail("is written by the host, as the outcome of the run requires")
		}
	})
	return r.End()
}

// checkPatch checks that a patch of the primary changes only its labels,
// annotations and spec, and that these remain objects.
func checkPatch(patch []byte) error {
	if patch == nil {
		return nil
	}
	r := rawjson.NewReader(patch)
	r.Object(func(field string) {
		switch field {
		case "metadata":
			readMembers(r, func(field string) {
				switch field {
				case "labels", "annotations":
					readMembers(r, func(string) { _ = r.String() }) // a null removes the label
				default:
					failNotPatchable(r)
				}
			})
		case "spec":
			readMembers(r, func(string) {})
		default:
			failNotPatchable(r)
		}
	})
	return r.End()
}

// readMembers reads an object that a patch may change but not remove.
func readMembers(r *rawjson.Reader, member func(string)) {
	if r.Kind() == 'n' {
		r.Fail("expected an object, found null: remove its members instead")
		return
	}
	r.Object(member)
}

func failNotPatchable(r *rawjson.Reader) {
	r.Fail("cannot be patched: a patch changes metadata.labels, metadata.annotations and spec only")
}
