// Command actor is a plugin whose runs end as its object says: spec.script is
// a list of steps, one for each run, the last one for ever. A step is a list of
// words: conditions that it sets (Type=Status, no status removes it), and how
// the run ends.
//
// The annotation kstatus.thole.dev/again, "2:retry,success", holds a script that
// is played instead: a change that leaves the generation as it is.
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
		},
		Warm: []any{configMap{}},
	})
}

type spec struct {
	Script []string `json:"script,omitempty"`
}

// status says what the last run that could write saw and decided.
type status struct {
	Scene   string `json:"scene,omitempty"`   // which script: its generation and annotation
	Verdict string `json:"verdict,omitempty"` // how the run ended
	Seen    int64  `json:"seen,omitempty"`    // the generation of the object that it was given
	Next    int    `json:"next,omitempty"`    // the step of the next run
	Tries   int    `json:"tries,omitempty"`   // the attempt that it will be told
	Cleaned bool   `json:"cleaned,omitempty"` // a cleanup has begun
}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data,omitempty"`
}

var configMapKind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

type request = sdk.Request[spec, status]

const again = "kstatus.thole.dev/again"

func reconcile(r *request) (sdk.Action, error) {
	script := r.Spec.Script
	if _, s, ok := strings.Cut(r.Annotations[again], ":"); ok {
		script = strings.Split(s, ",")
	}
	scene := strconv.FormatInt(r.Generation, 10) + "/" + r.Annotations[again]
	if r.Status.Scene != scene {
		r.Status = status{}
	}
	// Runs whose status was not written count as attempts.
	step := min(r.Status.Next+max(r.Attempt-r.Status.Tries, 0), len(script)-1)
	verdict := play(r, script[step])
	r.Status = status{
		Scene: scene, Verdict: verdict, Seen: r.Generation,
		Next: min(step+1, len(script)-1), Tries: tries(verdict, r.Attempt),
	}
	r.Apply(child(r.Name, map[string]string{"scene": scene}))
	return end(r, verdict)
}

// tries is the attempt that the next run is told.
func tries(verdict string, attempt int) int {
	switch verdict {
	case "success", "after":
		return 0
	case "retry":
		return attempt + 1
	}
	return attempt
}

// play sets the conditions of a step and returns its verdict.
func play(r *request, step string) (verdict string) {
	for _, word := range strings.Fields(step) {
		t, s, isCondition := strings.Cut(word, "=")
		switch {
		case !isCondition:
			verdict = word
		case s == "":
			r.RemoveCondition(t)
		default:
			r.SetCondition(sdk.Condition{Type: t, Status: s, Reason: "Played", Message: t + " is " + s + " in the script"})
		}
	}
	return verdict
}

func end(r *request, verdict string) (sdk.Action, error) {
	why := errors.New("the script says " + verdict)
	switch verdict {
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
