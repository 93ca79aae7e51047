package words

import (
	"fmt"
	"strings"
	"time"
)

// Run is the end of a reconcile, in the fields that a host logs.
type Run struct {
	Object   string `json:"object"` // namespace/name
	Result   string `json:"result"`
	Class    string `json:"class"` // of a failure
	Writes   int    `json:"writes"`
	Duration string `json:"duration"` // as Go writes it
	Attempt  int    `json:"attempt"`
	Next     string `json:"next"` // as Go writes it; "": waits for a change
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// Tell says how the reconcile ended, and when the object's next one is; logged
// is what the host has called its end.
func (r Run) Tell(logged string) string {
	parts := []string{r.Object + ": " + r.result(logged), r.writes()}
	if took, err := time.ParseDuration(r.Duration); err == nil {
		parts = append(parts, Duration(took))
	}
	if r.Attempt > 0 {
		parts = append(parts, fmt.Sprintf("attempt %d", r.Attempt))
	}
	if next, err := time.ParseDuration(r.Next); err == nil {
		parts = append(parts, "again in "+Duration(next))
	}
	text := strings.Join(parts, ", ")
	if r.Reason != "" {
		text += "; " + r.Reason
	}
	if message := OneLine(r.Message); r.Reason != "" && message != "" {
		text += ": " + message
	}
	return text
}

func (r Run) result(logged string) string {
	switch logged {
	case ReconcileWaits:
		return "waiting"
	case ReconcileFailed:
		return "failed (" + r.Class + ")"
	}
	return strings.ReplaceAll(r.Result, "_", " ")
}

func (r Run) writes() string {
	switch r.Writes {
	case 0:
		return "nothing to write"
	case 1:
		return "1 write"
	}
	return fmt.Sprintf("%d writes", r.Writes)
}
