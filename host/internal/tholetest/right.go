package tholetest

import (
	"net/http"
	"strings"
)

// Right is what one request needs: a verb on a resource, as RBAC names them.
type Right struct {
	Verb, Group, Resource string // resource with its subresource: pods/status
}

// String is the right without its group: patch pods/status.
func (r Right) String() string { return r.Verb + " " + r.Resource }

// rightOf reads a request as the API server does. False for one that is about
// no resource, such as discovery.
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
