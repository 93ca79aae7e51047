package request

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAttributesAreThoseOfRBAC(t *testing.T) {
	for line, want := range map[string]Attributes{
		"GET /":                                                 {Verb: "get"},
		"GET /api":                                              {Verb: "get"},
		"GET /api/v1":                                           {Verb: "get"},
		"GET /apis/apps/v1":                                     {Verb: "get"},
		"GET /readyz":                                           {Verb: "get"},
		"GET /api/v1/pods":                                      {Verb: "list", Resource: "pods"},
		"GET /api/v1/pods?watch=false":                          {Verb: "list", Resource: "pods"},
		"GET /api/v1/pods?watch=0":                              {Verb: "list", Resource: "pods"},
		"GET /api/v1/pods?watch=1":                              {Verb: "watch", Resource: "pods"},
		"GET /api/v1/pods?watch":                                {Verb: "watch", Resource: "pods"},
		"GET /api/v1/watch/pods":                                {Verb: "watch", Resource: "pods"},
		"GET /api/v1/watch/namespaces/a/pods/x":                 {Verb: "watch", Resource: "pods", Namespace: "a", Name: "x"},
		"GET /api/v1/pods?watch=1&sendInitialEvents":            {Verb: "watch", Resource: "pods", WatchList: true},
		"GET /api/v1/pods?sendInitialEvents=true":               {Verb: "list", Resource: "pods"},
		"GET /apis/apps/v1/namespaces/a/deployments/x":          {Verb: "get", Group: "apps", Resource: "deployments", Namespace: "a", Name: "x"},
		"GET /apis/apps/v1/namespaces/a/deployments/x/?watch=1": {Verb: "get", Group: "apps", Resource: "deployments", Namespace: "a", Name: "x"},
		"GET /api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx":  {Verb: "list", Resource: "pods", Namespace: "a", Name: "x"},
		"GET /api/v1/namespaces/a/pods?fieldSelector=metadata.name!%3Dx": {Verb: "list", Resource: "pods", Namespace: "a"},
		"GET /api/v1/namespaces":                    {Verb: "list", Resource: "namespaces"},
		"GET /api/v1/namespaces/a":                  {Verb: "get", Resource: "namespaces", Namespace: "a", Name: "a"},
		"PUT /api/v1/namespaces/a/finalize":         {Verb: "update", Resource: "namespaces/finalize", Namespace: "a", Name: "a"},
		"PATCH /api/v1/namespaces/a/status":         {Verb: "patch", Resource: "namespaces/status", Namespace: "a", Name: "a"},
		"PATCH /api/v1/namespaces/a/pods/x/status":  {Verb: "patch", Resource: "pods/status", Namespace: "a", Name: "x"},
		"DELETE /api/v1/namespaces/a/pods/x":        {Verb: "delete", Resource: "pods", Namespace: "a", Name: "x"},
		"DELETE /api/v1/namespaces/a/pods":          {Verb: "deletecollection", Resource: "pods", Namespace: "a"},
		"POST /api/v1/namespaces/a/pods":            {Verb: "create", Resource: "pods", Namespace: "a", Name: "new"},
		"POST /api/v1/namespaces/a/pods/x/eviction": {Verb: "create", Resource: "pods/eviction", Namespace: "a", Name: "x"},
	} {
		method, target, _ := strings.Cut(line, " ")
		const body = `{"metadata": {"name": "new"}}`
		r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
		got, err := Read(r)
		if err != nil || got != want {
			t.Errorf("%s\n got %+v, %v\nwant %+v", line, got, err, want)
		}
		if left, err := io.ReadAll(r.Body); string(left) != body || err != nil {
			t.Errorf("%s: the body that is passed on is %q, %v", line, left, err)
		}
	}
}

func TestServerSideApplyIsItsOwnVerb(t *testing.T) {
	for contentType, want := range map[string]string{
		"application/apply-patch+yaml": "apply", "application/apply-patch+cbor": "apply",
		"application/merge-patch+json": "patch", "application/json-patch+json": "patch",
	} {
		r := httptest.NewRequestWithContext(t.Context(), "PATCH", "/api/v1/namespaces/a/pods/x", strings.NewReader("{}"))
		r.Header.Set("Content-Type", contentType)
		if got, err := Read(r); err != nil || got.Verb != want {
			t.Errorf("%s: %q, %v, want %q", contentType, got.Verb, err, want)
		}
	}
}
