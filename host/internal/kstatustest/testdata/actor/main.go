// Command actor is a plugin whose runs end as their object demands: spec.script is
// a list of steps, one for each run, and the last one is repeated. A step is a list
// of words: conditions that it sets (Type=Status, where no status removes the
// condition), and the outcome of the run.
//
// The annotation kstatus.thole.dev/script, "2:retry,success", holds a script that
// replaces spec.script. Changing it leaves the generation as it is.
package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
)

func init() {
	sdk.Plugin("actor", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:      "actor",
		For:       sdk.Kind{APIVersion: "kstatus.thole.dev/v1", Kind: "Actor"},
		Owns:      []sdk.Kind{configMapKind},
		Reconcile: reconcile,
		Cleanup:   cleanup,
		Conditions: sdk.Conditions{
			Owned:            []string{"Degraded", "Synced"},
			Summarized:       []string{"Degraded", "Synced"},
			NegativePolarity: []string{"Degraded"},
			Summaries: []sdk.Summary{
				{Target: "Healthy", Summarized: []string{"Degraded", "Synced"}, NegativePolarity: []string{"Degraded"}},
				{Target: "Settled", Summarized: []string{"Synced", "Reconciling", "Stalled"}},
			},
		},
		Warm: []sdk.Value{configMap{}},
	})
}

type spec struct {
	Script []string `json:"script,omitempty"`
}

// status describes the last run whose status was written.
type status struct {
	ScriptID string `json:"scriptID,omitempty"` // the script's generation and annotation
	Outcome  string `json:"outcome,omitempty"`  // of the run
	Seen     int64  `json:"seen,omitempty"`     // the generation of the object that the run was given
	Next     int    `json:"next,omitempty"`     // the step of the next run
	Tries    int    `json:"tries,omitempty"`    // the attempt of the next run
	Cleaned  bool   `json:"cleaned,omitempty"`  // a cleanup has begun
}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data,omitempty"`
}

var configMapKind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

type request = sdk.Request[spec, status]

const scriptAnnotation = "kstatus.thole.dev/script"

func reconcile(r *request) (sdk.Action, error) {
	script := r.Spec.Script
	if _, s, ok := strings.Cut(r.Annotations[scriptAnnotation], ":"); ok {
		script = strings.Split(s, ",")
	}
	scriptID := strconv.FormatInt(r.Generation, 10) + "/" + r.Annotations[scriptAnnotation]
	if r.Status.ScriptID != scriptID {
		r.Status = status{}
	}
	// Runs whose status was not written count as attempts.
	step := min(r.Status.Next+max(r.Attempt-r.Status.Tries, 0), len(script)-1)
	outcome := runStep(r, script[step])
	r.Status = status{
		ScriptID: scriptID, Outcome: outcome, Seen: r.Generation,
		Next: min(step+1, len(script)-1), Tries: tries(outcome, r.Attempt),
	}
	r.Apply(child(r.Name, map[string]string{"scriptID": scriptID}))
	return end(r, outcome)
}

// tries returns the attempt of the next run.
func tries(outcome string, attempt int) int {
	switch outcome {
	case "success", "after":
		return 0
	case "retry":
		return attempt + 1
	}
	return attempt
}

// runStep sets the conditions of a step and returns its outcome.
func runStep(r *request, step string) (outcome string) {
	for _, word := range strings.Fields(step) {
		t, s, isCondition := strings.Cut(word, "=")
		switch {
		case !isCondition:
			outcome = word
		case s == "":
			r.RemoveCondition(t)
		default:
			r.SetCondition(sdk.Condition{Type: t, Status: s, Reason: "Scripted", Message: t + " is " + s + " in the script"})
		}
	}
	return outcome
}

func end(r *request, outcome string) (sdk.Action, error) {
	why := errors.New("the script demands " + outcome)
	switch outcome {
	case "requeue":
		return sdk.Requeue(), nil
	case "empty":
		return sdk.Empty(), nil
	case "after":
		return sdk.RequeueAfter(300 * time.Millisecond), nil
	case "retry":
		return sdk.Action{}, sdk.Retry("Retried", why)
	case "stalled":
		return sdk.Action{}, sdk.Stalled("Stuck", why)
	case "waiting":
		return sdk.Action{}, sdk.Waiting("Waits", 300*time.Millisecond, why)
	case "panic":
		panic(why)
	case "refused":
		r.Apply(child(r.Name+"-refused", map[string]string{"no key": ""}))
	}
	return sdk.AwaitChange(), nil
}

// cleanup takes two runs.
func cleanup(r *request) error {
	if r.Status.Cleaned {
		return nil
	}
	r.Status.Cleaned = true
	return sdk.Waiting("Cleaning", 300*time.Millisecond, errors.New("cleanup takes a second run"))
}

func child(name string, data map[string]string) configMap {
	return configMap{TypeMeta: configMapKind.Type(), Metadata: sdk.ObjectMeta{Name: name}, Data: data}
}

func main() {}
