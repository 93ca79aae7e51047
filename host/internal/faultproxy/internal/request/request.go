// Package request finds out what a request to the API server is about.
package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
)

// Attributes are a request in the terms of RBAC. A server-side apply has the verb
// "apply", although RBAC calls it a patch.
type Attributes struct {
	Verb      string `json:"verb"`
	Group     string `json:"group"`
	Resource  string `json:"resource"` // with its subresource: pods/status; "" for discovery and probes
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UserAgent string `json:"userAgent"`

	// WatchList is set for a watch that begins with the existing objects.
	WatchList bool `json:"-"`
}

var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
	http.MethodDelete: "delete", http.MethodGet: "get", http.MethodHead: "get",
}

// Read returns the attributes of a request. It reads the body into memory: the
// server notices that a client has gone away only after it has read the body, and a
// create has its name in it.
func Read(r *http.Request) (Attributes, error) {
	a := attributes(r)
	if r.Body == nil || r.Body == http.NoBody || r.Header.Get("Upgrade") != "" {
		return a, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return a, fmt.Errorf("read request: %w", err)
	}
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	if a.Verb == "create" && a.Name == "" {
		a.Name = nameIn(body)
	}
	return a, nil
}

// nameIn returns the name of an object in JSON, "" for other encodings.
func nameIn(body []byte) string {
	var object struct {
		Metadata struct{ Name string }
	}
	_ = json.Unmarshal(body, &object)
	return object.Metadata.Name
}

// attributes follows RequestInfoFactory of k8s.io/apiserver.
func attributes(r *http.Request) Attributes {
	a := Attributes{Verb: verbs[r.Method], UserAgent: r.UserAgent()}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case path[0] == "api" && len(path) > 2:
		path = path[2:]
	case path[0] == "apis" && len(path) > 3:
		a.Group, path = path[1], path[3:]
	default:
		return a
	}
	if path[0] == "watch" && len(path) > 1 { // deprecated form of ?watch=true
		a.Verb, path = "watch", path[1:]
	}
	a.setObject(path)
	a.setVerb(r)
	return a
}

// setObject takes a path that begins with "namespaces" or with a resource.
func (a *Attributes) setObject(path []string) {
	if path[0] == "namespaces" && len(path) > 1 {
		a.Namespace = path[1]
		if len(path) > 2 && path[2] != "status" && path[2] != "finalize" { // subresources of a namespace
			path = path[2:]
		}
	}
	a.Resource = path[0]
	if len(path) > 1 {
		a.Name = path[1]
	}
	if len(path) > 2 {
		a.Resource += "/" + path[2]
	}
}

func (a *Attributes) setVerb(r *http.Request) {
	query := r.URL.Query()
	switch {
	case a.Verb == "patch" && strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch"):
		a.Verb = "apply"
	case a.Verb == "delete" && a.Name == "":
		a.Verb = "deletecollection"
	case a.Verb == "get" && a.Name == "":
		a.Verb = "list"
		if isTrue(query, "watch") {
			a.Verb = "watch"
		}
	}
	if a.Name == "" && slices.Contains([]string{"list", "watch", "deletecollection"}, a.Verb) {
		a.Name = nameSelected(query.Get("fieldSelector"))
	}
	a.WatchList = a.Verb == "watch" && isTrue(query, "sendInitialEvents")
}

// isTrue decodes a boolean parameter as the API server does: whatever is neither
// "false" nor "0" is true.
func isTrue(query url.Values, parameter string) bool {
	values, ok := query[parameter]
	return ok && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// nameSelected returns the name that a field selector requires.
func nameSelected(selector string) string {
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return ""
	}
	name, _ := parsed.RequiresExactMatch("metadata.name")
	return name
}
