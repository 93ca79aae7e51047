package sdk_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// The controller of this file ends its runs with what the tests set, and calls their
// processors.

type sourceSpec struct {
	Interval sdk.Duration `json:"interval,omitzero"`
}

type sourceStatus struct {
	Handled string `json:"handled,omitempty"`
}

type source = sdk.Request[sourceSpec, sourceStatus]

type processor = sdk.Processor[sourceSpec, sourceStatus]

var (
	sourceKind = sdk.Kind{APIVersion: "example.com/v1", Kind: "Source"}

	endsWith   func(*source) (sdk.Action, error)
	processors [2]processor
	intervals  int // calls of IntervalOf
)

func init() {
	sdk.Register(sdk.Controller[sourceSpec, sourceStatus]{
		Name: "source", For: sourceKind,
		Reconcile: func(r *source) (sdk.Action, error) { return endsWith(r) },
		Cleanup: func(r *source) error {
			_, err := endsWith(r)
			return err
		},
		Processors: []processor{
			func(r *source, action sdk.Action, err error) (sdk.Action, error) {
				return processors[0](r, action, err)
			},
			func(r *source, action sdk.Action, err error) (sdk.Action, error) {
				return processors[1](r, action, err)
			},
		},
		Interval: time.Hour,
		IntervalOf: func(r *source) time.Duration {
			intervals++
			return r.Spec.Interval.Duration
		},
		Conditions: sdk.Conditions{
			Owned: []string{"FetchFailed"}, Summarized: []string{"Fetched"},
			Summaries: []sdk.Summary{{Target: "Fetched", Summarized: []string{"FetchFailed"}, NegativePolarity: []string{"FetchFailed"}}},
		},
	})
}

var sourceRef = sourceKind.Ref("default", "s")

// sourceWorld returns a world with one Source. Its processors change nothing.
func sourceWorld(t *testing.T, spec string, action sdk.Action, err error) *sdktest.World {
	t.Helper()
	intervals = 0
	endsWith = func(*source) (sdk.Action, error) { return action, err }
	for i := range processors {
		processors[i] = func(_ *source, action sdk.Action, err error) (sdk.Action, error) { return action, err }
	}
	w := sdktest.New(t, "source")
	w.Create(`{"apiVersion":"example.com/v1","kind":"Source","metadata":{"namespace":"default","name":"s"},"spec":` + spec + `}`)
	return w
}

func TestIntervalComesFromTheObject(t *testing.T) {
	failed := errors.New("no luck")
	for name, c := range map[string]struct {
		spec   string
		action sdk.Action
		err    error
		expect func(*sdktest.Run)
	}{
		"success":                            {`{"interval":"5m"}`, sdk.AwaitChange(), nil, func(r *sdktest.Run) { r.ExpectReady().ExpectNext(5 * time.Minute) }},
		"success of an object without one":   {`{}`, sdk.AwaitChange(), nil, func(r *sdktest.Run) { r.ExpectReady().ExpectNext(time.Hour) }},
		"success with one of 200 years":      {`{"interval":"1752000h"}`, sdk.AwaitChange(), nil, func(r *sdktest.Run) { r.ExpectReady().ExpectNext(100 * 365 * 24 * time.Hour) }},
		"success with a negative one":        {`{"interval":"-5m"}`, sdk.AwaitChange(), nil, func(r *sdktest.Run) { r.ExpectReady().ExpectNext(time.Hour) }},
		"a run that names a time":            {`{"interval":"5m"}`, sdk.RequeueAfter(time.Minute), nil, func(r *sdktest.Run) { r.ExpectNext(time.Minute) }},
		"a run that names a time before now": {`{"interval":"5m"}`, sdk.RequeueAfter(-time.Minute), nil, func(r *sdktest.Run) { r.ExpectNext(100 * time.Millisecond) }},
		"waiting":                            {`{"interval":"5m"}`, sdk.AwaitChange(), sdk.Waiting("Soon", time.Second, failed), func(r *sdktest.Run) { r.ExpectWaiting("Soon").ExpectNext(time.Second) }},
		"stalled":                            {`{"interval":"5m"}`, sdk.AwaitChange(), sdk.Stalled("Wrong", failed), func(r *sdktest.Run) { r.ExpectStalled("Wrong").ExpectNext(0) }},
		"empty":                              {`{"interval":"5m"}`, sdk.Empty(), nil, func(r *sdktest.Run) { r.ExpectEmpty().ExpectNext(0) }},
		"requeue has a backoff":              {`{"interval":"5m"}`, sdk.Requeue(), nil, func(r *sdktest.Run) { r.ExpectRequeue() }},
		"retry has a backoff":                {`{"interval":"5m"}`, sdk.AwaitChange(), failed, func(r *sdktest.Run) { r.ExpectRetry("") }},
	} {
		t.Run(name, func(t *testing.T) {
			c.expect(sourceWorld(t, c.spec, c.action, c.err).Reconcile("default/s"))
			if called := intervals > 0; called != (c.action == sdk.AwaitChange() && c.err == nil) {
				t.Errorf("IntervalOf was called %d times", intervals)
			}
		})
	}
}

func TestIntervalFollowsTheObject(t *testing.T) {
	w := sourceWorld(t, `{"interval":"5m"}`, sdk.AwaitChange(), nil)
	w.Reconcile("default/s").ExpectNext(5 * time.Minute)
	w.Change(sourceRef, `{"spec":{"interval":"7m"}}`)
	w.Reconcile("default/s").ExpectNext(7 * time.Minute)
}

// TestProcessorsSeeHowTheRunEnds passes each way to end a run through the processors
// unchanged.
func TestProcessorsSeeHowTheRunEnds(t *testing.T) {
	failed := errors.New("no luck")
	for want, c := range map[string]struct {
		action sdk.Action
		err    error
	}{
		"success 0s stalled=false waiting=false":                    {sdk.AwaitChange(), nil},
		"success 1m0s stalled=false waiting=false":                  {sdk.RequeueAfter(time.Minute), nil},
		"requeue 0s stalled=false waiting=false":                    {sdk.Requeue(), nil},
		"empty 0s stalled=false waiting=false":                      {sdk.Empty(), nil},
		"no luck stalled=false waiting=false":                       {sdk.Action{}, failed},
		"no luck stalled=true waiting=false":                        {sdk.Action{}, sdk.Stalled("Wrong", failed)},
		"wrapped: no luck stalled=true waiting=false":               {sdk.Action{}, fmt.Errorf("wrapped: %w", sdk.Stalled("Wrong", failed))},
		"no luck stalled=false waiting=true":                        {sdk.Action{}, sdk.Waiting("Soon", time.Second, failed)},
		sdk.ErrUnavailable.Error() + " stalled=false waiting=false": {sdk.Action{}, sdk.Stalled("Wrong", sdk.ErrUnavailable)},
	} {
		t.Run(want, func(t *testing.T) {
			w := sourceWorld(t, `{}`, c.action, c.err)
			var got [2]string
			for i := range processors {
				processors[i] = func(r *source, action sdk.Action, err error) (sdk.Action, error) {
					got[i] = fmt.Sprint(action.Outcome(), " ", action.After())
					if err != nil {
						got[i] = err.Error()
					}
					got[i] += fmt.Sprintf(" stalled=%t waiting=%t", sdk.IsStalled(err), sdk.IsWaiting(err))
					return action, err
				}
			}
			run := w.Reconcile("default/s")
			if got != [2]string{want, want} {
				t.Errorf("the processors see %q", got)
			}
			unprocessed := sourceWorld(t, `{}`, c.action, c.err).Reconcile("default/s")
			if run.Class != unprocessed.Class || run.Reason != unprocessed.Reason || run.Result.Result != unprocessed.Result.Result {
				t.Errorf("processors that change nothing: %s %s %s, without: %s %s %s",
					run.Class, run.Reason, run.Result.Result, unprocessed.Class, unprocessed.Reason, unprocessed.Result.Result)
			}
		})
	}
}

func TestProcessorsChangeTheResultInOrder(t *testing.T) {
	w := sourceWorld(t, `{"interval":"5m"}`, sdk.Action{}, errors.New("no luck"))
	processors[0] = func(r *source, _ sdk.Action, err error) (sdk.Action, error) {
		r.Event(sdk.Warning, "FetchFailed", err.Error())
		r.SetCondition(sdk.Condition{Type: "FetchFailed", Status: sdk.True, Reason: "NoLuck", Message: err.Error()})
		r.Status.Handled = "first"
		return sdk.AwaitChange(), sdk.Waiting("Soon", time.Second, err)
	}
	processors[1] = func(r *source, action sdk.Action, err error) (sdk.Action, error) {
		if !sdk.IsWaiting(err) {
			t.Errorf("the second processor sees %v", err)
		}
		r.Log.Info("handled", "by", r.Status.Handled)
		r.Status.Handled += ", second"
		return action, nil
	}
	run := w.Reconcile("default/s").ExpectNext(5*time.Minute).ExpectEvents("FetchFailed").
		ExpectCondition("FetchFailed", sdk.True, "NoLuck").ExpectCondition("Fetched", sdk.False, "NoLuck").ExpectCondition("Ready", sdk.False, "NoLuck")
	if run.Result.Result != abi.OutcomeSuccess || len(run.Logs) != 1 || run.Logs[0].Fields["by"] != "first" {
		t.Errorf("the run ended as %q and logged %+v", run.Result.Result, run.Logs)
	}
	var after struct{ Status sourceStatus }
	if w.Get(sourceRef, &after); after.Status.Handled != "first, second" {
		t.Errorf("status is %+v", after.Status)
	}
}

func TestProcessorsAreCalledAfterCleanup(t *testing.T) {
	w := sourceWorld(t, `{}`, sdk.AwaitChange(), nil)
	processors[0] = func(r *source, action sdk.Action, err error) (sdk.Action, error) {
		r.Status.Handled = "here" // so that there is something to clean up
		return action, err
	}
	w.Reconcile("default/s").ExpectReady()
	w.Delete(sourceRef)
	held := errors.New("the archive is not written yet")
	processors[1] = func(r *source, action sdk.Action, err error) (sdk.Action, error) {
		if !r.Deleting() || action.Outcome() != sdk.OutcomeSuccess || err != nil {
			t.Errorf("deleting %t: %+v, %v", r.Deleting(), action, err)
		}
		return action, held
	}
	intervals = 0
	w.Reconcile("default/s").ExpectRetry("")
	held = nil
	w.Reconcile("default/s")
	w.ExpectGone(sourceRef)
	if intervals > 0 {
		t.Error("a cleanup has an interval")
	}
}

func TestProcessorsSeeWhatCouldNotBeEncoded(t *testing.T) {
	w := sourceWorld(t, `{}`, sdk.AwaitChange(), nil)
	processors[0] = func(r *source, action sdk.Action, err error) (sdk.Action, error) {
		r.SetMemo(func() {})
		return action, err
	}
	processors[1] = func(_ *source, _ sdk.Action, err error) (sdk.Action, error) {
		if !sdk.IsStalled(err) {
			t.Errorf("the second processor sees %v", err)
		}
		return sdk.Requeue(), nil
	}
	w.Reconcile("default/s").ExpectStalled("InvalidMemo")
}

func TestProcessorsAreNotCalledForAnObjectThatCannotBeRead(t *testing.T) {
	w := sourceWorld(t, `{"interval":5}`, sdk.AwaitChange(), nil)
	processors[0] = func(_ *source, action sdk.Action, err error) (sdk.Action, error) {
		t.Error("a processor was called")
		return action, err
	}
	w.Reconcile("default/s").ExpectStalled("InvalidSpec")
}
