package access

import (
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

var (
	pods  = object.Resource{Kind: abi.Kind{APIVersion: "v1", Kind: "Pod"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespaced: true}
	nodes = object.Resource{Kind: abi.Kind{APIVersion: "v1", Kind: "Node"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
)

const user = "system:serviceaccount:a:one "

// may lets the account do what is in the list, written as server.asked without the user.
func (s *server) may(rights ...string) {
	s.answer = func(a authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, int) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: slices.Contains(rights, strings.Join([]string{a.Verb, a.Resource, a.Namespace, a.Name}, " "))}, 201
	}
}

func TestWiderRightsAreAskedForFirst(t *testing.T) {
	const inA, inCluster = `a Role in namespace "a" the rule {apiGroups: [''], resources: `, `a ClusterRole the rule {apiGroups: [''], resources: `
	for name, c := range map[string]struct {
		rights []string
		verb   string
		on     object.Resource
		key    object.Key
		asked  []string
		denied string
	}{
		"all, of one object":               {[]string{"get pods  "}, "get", pods, object.Key{Namespace: "a", Name: "p"}, []string{"get pods  "}, ""},
		"the namespace, of one object":     {[]string{"get pods a "}, "get", pods, object.Key{Namespace: "a", Name: "p"}, []string{"get pods  ", "get pods a "}, ""},
		"its name":                         {[]string{"get pods a p"}, "get", pods, object.Key{Namespace: "a", Name: "p"}, []string{"get pods  ", "get pods a ", "get pods a p"}, ""},
		"another name":                     {[]string{"get pods a q"}, "get", pods, object.Key{Namespace: "a", Name: "p"}, []string{"get pods  ", "get pods a ", "get pods a p"}, inA + `['pods'], verbs: ['get']}`},
		"another namespace":                {[]string{"get pods b "}, "get", pods, object.Key{Namespace: "a", Name: "p"}, []string{"get pods  ", "get pods a ", "get pods a p"}, inA + `['pods'], verbs: ['get']}`},
		"another verb":                     {[]string{"list pods  "}, "get", pods, object.Key{Namespace: "a", Name: "p"}, []string{"get pods  ", "get pods a ", "get pods a p"}, inA + `['pods'], verbs: ['get']}`},
		"all of a namespace":               {[]string{"list pods a "}, "list", pods, object.Key{Namespace: "a"}, []string{"list pods  ", "list pods a "}, ""},
		"all of a namespace, and one name": {[]string{"list pods a p"}, "list", pods, object.Key{Namespace: "a"}, []string{"list pods  ", "list pods a "}, inA + `['pods'], verbs: ['list']}`},
		"all, and the namespace":           {[]string{"list pods a "}, "list", pods, object.Key{}, []string{"list pods  "}, inCluster + `['pods'], verbs: ['list']}`},
		"a cluster-scoped object":          {[]string{"get nodes  "}, "get", nodes, object.Key{Name: "n"}, []string{"get nodes  "}, ""},
		"its cluster-scoped name":          {[]string{"get nodes  n"}, "get", nodes, object.Key{Name: "n"}, []string{"get nodes  ", "get nodes  n"}, ""},
		"not this cluster-scoped name":     {[]string{"get nodes  m"}, "get", nodes, object.Key{Name: "n"}, []string{"get nodes  ", "get nodes  n"}, inCluster + `['nodes'], verbs: ['get']}`},
		"no namespace of a cluster-scoped": {[]string{"get nodes a "}, "get", nodes, object.Key{Namespace: "a", Name: "n"}, []string{"get nodes  ", "get nodes  n"}, inCluster + `['nodes'], verbs: ['get']}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.may(c.rights...)
			if may, known := s.KnownToUse(one, c.verb, c.on, c.key); may || known {
				t.Errorf("known to be %v before it was asked", may)
			}
			for range 2 {
				err := s.MayUse(t.Context(), one, c.verb, c.on, c.key)
				if (err == nil) != (c.denied == "") || err != nil && (!Denied(err) || err.Error() != `"system:serviceaccount:a:one" lacks a right: add to `+c.denied) {
					t.Errorf("got %v", err)
				}
				if may, known := s.KnownToUse(one, c.verb, c.on, c.key); may != (err == nil) || !known {
					t.Errorf("known %v: %v", known, may)
				}
			}
			for i, want := range c.asked {
				if len(s.asked) != len(c.asked) || s.asked[i] != user+want {
					t.Errorf("asked %q, want %q", s.asked, c.asked)
				}
			}
			if s.take(); s.MayUse(t.Context(), other, c.verb, c.on, c.key) != nil && s.take() == 0 {
				t.Error("the answer for one account is that of another")
			}
		})
	}
}

// A wider right is denied for 10 s, a narrower one is allowed for 60 s.
func TestKnownRightIsUsedBeforeAWiderOneIsAskedFor(t *testing.T) {
	s := newServer(t)
	s.may("get pods a p")
	key := object.Key{Namespace: "a", Name: "p"}
	for _, questions := range []int{3, 0} {
		if err := s.MayUse(t.Context(), one, "get", pods, key); err != nil || s.take() != questions {
			t.Errorf("got %v", err)
		}
		s.passes(59 * 1e9)
	}
	s.may()
	if err := s.MayUse(t.Context(), one, "get", pods, key); !Denied(err) || s.take() != 3 {
		t.Errorf("got %v", err)
	}
	s.passes(10 * 1e9)
	if may, known := s.KnownToUse(one, "get", pods, key); may || known {
		t.Error("what was denied is known for longer than 10 s")
	}
}

// A host in namespaces asks in the namespace, and about no more than that.
func TestInNamespacesEachQuestionIsAskedInItsNamespace(t *testing.T) {
	s, key := newServer(t), object.Key{Namespace: "a", Name: "p"}
	s.Local = true
	s.may("get pods a p", "get nodes  ")
	if err := s.MayUse(t.Context(), one, rights.Get, pods, key); err != nil {
		t.Error(err)
	}
	if want := []string{user + "get pods a ", user + "get pods a p"}; !slices.Equal(s.asked, want) || s.local != 2 {
		t.Errorf("asked was %q, %d in the namespace", s.asked, s.local)
	}
	if err := s.MayUse(t.Context(), one, rights.List, pods, key); !Denied(err) {
		t.Errorf("list: %v", err)
	}
	if may, known := s.KnownToUse(one, rights.List, pods, key); may || !known {
		t.Errorf("that it is denied is known: %v", known)
	}
	s.asked, s.local = nil, 0
	if err := s.MayUse(t.Context(), one, rights.Get, nodes, object.Key{Name: "n"}); err != nil || s.local > 0 {
		t.Errorf("%v, %q", err, s.asked)
	}

	// With the roles of a version before it may ask as that did.
	s.forbidsLocal = true
	if err := s.MayUse(t.Context(), other, rights.Get, pods, key); err != nil {
		t.Errorf("%v", err)
	}
	s.always(noAnswer, 403)
	if err := s.MayUse(t.Context(), other, rights.Watch, pods, key); err == nil || Denied(err) || !strings.Contains(err.Error(), "localsubjectaccessreviews") {
		t.Errorf("the error does not state the right that is missing: %v", err)
	}
}

func TestErrorOfAWiderRightAllowsNothing(t *testing.T) {
	s := newServer(t)
	s.answer = func(a authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, int) {
		if a.Namespace == "" {
			return allowed, 400
		}
		return allowed, 201
	}
	if err := s.MayUse(t.Context(), one, "get", pods, object.Key{Namespace: "a", Name: "p"}); err == nil || Denied(err) {
		t.Errorf("got %v", err)
	}
}

func TestDenialIsKnownWhenEachWiderRightIs(t *testing.T) {
	s := newServer(t)
	s.allow(false)
	key := object.Key{Namespace: "a", Name: "p"}
	for _, a := range []Action{getP, getInA} {
		s.wants(t, one, a, false, 1)
		if _, known := s.KnownToUse(one, "get", pods, key); known {
			t.Error("denied before the right to all was asked for")
		}
	}
	s.wants(t, one, getPods, false, 1)
	if may, known := s.KnownToUse(one, "get", pods, key); may || !known {
		t.Errorf("allowed %v, known %v", may, known)
	}
}

// It is looked up for each run and each change.
func TestAKnownRightCostsNoAllocation(t *testing.T) {
	r := New(Config{})
	account := rights.Account{Namespace: "n", Name: "a"}
	widgets := object.Resource{Namespaced: true}
	widgets.GVR.Resource = "widgets"
	in := Action{Verb: rights.Get, Resource: "widgets", Namespace: "n"} // after the right to all was looked for
	r.subject(account).answers.Add(in, answer{true, time.Now().Add(time.Hour)})
	key := object.Key{Namespace: "n", Name: "w"}
	if allowed, known := r.KnownToUse(account, rights.Get, widgets, key); !allowed || !known {
		t.Fatalf("allowed %v, known %v", allowed, known)
	}
	if n := testing.AllocsPerRun(100, func() { r.KnownToUse(account, rights.Get, widgets, key) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
