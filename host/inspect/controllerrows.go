package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
)

// This file describes what a controller requests.

// controllerRows are the rows of one controller.
type controllerRows struct {
	name string
	rows [][]string
}

// describe returns the rows of a controller: what it requests, and what the
// limits of the host leave of that.
func describe(m *abi.Manifest, c *abi.Controller, limits config.Limits, more []func(*abi.Controller) (title, text string)) controllerRows {
	finalizer := ""
	switch {
	case c.Finalizer:
		finalizer = effect.Finalizer(m.Name, c.Name)
	case c.WhileDeleting:
		finalizer = "none: runs while others hold an object that is being deleted"
	}
	var owned []string
	if m.Managed {
		owned = append(owned, "managed by the plugin")
	}
	if c.Applied == abi.AppliedMemory {
		owned = append(owned, "without "+effect.AppliedAnnotation)
	}
	rows := [][]string{
		{"For", scope.Describe(c.For)},
		{"Owns", orDash(followedList(c.Owns, owned...))},
		{"Reads", orDash(followedList(c.Reads))},
		{"Watches", orDash(watchList(c.Watches))},
		{"Writes", orDash(kindList(c.Writes))},
		{"Finalizer", orDash(finalizer)},
		{"Gone", orDash(gone(c))},
		{"Interval", interval(c.Interval)},
		{"Timeout", bounded(milliseconds(c.Timeout), limits.Timeout.Duration)},
		{"Concurrency", bounded(c.Concurrency, limits.Concurrency)},
		{"Conditions", conditions(c)},
	}
	for _, row := range more {
		title, text := row(c)
		rows = append(rows, []string{title, orDash(text)})
	}
	return controllerRows{c.Name, rows}
}

// gone describes whether a run comes for objects that are gone.
func gone(c *abi.Controller) string {
	if c.Gone {
		return "runs for objects that are gone"
	}
	return ""
}

func kindList(kinds []abi.Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.String()
	}
	return list(names)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func interval(n int64) string {
	if n == 0 {
		return "none: runs when something changes"
	}
	return milliseconds(n).String() + " after a success"
}

// bounded describes a requested value, where 0 requests the limit, which the
// policy sets, or the host.
func bounded[T ~int | ~int64](requested, limit T) string {
	switch {
	case requested == 0:
		return fmt.Sprintf("%v, the limit", limit)
	case requested > limit:
		return fmt.Sprintf("%v, the limit; %v is requested", limit, requested)
	}
	return fmt.Sprint(requested)
}

func conditions(controller *abi.Controller) string {
	switch {
	case controller.For.MetadataOnly:
		return "none: only metadata is followed"
	case object.GuestOwnsStatus(controller):
		return "none: the plugin writes them in the status"
	case !object.HasConditions(controller):
		return "none: the manifest names none, and the kind is a built-in one"
	}
	c := controller.Conditions
	parts := []string{summary(c.TargetOrReady(), c.Summarized, c.NegativePolarity)}
	for _, s := range c.Summaries {
		parts = append(parts, summary(s.Target, s.Summarized, s.NegativePolarity))
	}
	if len(c.Owned) > 0 {
		parts = append(parts, "owns "+list(c.Owned))
	}
	return strings.Join(parts, "; ")
}

// summary describes a target condition and what it depends on.
func summary(target string, summarized, negative []string) string {
	if len(summarized) > 0 {
		target += " from " + list(summarized)
	}
	if len(negative) > 0 {
		target += " (bad when True: " + list(negative) + ")"
	}
	return target
}
