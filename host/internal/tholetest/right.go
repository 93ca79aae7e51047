package tholetest

import (
	"net/http"
	"strings"
)

// Right is a right that a request needs: a verb on a resource, in the terms of
// RBAC.
type Right struct {
	Verb, Group, Resource string // the resource with its subresource: pods/status
}

// String returns the right without its group: "patch pods/status".
func (r Right) String() string { return r.Verb + " " + r.Resource }

// rightOf returns the right that the API server requires for a request. ok is
// false for a request without a resource, such as discovery.
func rightOf(request *http.Request) (r Right, ok bool) {
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case path[0] == "api" && len(path) > 2:
		path = path[2:]
	case path[0] == "apis" && len(path) > 3:
		r.Group, path = path[1], path[3:]
	default:
		return r, false
	}
	if path[0] == "namespaces" && len(path) > 2 {
		path = path[2:]
	}
	r.Resource = path[0]
	if len(path) > 2 {
		r.Resource += "/" + path[2]
	}
	r.Verb = map[string]string{"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}[request.Method]
	if r.Verb == "get" && len(path) == 1 {
		r.Verb = "list"
		if request.URL.Query().Has("watch") {
			r.Verb = "watch"
		}
	}
	return r, true
}
