package tck

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/abi/webhooks"
)

// Host is the host under test. Its capabilities must return what [Get] and
// [List] return.
type Host interface {
	// Load loads a plugin of that name with those limits. The error may
	// implement [Classified] and [Refusal].
	Load(name string, wasm []byte, limits Limits) (Guest, error)
}

// Guest is a loaded plugin.
type Guest interface {
	// Reconcile makes one call. The error is for a call that did not return as
	// the ABI specifies; it should implement [Classified].
	Reconcile(request []byte) (code int32, output []byte, err error)
	Close()
}

// Indexer is a [Guest] that gives keys to objects.
type Indexer interface {
	// Index is [Guest.Reconcile] for the export index.
	Index(request []byte) (code int32, output []byte, err error)
}

// Stepper is a [Guest] that makes steps of daemons.
type Stepper interface {
	// Step is [Guest.Reconcile] for the export daemon. In a last step, whose request has
	// the event stop, capabilities return [abi.CodeDenied].
	Step(request []byte) (code int32, output []byte, err error)
}

// Scanner is a [Guest] that scans.
type Scanner interface {
	// Scan is [Guest.Reconcile] for the export scan, in which imports with effects return [abi.CodeDenied].
	Scan(request []byte) (code int32, output []byte, err error)
}

// Reviewer is a [Guest] that validates, mutates and converts.
type Reviewer interface {
	// Review is [Guest.Reconcile] for one of the exports validate, mutate and convert. In the
	// first two, get and list are served and other capabilities return [abi.CodeDenied]; in
	// convert all do.
	Review(export string, request []byte) (code int32, output []byte, err error)
}

// Classified is an error with a failure class. Errors of [Guest.Reconcile],
// [Indexer], [Stepper], [Scanner] and [Reviewer] should implement it, themselves or wrapped, so that the class
// can be checked.
type Classified interface {
	error
	FailureClass() abi.Class
}

// Refusal is an error with the step at which a guest was refused. Errors of
// [Host.Load] may implement it, themselves or wrapped, so that the step can be
// checked.
type Refusal interface {
	error
	RefusedAt() Step
}

// Metered is a [Guest] that meters its calls. Fuel returns the cost of the last
// call, in a unit of the host's. The same call must always cost the same.
type Metered interface{ Fuel() uint64 }

// Run loads and calls guests, those of [Cases] or [Hostile], and reports each
// deviation as a failed subtest of the case's name.
func Run(t *testing.T, host Host, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Verify(host); err != nil {
				t.Errorf("%v\nthe guest: %s", err, c.Explain)
			}
		})
	}
}

// Verify loads and calls one guest and returns the first deviation.
func (c Case) Verify(host Host) error {
	limits := c.Limits
	guest, err := host.Load(c.Name, c.Wasm(), limits)
	for limits.Deadline > 0 && limits.Deadline < maxDeadline && c.endedEarly(err) {
		limits.Deadline *= 4
		guest, err = host.Load(c.Name, c.Wasm(), limits)
	}
	if c.Stage == StageLoad {
		return c.verifyRefusal(guest, err)
	}
	if err != nil {
		return fmt.Errorf("load must succeed, but: %w", err)
	}
	defer guest.Close()
	return c.verifyCalls(guest)
}

// maxDeadline bounds the deadlines with which a guest is loaded.
const maxDeadline = 10 * time.Second

// endedEarly reports whether the deadline of a load has ended it at another step than that which
// never returns: the machine was busy with something else.
func (c Case) endedEarly(err error) bool {
	refusal, known := errors.AsType[Refusal](err)
	class, classified := errors.AsType[Classified](err)
	return c.Class == abi.ClassTimeout && known && classified &&
		class.FailureClass() == abi.ClassTimeout && refusal.RefusedAt() != c.Step
}

func (c Case) verifyRefusal(guest Guest, err error) error {
	if err == nil {
		guest.Close()
		return errors.New("load must be refused, but succeeded")
	}
	for _, symbol := range c.Mentions {
		if !strings.Contains(err.Error(), symbol) {
			return fmt.Errorf("the load error must name %q: %w", symbol, err)
		}
	}
	if at, ok := errors.AsType[Refusal](err); ok && c.Step != "" && at.RefusedAt() != c.Step {
		return fmt.Errorf("load must be refused at step %s, but was at %s: %w", c.Step, at.RefusedAt(), err)
	}
	if classified, ok := errors.AsType[Classified](err); ok && c.Class != "" && classified.FailureClass() != c.Class {
		return fmt.Errorf("load must be refused as %s, but was as %s: %w", c.Class, classified.FailureClass(), err)
	}
	return nil
}

// verifyCalls calls a guest. Each call shows that the ones before have spoilt
// nothing; if the host meters them, they must all cost the same.
func (c Case) verifyCalls(guest Guest) error {
	verify := c.verifySuccess
	if c.Stage == StageCall {
		verify = c.verifyFailure
	}
	call := c.callOf(guest)
	if call == nil {
		return nil
	}
	metered, meters := guest.(Metered)
	var first uint64
	for i := range max(c.Calls, 1) {
		if err := c.verifyRun(guest); err != nil {
			return fmt.Errorf("the run before call %d %w", i+1, err)
		}
		code, output, err := call(c.request(i))
		if err := verify(code, output, err); err != nil {
			return fmt.Errorf("call %d %w", i+1, err)
		}
		if !meters || c.Timed() {
			continue
		}
		if fuel := metered.Fuel(); i == 0 {
			first = fuel
		} else if fuel != first {
			return fmt.Errorf("the same call must cost the same, but cost %d and then %d", first, fuel)
		}
	}
	return nil
}

// callOf returns what calls the export of the case, nil if the guest has no such method.
func (c Case) callOf(guest Guest) func(request []byte) (int32, []byte, error) {
	switch {
	case c.Index:
		if indexer, ok := guest.(Indexer); ok {
			return indexer.Index
		}
		return nil
	case c.Daemon:
		if stepper, ok := guest.(Stepper); ok {
			return stepper.Step
		}
		return nil
	case c.Scan:
		if scanner, ok := guest.(Scanner); ok {
			return scanner.Scan
		}
		return nil
	case c.Review != "":
		if reviewer, ok := guest.(Reviewer); ok {
			return func(request []byte) (int32, []byte, error) { return reviewer.Review(c.Review, request) }
		}
		return nil
	}
	return guest.Reconcile
}

// verifyRun makes the run that precedes a call, if there is one.
func (c Case) verifyRun(guest Guest) error {
	if !c.Runs {
		return nil
	}
	run := Case{Output: always(success())}
	return run.verifySuccess(guest.Reconcile(Request()))
}

// request returns the request of a call.
func (c Case) request(call int) []byte {
	namespace := "default"
	if c.Namespaces {
		namespace = fmt.Sprintf("tenant-%02d", call)
	}
	switch {
	case c.Index:
		return IndexRequest()
	case c.Daemon:
		return daemonRequest(namespace, c.Last)
	case c.Scan:
		return ScanRequest()
	case c.Review != "":
		return reviewRequest(c.Review, namespace)
	}
	return RequestIn(namespace)
}

// decode returns an error if the output of a call is against the contract.
func (c Case) decode(output []byte) (err error) {
	switch {
	case c.Index:
		_, err = functionindexes.DecodeResult(output)
	case c.Daemon:
		_, err = daemon.DecodeResult(output)
	case c.Scan:
		_, err = scans.DecodeResult(output)
	case c.Review != "":
		err = c.decodeReview(output)
	default:
		_, err = abi.DecodeResultFor(c.StatusOwner, abi.MaxIntents, resultCheck, output)
	}
	return err
}

// resultCheck returns how a capability checks its section of a result, nil if it has none.
func resultCheck(name string) func(section []byte) error {
	for _, c := range Capabilities() {
		if c.Name == name {
			return c.CheckResult
		}
	}
	return nil
}

// decodeReview decodes the result of a review or conversion, and checks it against the request
// unless that is to fail.
func (c Case) decodeReview(output []byte) error {
	if c.Review == webhooks.ExportConvert {
		q, _ := webhooks.DecodeConvertRequest(c.request(0))
		out, err := webhooks.DecodeConvertResult(output)
		if err != nil || c.Code != abi.CodeOK {
			return err
		}
		return q.CheckResult(out)
	}
	decode := webhooks.DecodeValidateResult
	if c.Review == webhooks.ExportMutate {
		decode = webhooks.DecodeMutateResult
	}
	q, _ := webhooks.DecodeReviewRequest(c.request(0))
	out, err := decode(output)
	if err != nil {
		return err
	}
	return q.CheckResult(out)
}

func (c Case) verifyFailure(_ int32, output []byte, err error) error {
	class, err := c.classOf(output, err)
	if err == nil {
		return fmt.Errorf("must fail as %s, but returned %.200q", c.Class, output)
	}
	if class != c.Class {
		return fmt.Errorf("must fail as %s, but failed as %q: %w", c.Class, class, err)
	}
	if c.Hides != "" && strings.Contains(err.Error(), c.Hides) {
		return fmt.Errorf("the error must not hold what the guest has printed: %w", err)
	}
	return nil
}

// classOf classifies a call. A result that cannot be decoded has class abi,
// whether the host or its caller decodes it.
func (c Case) classOf(output []byte, err error) (abi.Class, error) {
	if err == nil {
		return abi.ClassABI, c.decode(output)
	}
	if classified, ok := errors.AsType[Classified](err); ok {
		return classified.FailureClass(), err
	}
	return abi.ClassNone, err
}

func (c Case) verifySuccess(code int32, output []byte, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("must succeed, but: %w", err)
	case abi.Code(code) != c.Code:
		return fmt.Errorf("must return %d, but returned %d", c.Code, code)
	case c.Output == nil:
		if err := c.decode(output); err != nil {
			return fmt.Errorf("must have a valid result: %w", err)
		}
		return nil
	}
	if want := c.Output(c.request(0)); !bytes.Equal(output, want) {
		return fmt.Errorf("must have the result %s, but has %.200q", want, output)
	}
	return nil
}
