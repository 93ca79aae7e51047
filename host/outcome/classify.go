package outcome

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file classifies how a run ended, and checks what a result states about
// conditions.

// ending is how a run ended.
type ending struct {
	outcome  outcome
	failure  *failure // nil for success, requeue and empty
	honoured bool     // the guest returned a valid result, whose fields are honoured

	conflict  bool // an effect met a newer version of its object
	outage    bool // the API server could not be reached or was overloaded
	blameless bool // the failure says nothing about the plugin and the object
	exhausted bool // the run was the last of the controller's attempts
}

// failure is why a run failed, in a form that can be written to a condition.
type failure struct {
	class   abi.Class
	reason  string // valid for metav1.Condition
	message string // not empty
	after   int64  // milliseconds; only of waiting and of retry
}

// classes lists what each class of failure means. A class that is not listed
// is treated as retry.
var classes = map[abi.Class]struct {
	outcome     outcome
	reason      string // of a failure that came without one
	pluginFault bool
}{
	abi.ClassRetry:         {retry, "Failed", false},
	abi.ClassStalled:       {stalled, "Stalled", false},
	abi.ClassWaiting:       {waiting, ReasonWaiting, false},
	abi.ClassPanic:         {retry, "Panic", true},
	abi.ClassTimeout:       {retry, "Timeout", true},
	abi.ClassOutOfMemory:   {retry, "OutOfMemory", true},
	abi.ClassStackOverflow: {retry, "StackOverflow", true},
	abi.ClassABI:           {retry, "ContractBroken", true},
	abi.ClassDenied:        {retry, "Denied", false},
}

// PluginFault reports whether a class means that the plugin itself failed, as
// opposed to the host, the API server, or something that the plugin found in
// the cluster.
func PluginFault(class abi.Class) bool { return classes[class].pluginFault }

var outcomes = map[abi.Outcome]outcome{
	abi.OutcomeSuccess: success,
	abi.OutcomeRequeue: requeue,
	abi.OutcomeEmpty:   empty,
}

// ClassOf returns the class of a code other than [abi.CodeOK] that the ABI has.
func ClassOf(code abi.Code) abi.Class { return codes[code] }

var codes = map[abi.Code]abi.Class{
	abi.CodeRetry:   abi.ClassRetry,
	abi.CodeStalled: abi.ClassStalled,
	abi.CodeWaiting: abi.ClassWaiting,
}

// classify returns how a run ended.
func classify(in Input) ending {
	switch {
	case in.Effect != nil:
		return failedEffect(in, in.Effect)
	case len(in.Groups) > 0:
		return failedGroups(in)
	case in.Fault != nil:
		e := failed(in.Fault.Class, in.Fault.Reason, in.Fault.Message)
		e.blameless = e.failure.class == abi.ClassRetry // the host could not do its part
		e.outage = in.Outage
		return e
	}
	if violation := checkResult(in); violation != "" {
		return failed(abi.ClassABI, "", violation)
	}
	if in.Code == abi.CodeOK {
		return ending{outcome: outcomes[in.Result.Result], honoured: true}
	}
	// The field "result" is only read with code 0. A stalled run therefore
	// never requeues, whatever the field holds.
	given := cmp.Or(in.Result.Error, &abi.Failure{})
	class := codes[in.Code]
	if given.Terminal {
		class = abi.ClassStalled
	}
	e := failed(class, given.Reason, given.Message)
	e.honoured = true
	e.failure.after = given.After
	return e
}

// failed returns the ending of a run that failed. A reason that cannot be
// written to a condition is replaced by that of the class.
func failed(class abi.Class, reason, message string) ending {
	if _, known := classes[class]; !known {
		class = abi.ClassRetry
	}
	if !validReason(reason) {
		reason = classes[class].reason
	}
	if message == "" {
		message = "the run failed without a message (class " + string(class) + ")"
	}
	message = sanitize.Truncate(message, maxMessage)
	return ending{outcome: classes[class].outcome, failure: &failure{class: class, reason: reason, message: message}}
}

// failedEffect returns the ending of a run one of whose effects failed.
func failedEffect(in Input, effect *abi.EffectFailure) ending {
	message := DescribeEffect(effect)
	if in.Conflict && in.Tries.conflictsPersist() {
		message = "other writers keep changing what the run writes: " + message
	}
	e := failed(effect.Class, effect.Reason, message)
	e.conflict, e.outage = in.Conflict, in.Outage
	e.blameless = in.Conflict || in.Outage || in.Full
	return e
}

// DescribeEffect describes a failed effect in one sentence, such as "apply v1
// Pod default/web: forbidden". What is not known of the object is left out.
func DescribeEffect(e *abi.EffectFailure) string {
	return strings.Join(strings.Fields(e.Verb+" "+e.Ref.String()), " ") + ": " + e.Message
}

// checkResult returns how a result violates the contract, "" if it does not.
// The codec has checked the result's form; what is checked here depends on the
// code and on the controller.
func checkResult(in Input) string {
	if in.Result == nil {
		return "reconcile: returned without a result: call output before returning"
	}
	if _, known := codes[in.Code]; !known && in.Code != abi.CodeOK {
		return fmt.Sprintf("reconcile: returned the unknown code %d: return 0 (ok), 1 (retry), 2 (stalled) or 3 (waiting)", in.Code)
	}
	if _, known := outcomes[in.Result.Result]; !known && in.Code == abi.CodeOK {
		return fmt.Sprintf("result: %q is not allowed with code 0: return success, requeue or empty", in.Result.Result)
	}
	if err := in.Result.CheckFor(in.Controller); err != nil {
		return err.Error()
	}
	if violation := checkGroups(in.Result, in.Controller); violation != "" {
		return violation
	}
	if in.Controller.For.MetadataOnly {
		return checkMetadataOnly(in.Result)
	}
	for _, c := range in.Result.Conditions {
		if violation := checkCondition(c, &in.Controller.Conditions); violation != "" {
			return violation
		}
	}
	return ""
}

// checkMetadataOnly checks the result for a primary of which only the metadata is known.
func checkMetadataOnly(r *abi.Result) string {
	const why = ": cannot be set beside for.metadataOnly: the host does not keep the status of the object"
	switch {
	case r.Status != nil:
		return "status" + why
	case len(r.Conditions) > 0:
		return "conditions" + why
	}
	return ""
}

// checkCondition returns how a condition of the guest violates the contract, ""
// if it does not.
func checkCondition(c abi.Condition, declared *abi.Conditions) string {
	switch {
	case !mayWrite(declared, c.Type):
		return fmt.Sprintf("condition %q: not owned by the controller: list it in Conditions.Owned of the controller", c.Type)
	case c.Status != "" && !slices.Contains([]string{abi.ConditionTrue, abi.ConditionFalse, abi.ConditionUnknown}, c.Status):
		return fmt.Sprintf("condition %q: status %q is not True, False, Unknown, or empty (to remove the condition)", c.Type, c.Status)
	case c.Status != "" && !validReason(c.Reason):
		return fmt.Sprintf("condition %q: reason %q is not CamelCase: use a reason such as Succeeded", c.Type, sanitize.Truncate(c.Reason, 64))
	}
	return ""
}

// Limits of metav1.Condition, in bytes.
const (
	maxReason  = 1024
	maxMessage = 32768
)

// validReason reports whether s matches the pattern that metav1.Condition has
// for reasons: ^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$
func validReason(s string) bool {
	if s == "" || len(s) > maxReason || !isLetter(s[0]) || strings.ContainsAny(s[len(s)-1:], ",:") {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && (c < '0' || c > '9') && c != '_' && c != ',' && c != ':' {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
