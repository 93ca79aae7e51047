// Package explain turns what the API server refuses, and what keeps it from
// answering, into what to do about it.
package explain

import (
	"fmt"
	"regexp"
	"strings"
)

// Right is a right that a request lacked.
type Right struct {
	User      string
	Verb      string
	Group     string // "" for the core group
	Resource  string // with its subresource: "pods/status"
	Namespace string // "" at the cluster scope
}

// unauthorized is the text of the authorizer's refusal, the same for every
// resource: k8s.io/apiserver responsewriters.
var unauthorized = regexp.MustCompile(`User "([^"]*)" cannot (\w+) resource "([^"]+)" in API group "([^"]*)" (?:in the namespace "([^"]*)"|at the cluster scope)`)

// MissingRight reads the message of a refusal (403). ok is false if it does
// not name a right: admission plugins, quotas and webhooks refuse with the
// same code.
func MissingRight(message string) (right Right, ok bool) {
	m := unauthorized.FindStringSubmatch(message)
	if m == nil {
		return Right{}, false
	}
	return Right{User: m[1], Verb: m[2], Resource: m[3], Group: m[4], Namespace: m[5]}, true
}

// Advice names the rule to add, with the right's verb unless verbs are given.
func (r Right) Advice(verbs ...string) string {
	if len(verbs) == 0 {
		verbs = []string{r.Verb}
	}
	where := fmt.Sprintf("a Role in namespace %q", r.Namespace)
	if r.Namespace == "" {
		where = "a ClusterRole"
	}
	return fmt.Sprintf("%q lacks a right: add to %s the rule {apiGroups: [%q], resources: [%q], verbs: [%s]}",
		r.User, where, r.Group, r.Resource, quoted(verbs))
}

func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(out, ", ")
}
