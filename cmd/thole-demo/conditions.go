package main

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/cmd/internal/words"
)

const ready = "Ready"

// condition is one of an object's status.conditions.
type condition struct{ kind, status, reason, message string }

// conditions are those of the object, by type.
func conditions(o *object) []condition {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	var all []condition
	for _, item := range list {
		m, _ := item.(map[string]any)
		get := func(name string) string { s, _ := m[name].(string); return s }
		all = append(all, condition{get("type"), get("status"), get("reason"), get("message")})
	}
	slices.SortFunc(all, func(a, b condition) int { return strings.Compare(a.kind, b.kind) })
	return all
}

// tellConditions tells those that are new or other than before, and those that
// are gone.
func tellConditions(from, to *object) []line {
	before, after := conditions(from), conditions(to)
	var lines []line
	told := map[string]bool{"": true}
	for _, c := range after {
		if slices.Contains(before, c) {
			continue
		}
		text := c.brief()
		if !told[c.message] && !c.holds() {
			text += ": " + words.OneLine(c.message)
		}
		told[c.message] = true // most often all of them say the same
		lines = append(lines, line{subject(to), text, c.tone()})
	}
	for _, c := range before {
		if !slices.ContainsFunc(after, func(a condition) bool { return a.kind == c.kind }) {
			lines = append(lines, line{subject(to), "condition " + c.kind + " removed", plain})
		}
	}
	return lines
}

// holds says whether it is Ready=True, after which nobody asks why.
func (c condition) holds() bool { return c.kind == ready && c.status == "True" }

// brief is the condition with its reason.
func (c condition) brief() string {
	return strings.TrimSpace(c.kind + "=" + c.status + "  " + c.reason)
}

// String is the condition with its reason and message.
func (c condition) String() string { return c.brief() + ": " + words.OneLine(c.message) }

func (c condition) tone() tone {
	switch {
	case c.holds():
		return good
	case c.kind == ready && c.status == "False":
		return wait
	case c.kind == "Stalled" && c.status == "True":
		return bad
	}
	return plain
}

// isReady says whether the object is Ready as it is wanted now.
func isReady(o *object) bool {
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return observed == o.GetGeneration() && slices.ContainsFunc(conditions(o), condition.holds)
}
