package main

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/cmd/internal/words"
)

// fact is something that has happened, as one of the sources tells it.
type fact struct {
	at     time.Time // when it was noticed here
	change *change
	record *record
}

// change is what happened to an object: no old, it was created; no new, it is
// gone.
type change struct{ old, new *unstructured.Unstructured }

// line is one line of the story: what it is about, and what happened.
type line struct {
	subject, text string
	tone          tone
}

// tone is how a line is meant; it decides the colour.
type tone int

const (
	plain tone = iota
	good
	wait
	bad
	quiet
)

// tell turns a fact into lines, into none if it is nothing to people.
func tell(f fact) []line {
	switch {
	case f.change != nil:
		return tellChange(f.change)
	case f.record != nil:
		return tellRecord(f.record)
	}
	return nil
}

// tellRecord is about reconciles, plugins, and what the host complains about.
// The other plugins beside the demo's are told of only if they complain.
func tellRecord(r *record) []line {
	if r.Plugin != plugin && r.Plugin != "" && !r.complaint() {
		return nil
	}
	about := "plugin/" + r.Plugin
	switch r.Text {
	case words.Reconciled, words.ReconcileWaits, words.ReconcileFailed:
		return []line{{"reconcile", outcome(r), reconcileTone(r)}}
	case words.PluginRuns:
		return []line{{about, fmt.Sprintf("runs: version %s, generation %d", r.Version, r.Generation), good}}
	case words.PluginWaits:
		return []line{{about, "waits: " + r.Reason, plain}}
	case words.PluginFails, words.NewRefused:
		return []line{{about, fmt.Sprintf("%s (%s): %v", r.Text, r.Step, r.Error), bad}}
	case words.PluginStopped:
		return []line{{about, "stopped", plain}}
	}
	if r.complaint() {
		return []line{{"host", r.String(), bad}}
	}
	return nil
}

func reconcileTone(r *record) tone {
	switch {
	case r.Text == words.ReconcileFailed:
		return bad
	case r.Text == words.ReconcileWaits:
		return wait
	case r.Text == words.Reconciled && r.Writes == 0:
		return quiet
	}
	return plain
}

// outcome says how a reconcile ended and when the object's next one is. There
// is one namespace here, and the conditions say more of what is waited for.
func outcome(r *record) string {
	run := r.Run
	_, run.Object, _ = strings.Cut(run.Object, "/")
	if r.Text == words.ReconcileWaits {
		run.Message = ""
	}
	return run.Tell(r.Text)
}
