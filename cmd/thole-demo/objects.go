package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/cmd/internal/words"
)

type object = unstructured.Unstructured

// tellChange is about one object.
func tellChange(c *change) []line {
	switch {
	case c.new == nil && c.old.GetKind() == "Event":
		return nil // the server forgets them
	case c.new == nil:
		return []line{{subject(c.old), "gone", plain}}
	case c.new.GetKind() == "Event":
		return tellEvent(c)
	case c.old == nil:
		return append([]line{{subject(c.new), created(c.new), plain}}, tellConditions(&object{}, c.new)...)
	case c.old.GetUID() != c.new.GetUID():
		return append(tellChange(&change{old: c.old}), tellChange(&change{new: c.new})...)
	}
	return append(tellWishes(c.old, c.new), tellProgress(c.old, c.new)...)
}

// tellEvent is about an Event that is new or has happened again.
func tellEvent(c *change) []line {
	if c.old != nil && count(c.old) == count(c.new) {
		return nil
	}
	text := fmt.Sprintf("%s on %s: %s", field(c.new, "reason"), involved(c.new), words.OneLine(field(c.new, "message")))
	if n := count(c.new); n > 1 {
		text += fmt.Sprintf(" (%d times)", n)
	}
	if field(c.new, "type") == "Warning" {
		return []line{{"event", text, bad}}
	}
	return []line{{"event", text, plain}}
}

// tellWishes is what somebody wants of an object: its metadata and its spec.
func tellWishes(from, to *object) []line {
	about := subject(to)
	var lines []line
	say := func(format string, args ...any) {
		lines = append(lines, line{about, fmt.Sprintf(format, args...), plain})
	}
	for _, name := range without(to.GetFinalizers(), from.GetFinalizers()) {
		say("finalizer %s added", name)
	}
	for _, name := range without(from.GetFinalizers(), to.GetFinalizers()) {
		say("finalizer %s removed", name)
	}
	if from.GetDeletionTimestamp() == nil && to.GetDeletionTimestamp() != nil {
		say("deletion requested%s", held(to))
	}
	if what := differences(labels(from), labels(to)); what != "" {
		say("labels: %s", what)
	}
	if what := differences(annotations(from), annotations(to)); what != "" {
		say("annotations: %s", what)
	}
	if what := differences(from.Object["spec"], to.Object["spec"]); what != "" {
		say("spec: %s", what)
	}
	return lines
}

// tellProgress is what somebody reports about an object: its status.
func tellProgress(from, to *object) []line {
	var lines []line
	if what := differences(report(from), report(to)); what != "" {
		lines = append(lines, line{subject(to), "status: " + what, plain})
	}
	return append(lines, tellConditions(from, to)...)
}

// subject is how kubectl names the object.
func subject(o *object) string { return strings.ToLower(o.GetKind()) + "/" + o.GetName() }

// created says who created an object, and for whom.
func created(o *object) string {
	text := "created"
	if managed := o.GetManagedFields(); len(managed) > 0 {
		text += " by " + managed[0].Manager // the first write was the creation
	}
	if owner := metav1.GetControllerOf(o); owner != nil {
		text += ", owned by " + strings.ToLower(owner.Kind) + "/" + owner.Name
	}
	return text
}

func held(o *object) string {
	if len(o.GetFinalizers()) == 0 {
		return ""
	}
	return ", a finalizer holds it"
}

func labels(o *object) any { return scalars(o.GetLabels()) }

// annotations leaves out what the host keeps for itself.
func annotations(o *object) any {
	all := scalars(o.GetAnnotations())
	delete(all, "thole.dev/applied")
	return all
}

func scalars(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// report is the status without the conditions.
func report(o *object) any {
	status, _ := o.Object["status"].(map[string]any)
	status = maps.Clone(status)
	delete(status, "conditions")
	return status
}

func without(all, these []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(these, s) })
}

func field(o *object, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

func count(o *object) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, "count")
	return n
}

func involved(event *object) string {
	return strings.ToLower(field(event, "involvedObject", "kind")) + "/" + field(event, "involvedObject", "name")
}
