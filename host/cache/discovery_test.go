package cache

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// clusterScoped is a cache of a peer that serves widgets without namespaces, and that shows
// so while look returns true.
func clusterScoped(t *testing.T, p *peer, look func() bool) *Cache {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/apis/example.dev/v1":
			p.ServeHTTP(w, r)
		case !look():
			writeStatus(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		default:
			fmt.Fprint(w, `{"resources":[{"name":"widgets","kind":"Widget","namespaced":false,"verbs":["list","watch"]}]}`)
		}
	}))
	t.Cleanup(server.Close)
	c, err := New(Config{REST: &rest.Config{Host: server.URL}, backoff: quickly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// A kind that is found to be cluster-scoped after it could not be looked up is not followed in
// namespaces, where it has no objects.
func TestKindThatCouldNotBeLookedUpIsNotFollowedInNamespaces(t *testing.T) {
	var requests atomic.Int32
	c := clusterScoped(t, newPeer(t), func() bool { return requests.Add(1) > 1 })
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

// While a kind cannot be looked up, an informer of all its objects shows each of them once.
func TestClusterScopedObjectsAreShownOnce(t *testing.T) {
	var failing atomic.Bool
	p := newPeer(t)
	p.put("", "x")
	c := clusterScoped(t, p, func() bool { return !failing.Load() })
	all := acquire(t, c)
	failing.Store(true)
	c.discovery.invalidate(widget.APIVersion)
	two, err := c.Acquire(within(t), scope.Scope{Kind: widget, Namespaces: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(two.List("", nil)); got != names(all.List("", nil)) {
		t.Errorf("shown are %s", got)
	}
	two.Release()
	if users := usersOf(c); users != 1 {
		t.Errorf("%d users", users)
	}
}
