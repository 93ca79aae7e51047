package tholetest

import (
	"net/http"
	"slices"
	"strings"
)

// Right is a right that a request needs: a verb on a resource, in the terms of
// RBAC.
type Right struct {
	Verb, Group, Resource string // the resource with its subresource: pods/status
}

// String returns the right without its group: "patch pods/status".
func (r Right) String() string { return r.Verb + " " + r.Resource }

// Rights returns the rights that requests needed, and those that were denied.
func (p *Proxy) Rights() (used, denied []Right) {
	p.tb.Helper()
	for _, r := range p.Requests() {
		if r.Resource == "" || r.ServerCode == 0 {
			continue
		}
		for _, right := range r.rights() {
			if !slices.Contains(used, right) {
				used = append(used, right)
			}
			if r.ServerCode == http.StatusForbidden && !slices.Contains(denied, right) {
				denied = append(denied, right)
			}
		}
	}
	return used, denied
}

// rights returns what the API server requires. A server-side apply is a patch, and
// a creation if there was no object.
func (r Request) rights() []Right {
	right := Right{r.Verb, r.Group, r.Resource}
	if r.Verb != "apply" {
		return []Right{right}
	}
	right.Verb = "patch"
	if !r.Created {
		return []Right{right}
	}
	return []Right{right, {"create", r.Group, r.Resource}}
}

// Succeeded returns the numbers of requests by verb that succeeded at the API
// server, for the named resources and their subresources, or for all resources if
// none is named. Server-side apply has the verb "apply". Failed requests are not
// counted: a conflict or an overloaded server is a good reason to repeat a request.
func (p *Proxy) Succeeded(resources ...string) Counts {
	p.tb.Helper()
	counts := Counts{}
	for _, r := range p.Requests() {
		name, _, _ := strings.Cut(r.Resource, "/")
		ok := r.ServerCode > 0 && r.ServerCode < http.StatusMultipleChoices
		if ok && name != "" && (len(resources) == 0 || slices.Contains(resources, name)) {
			counts[r.Verb]++
		}
	}
	return counts
}

// Counts are numbers of requests by verb.
type Counts map[string]int

// Since returns the difference to earlier counts, without verbs whose number is the
// same.
func (c Counts) Since(before Counts) Counts {
	since := Counts{}
	for verb, n := range c {
		if d := n - before[verb]; d != 0 {
			since[verb] = d
		}
	}
	return since
}

// Writes returns the number of requests that write.
func (c Counts) Writes() (n int) {
	for _, verb := range []string{"create", "update", "patch", "apply", "delete", "deletecollection"} {
		n += c[verb]
	}
	return n
}

// Reads returns the number of requests that read, without watches.
func (c Counts) Reads() int { return c["get"] + c["list"] }
