package author

import (
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole/sdk"
)

// End a run, Run at certain times, Decide how failures are repeated, Run for an object that is
// gone, Learn what has changed, Write conditions and Events.

func init() {
	register(siteKind, "end", endRun,
		sdk.Controller[Spec, Status]{
			IntervalOf: func(r *sdk.Request[Spec, Status]) time.Duration { return r.Spec.Interval.Duration },

			Processors: []sdk.Processor[Spec, Status]{
				func(r *sdk.Request[Spec, Status], action sdk.Action, err error) (sdk.Action, error) {
					if sdk.IsWaiting(err) {
						r.Event(sdk.Normal, "Waiting", err.Error())
					}
					return action, err
				},
			},
		})
	register(siteKind, "timers", runAtTimes,
		sdk.Controller[Spec, Status]{
			Timers: []sdk.Timer{
				{Name: "probe", Interval: time.Minute},
				{Name: "report", Interval: 24 * time.Hour, InitialDelay: time.Hour, Sharp: true},
				{Name: "tidy", Interval: time.Hour, Idle: 10 * time.Minute},
			},
		})
	register(siteKind, "retry", failRun,
		sdk.Controller[Spec, Status]{
			Retry: sdk.RetryPolicy{Initial: time.Second, Cap: time.Minute, Attempts: 10},
			ErrorPolicy: func(r *sdk.Request[Spec, Status], err error, attempt int) error {
				switch {
				case errors.Is(err, errQuota):
					return sdk.Stalled("QuotaExceeded", err)
				case attempt <= 3:
					return sdk.RetryAfter(5*time.Second, err)
				}
				return err
			},
		})
	register(siteKind, "gone", nothing,
		sdk.Controller[Spec, Status]{
			Writes: []sdk.Kind{configMap},
			Gone: func(r *sdk.Request[Spec, Status]) error {
				r.Delete(sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}.Ref("", r.Name+"-notes"))
				return nil
			},
		})
	register(siteKind, "changes", move,
		sdk.Controller[Spec, Status]{
			Writes:  []sdk.Kind{record},
			Changes: sdk.ChangesAnnotation,
		})
	register(siteKind, "condition", setCondition,
		sdk.Controller[Spec, Status]{
			Conditions: sdk.Conditions{Owned: []string{"Available"}, Summarized: []string{"Available"}},
		})
	register(siteKind, "summaries", setFetchFailed,
		sdk.Controller[Spec, Status]{
			Conditions: sdk.Conditions{
				Owned:      []string{"FetchFailed"},
				Summarized: []string{"SourceReady"},
				Summaries: []sdk.Summary{
					{Target: "SourceReady", Summarized: []string{"FetchFailed"}, NegativePolarity: []string{"FetchFailed"}},
				},
			},
		})
}

// endRun ends as the spec says.
func endRun(r *request) (sdk.Action, error) {
	if r.Spec.Do == "wait" {
		return sdk.Action{}, sdk.Waiting("Building", time.Minute, errors.New("it is built"))
	}
	return sdk.AwaitChange(), nil
}

func runAtTimes(r *request) (sdk.Action, error) {
	if r.Due("report") {
		r.Event(sdk.Normal, "Reported", "a day has passed")
	}
	return sdk.AwaitChange(), nil
}

// failRun fails as the spec says.
func failRun(r *request) (sdk.Action, error) {
	if r.Spec.Do == "quota" {
		return sdk.Action{}, fmt.Errorf("apply: %w", errQuota)
	}
	return sdk.Action{}, errors.New("it is busy")
}

func move(r *request) (sdk.Action, error) {
	old, err := r.Old() // nil if there is none
	if err != nil {
		return sdk.Action{}, err
	}
	if old != nil && old.Spec.Zone != r.Spec.Zone {
		r.Delete(record.Ref("", "zone-"+old.Spec.Zone))
	}
	return sdk.AwaitChange(), nil
}

func setCondition(r *request) (sdk.Action, error) {
	r.SetCondition(sdk.Condition{Type: "Available", Status: sdk.True, Reason: "MinimumReplicas"})
	r.Event(sdk.Normal, "Published", "the site is reachable")
	return sdk.AwaitChange(), nil
}

func setFetchFailed(r *request) (sdk.Action, error) {
	r.SetCondition(sdk.Condition{Type: "FetchFailed", Status: sdk.True, Reason: "NoRoute"})
	return sdk.AwaitChange(), nil
}
