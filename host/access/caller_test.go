package access

import (
	"context"
	"fmt"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/thole-dev/thole/host/object"
)

func callerOf(name string, change ...func(*authenticationv1.UserInfo)) *Caller {
	u := authenticationv1.UserInfo{Username: name, UID: "u", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
	for _, c := range change {
		c(&u)
	}
	return NewCaller(u)
}

func TestACallerMayReconcileByAnyOfThreeRights(t *testing.T) {
	key := object.Key{Namespace: "a", Name: "p"}
	for name, test := range map[string]struct {
		right Action
		want  bool
		asked int
	}{
		"to all":             {Action{Verb: Reconcile, Resource: "pods"}, true, 1},
		"in the namespace":   {Action{Verb: Reconcile, Resource: "pods", Namespace: "a"}, true, 2},
		"by name":            {Action{Verb: Reconcile, Resource: "pods", Namespace: "a", Name: "p"}, true, 3},
		"another name":       {Action{Verb: Reconcile, Resource: "pods", Namespace: "a", Name: "q"}, false, 3},
		"another namespace":  {Action{Verb: Reconcile, Resource: "pods", Namespace: "b"}, false, 3},
		"another verb":       {Action{Verb: "update", Resource: "pods"}, false, 3},
		"another kind":       {Action{Verb: Reconcile, Resource: "nodes"}, false, 3},
		"another API group":  {Action{Verb: Reconcile, Group: "x", Resource: "pods"}, false, 3},
		"of its subresource": {Action{Verb: Reconcile, Resource: "pods", Subresource: "status"}, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.answer = func(a authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, int) {
				asked := Action{Verb: a.Verb, Group: a.Group, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name}
				return authorizationv1.SubjectAccessReviewStatus{Allowed: asked == test.right}, 201
			}
			for range 2 { // the second time by what is remembered
				if got, err := s.MayReconcile(t.Context(), callerOf("u"), pods, key); got != test.want || err != nil {
					t.Errorf("%v, %v", got, err)
				}
			}
			if len(s.asked) != test.asked {
				t.Errorf("asked was %q", s.asked)
			}
		})
	}
}

// What one user may do is nothing about another one of the same name, and the groups are asked with.
func TestCallersAreToldApartByAllThatIsKnownOfThem(t *testing.T) {
	s := newServer(t)
	all := []*Caller{
		callerOf("u"),
		callerOf("v"),
		callerOf("u", func(u *authenticationv1.UserInfo) { u.UID = "other" }),
		callerOf("u", func(u *authenticationv1.UserInfo) { u.Groups = nil }),
		callerOf("u", func(u *authenticationv1.UserInfo) { u.Extra = nil }),
	}
	for i, c := range all {
		for range 2 {
			if got, err := s.MayReconcile(t.Context(), c, pods, object.Key{Namespace: "a", Name: "p"}); !got || err != nil {
				t.Errorf("%d: %v, %v", i, got, err)
			}
		}
		if len(s.asked) != i+1 {
			t.Errorf("%d: asked was %q", i, s.asked)
		}
	}
	if _, err := s.MayReconcile(t.Context(), callerOf("w"), pods, object.Key{Namespace: "a", Name: "p"}); err != nil || !slices.Equal(s.groups, []string{"g"}) {
		t.Errorf("%v, the groups were %q", err, s.groups)
	}
}

func TestACallerThatAsksForManyNamesIsBounded(t *testing.T) {
	s := newServer(t)
	s.allow(false)
	var failed error
	for i := 0; failed == nil && i < 2*atOnce; i++ {
		_, failed = s.MayReconcile(context.Background(), callerOf("u"), pods, object.Key{Namespace: "a", Name: fmt.Sprint(i)})
	}
	if !TooOften(failed) {
		t.Errorf("got %v", failed)
	}
	if _, err := s.MayReconcile(t.Context(), callerOf("v"), pods, object.Key{Namespace: "a", Name: "p"}); err != nil {
		t.Errorf("another caller: %v", err)
	}
}

func TestNothingIsAllowedToACallerWithoutAnAnswer(t *testing.T) {
	s := newServer(t)
	s.answer = func(authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, int) {
		return noAnswer, 500
	}
	if got, err := s.MayReconcile(t.Context(), callerOf("u"), pods, object.Key{Namespace: "a", Name: "p"}); got || err == nil || TooOften(err) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestACallerMayGetAPath(t *testing.T) {
	s := newServer(t)
	s.answer = func(a authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, int) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: a == authorizationv1.ResourceAttributes{Verb: "get", Name: "/metrics"}}, 201
	}
	for path, want := range map[string]bool{"/metrics": true, "/plugins": false} {
		for range 2 { // the second time by what is remembered
			if got, err := s.MayGet(t.Context(), callerOf("u"), path); got != want || err != nil {
				t.Errorf("%s: %v, %v", path, got, err)
			}
		}
	}
	slices.Sort(s.asked)
	if want := []string{"u get   /metrics", "u get   /plugins"}; !slices.Equal(s.asked, want) {
		t.Errorf("asked was %q, want %q", s.asked, want)
	}
	s.always(authorizationv1.SubjectAccessReviewStatus{Allowed: true}, 500)
	if got, err := s.MayGet(t.Context(), callerOf("v"), "/metrics"); got || err == nil {
		t.Errorf("after an error: %v, %v", got, err)
	}
}
