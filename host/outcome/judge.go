package outcome

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi"
)

// run is how a run ended.
type run struct {
	verdict  verdict
	failure  *failure // nil for success, requeue and empty
	returned bool     // the result is honoured
}

// failure is why a run did not end well, from whoever said so.
type failure struct {
	class   abi.Class
	reason  string // a valid reason of a condition
	message string // not empty
	after   int64  // ms; only with waiting
}

// judge classifies a run, once.
func judge(in Input) run {
	switch {
	case in.Effect != nil:
		return failed(in.Effect.Class, in.Effect.Reason, describe(in.Effect))
	case in.Fault != nil:
		return failed(in.Fault.Class, in.Fault.Reason, in.Fault.Message)
	}
	if breach := check(in); breach != "" {
		return failed(abi.ClassABI, "", breach)
	}
	if in.Code == abi.CodeOK {
		return run{verdict: outcomes[in.Result.Result], returned: true}
	}
	// A code other than OK decides alone: the abstract result beside it is not
	// looked at, so that stalled implies empty.
	r := failed(codes[in.Code], "", "")
	r.returned = true
	if e := in.Result.Error; e != nil {
		r.failure.say(e.Reason, e.Message)
		r.failure.after = e.After
	}
	return r
}

var outcomes = map[abi.Outcome]verdict{
	abi.OutcomeSuccess: success,
	abi.OutcomeRequeue: requeue,
	abi.OutcomeEmpty:   empty,
}

var codes = map[abi.Code]abi.Class{
	abi.CodeRetry:   abi.ClassRetry,
	abi.CodeStalled: abi.ClassStalled,
	abi.CodeWaiting: abi.ClassWaiting,
}

// classReasons is the reason of a failure that came without one.
var classReasons = map[abi.Class]string{
	abi.ClassRetry:         "Failed",
	abi.ClassStalled:       "Stalled",
	abi.ClassWaiting:       ReasonWaiting,
	abi.ClassPanic:         "Panic",
	abi.ClassTimeout:       "Timeout",
	abi.ClassOutOfMemory:   "OutOfMemory",
	abi.ClassStackOverflow: "StackOverflow",
	abi.ClassABI:           "ContractBroken",
	abi.ClassDenied:        "Denied",
}

// failed returns the run of a failure. Everything but stalled and waiting is
// tried again, a class that is not known too.
func failed(class abi.Class, reason, message string) run {
	if classReasons[class] == "" {
		class = abi.ClassRetry
	}
	f := &failure{class: class, reason: classReasons[class], message: "no message was given (" + string(class) + ")"}
	f.say(reason, message)
	switch class {
	case abi.ClassStalled:
		return run{verdict: stalled, failure: f}
	case abi.ClassWaiting:
		return run{verdict: waiting, failure: f}
	default:
		return run{verdict: retry, failure: f}
	}
}

// say takes over what can stand in a condition.
func (f *failure) say(reason, message string) {
	if validReason(reason) {
		f.reason = reason
	}
	if message != "" {
		f.message = truncate(message, maxMessage)
	}
}

// describe tells a failed effect: "apply v1 Pod default/web: forbidden".
func describe(e *abi.EffectFailure) string {
	name := e.Ref.Name
	if e.Ref.Namespace != "" {
		name = e.Ref.Namespace + "/" + name
	}
	words := slices.DeleteFunc([]string{e.Verb, e.Ref.APIVersion, e.Ref.Kind, name}, func(s string) bool { return s == "" })
	return strings.Join(words, " ") + ": " + e.Message
}

// check returns in what way a returned result breaks the contract, or "". The
// codec has checked its form; this is what depends on the controller.
func check(in Input) string {
	if in.Result == nil {
		return "reconcile returned without a result: call output before returning"
	}
	if _, known := codes[in.Code]; !known && in.Code != abi.CodeOK {
		return fmt.Sprintf("reconcile returned %d: return 0 (ok), 1 (retry), 2 (stalled) or 3 (waiting)", in.Code)
	}
	if _, known := outcomes[in.Result.Result]; !known && in.Code == abi.CodeOK {
		return fmt.Sprintf("result is %q: with code 0 it is success, requeue or empty", in.Result.Result)
	}
	for _, c := range in.Result.Conditions {
		if breach := checkCondition(c, &in.Controller.Conditions); breach != "" {
			return breach
		}
	}
	return ""
}

func checkCondition(c abi.Condition, declared *abi.Conditions) string {
	switch {
	case !owns(declared, c.Type):
		return fmt.Sprintf("condition %q is not the controller's: list it in conditions.owned of the manifest", c.Type)
	case c.Status != "" && !slices.Contains([]string{statusTrue, statusFalse, statusUnknown}, c.Status):
		return fmt.Sprintf("condition %q has status %q: it is True, False, Unknown, or empty to remove it", c.Type, c.Status)
	case c.Status != "" && !validReason(c.Reason):
		return fmt.Sprintf("condition %q has reason %q: a reason is CamelCase, such as Succeeded", c.Type, truncate(c.Reason, 64))
	}
	return ""
}

// Limits of the API: metav1.Condition and events.k8s.io/v1.
const (
	maxReason       = 1024
	maxMessage      = 32768
	maxEventMessage = 1024
)

// validReason applies the pattern of metav1.Condition.reason:
// ^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$
func validReason(s string) bool {
	if s == "" || len(s) > maxReason || !letter(s[0]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !letter(c) && (c < '0' || c > '9') && c != '_' && c != ',' && c != ':' {
			return false
		}
	}
	last := s[len(s)-1]
	return last != ',' && last != ':'
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// truncate shortens s to at most limit bytes of valid UTF-8.
func truncate(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	const mark = "..."
	cut := limit - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}
