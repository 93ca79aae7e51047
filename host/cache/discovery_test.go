package cache

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/cache/scope"
)

func TestRefusedDiscoveryNamesTheRefusal(t *testing.T) {
	const text = `forbidden: User "u" cannot get path "/apis/example.dev/v1"`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":%q}`, text)
	}))
	defer server.Close()
	c, err := New(Config{REST: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if _, err = c.Resource(within(t), widget); err == nil || !strings.HasSuffix(err.Error(), text) || !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
}

// A kind that is found to be cluster-scoped after it could not be looked up is not followed in
// namespaces, where it has no objects.
func TestKindThatCouldNotBeLookedUpIsNotFollowedInNamespaces(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"resources":[{"name":"widgets","kind":"Widget","namespaced":false,"verbs":["list","watch"]}]}`)
	}))
	defer server.Close()
	c, err := New(Config{REST: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	two := scope.Scope{Kind: widget, Namespaces: []string{"a", "b"}}
	if i, err := c.Acquire(within(t), two); err == nil {
		t.Errorf("%d informers of a kind that could not be looked up", len(i.parts))
	}
	i, err := c.Acquire(within(t), two)
	if err != nil {
		t.Fatal(err)
	}
	if len(i.parts) != 1 || i.parts[0].scope.Namespaces != nil {
		t.Errorf("%d informers, the first one of %s", len(i.parts), i.parts[0].scope)
	}
}
