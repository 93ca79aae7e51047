// Command full is a plugin for tests that uses every part of the SDK, as the spec of
// its object requests.
package main

import (
	"errors"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Do    string            `json:"do"`
	Size  int               `json:"size,omitempty"`
	Every sdk.Duration      `json:"every,omitzero"`
	Parts map[string][]part `json:"parts,omitempty"`
}

type part struct {
	Name  string  `json:"name"`
	Share float64 `json:"share,omitempty"`
	When  *string `json:"when,omitempty"`
	Any   any     `json:"any,omitempty"`
	Raw   sdk.Raw `json:"raw,omitempty"`
}

type status struct {
	Text  string            `json:"text,omitempty"`
	Parts map[string][]part `json:"parts,omitempty"`
	Share float64           `json:"share,omitempty"`
	Time  time.Time         `json:"time,omitzero"`
}

type request = sdk.Request[spec, status]

var maps = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data,omitempty"`
}

func init() {
	sdk.Plugin("full", "0.0.1")
	sdk.Register(sdk.Controller[spec, status]{
		Name: "full", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Full"}, Owns: []sdk.Kind{maps},
		Indexes:   []sdk.Index{{Name: "key", Kind: maps, Field: "data.k"}},
		Reconcile: reconcile, Interval: time.Minute, Warm: []sdk.Value{configMap{}},
		Processors: []sdk.Processor[spec, status]{process},
		IntervalOf: func(r *request) time.Duration { return r.Spec.Every.Duration },
		Conditions: sdk.Conditions{
			Owned:     []string{"Done"},
			Summaries: []sdk.Summary{{Target: "Reached", Summarized: []string{"Done"}}},
		},
	})
	sdk.Register(sdk.Controller[spec, status]{
		Name: "cold", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Cold"}, Owns: []sdk.Kind{maps},
		Reconcile: reconcile,
	})
}

// kept would keep state between runs if memory were not reset.
var kept int

func reconcile(r *request) (sdk.Action, error) {
	kept++
	r.Log.Info("doing", "what", r.Spec.Do, "attempt", r.Attempt)
	switch r.Spec.Do {
	case "copy":
		r.Status.Parts = r.Spec.Parts
	case "list":
		var found []configMap
		if err := r.List(sdk.Query{Kind: maps, LabelSelector: "a=b"}, &found); err != nil {
			return sdk.Action{}, err
		}
		for _, m := range found {
			r.Status.Text += m.Metadata.Name + "=" + m.Data["k"] + " "
		}
	case "pages":
		query := sdk.Query{Kind: maps, FieldSelector: "data.k!=no"}
		for m, err := range sdk.Pages[configMap](r.Run, query, r.Spec.Size, sdk.Fields("/data/k")) {
			if err != nil {
				return sdk.Action{}, err
			}
			r.Status.Text += m.Metadata.Name + m.Metadata.ResourceVersion + "=" + m.Data["k"] + m.Data["l"] + " "
		}
	case "read":
		var m configMap
		return sdk.AwaitChange(), r.Get(maps.Ref("", "absent"), &m)
	case "apply":
		r.Apply(configMap{TypeMeta: maps.Type(), Metadata: sdk.ObjectMeta{Name: r.Name}, Data: map[string]string{"k": "v"}})
		r.Apply(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "map"}})
		r.Event(sdk.Normal, "Applied", "applied two")
		r.SetCondition(sdk.Condition{Type: "Done", Status: sdk.True, Reason: "Applied"})
	case "grow":
		var blocks [][]byte
		for size := 1; size <= r.Spec.Size; size *= 2 {
			blocks = append(blocks, []byte(strings.Repeat("x", size)))
		}
		r.Status.Text = string(blocks[len(blocks)-1][:1])
	case "keep":
		r.Status.Text = strings.Repeat("i", kept)
	case "time":
		r.Status.Time = time.Now().UTC().Truncate(time.Second)
	case "nan":
		zero := float64(len(r.Spec.Parts))
		r.Status.Share = zero / zero
	case "channel":
		r.Apply(make(chan int))
	case "memo":
		var n int
		_, err := r.Memo(&n)
		r.SetMemo(n + 1)
		r.Status.Text = strings.Repeat("m", n)
		return sdk.RequeueAfter(time.Second), err
	case "random":
		r.Status.Text = string(rune('a' + r.Rand().IntN(26)))
	case "stall":
		return sdk.Action{}, sdk.Stalled("Wrong", errors.New("requested by the spec"))
	case "wait":
		return sdk.Action{}, sdk.Waiting("Soon", time.Second, errors.New("requested by the spec"))
	case "panic":
		panic("requested by the spec")
	}
	return sdk.AwaitChange(), nil
}

func process(r *request, action sdk.Action, err error) (sdk.Action, error) {
	if r.Spec.Do != "process" {
		return action, err
	}
	r.Event(sdk.Normal, "Processed", string(action.Outcome()))
	r.Status.Text = "processed"
	return sdk.Action{}, sdk.Waiting("Processing", time.Second, errors.New("requested by the spec"))
}

func main() {}
