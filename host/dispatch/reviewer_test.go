package dispatch

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// reviews is an API server with rights such as "get gadgets ns/g".
type reviews struct {
	mu     sync.Mutex
	rights []string
	asked  int
}

func (r *reviews) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	time.Sleep(time.Millisecond) // fake time
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	a := review.Spec.ResourceAttributes
	kind := abi.Kind{Kind: a.Resource}
	review.Status.Allowed = slices.Contains(r.rights, asked(a.Verb, kind, object.Key{Namespace: a.Namespace, Name: a.Name}))
	return review, nil
}

func (r *reviews) set(rights ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rights, r.asked = rights, 0
}

// reviewed is an account whose rights are reviewed.
type reviewed struct{ *access.Reviewer }

var anAccount = rights.Account{Namespace: "plugins", Name: "p"}

func resourceOf(kind abi.Kind) object.Resource {
	r := object.Resource{Namespaced: true}
	r.GVR.Resource = map[abi.Kind]string{widget: "widgets", gadget: "gadgets"}[kind]
	return r
}

func (r reviewed) May(ctx context.Context, verb string, kind abi.Kind, key object.Key) error {
	return r.MayUse(ctx, anAccount, verb, resourceOf(kind), key)
}

func (r reviewed) Known(verb string, kind abi.Kind, key object.Key) (allowed, known bool) {
	return r.KnownToUse(anAccount, verb, resourceOf(kind), key)
}

// A right that is taken away is missed within a minute, and one that is given is found
// within 10 s.
func TestRightsThatChangeWhileThePluginRuns(t *testing.T) {
	for _, where := range []string{"", " ns", " ns/%"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				on := func(verb, resource, name string) string {
					switch {
					case where == " ns/%" && verb == rights.Watch: // is of all objects of a namespace
						return verb + " " + resource + " ns"
					case where == " ns/%":
						return verb + " " + resource + " ns/" + name
					}
					return verb + " " + resource + where
				}
				f := newFixture(t)
				f.put(aWidget)
				server := &reviews{}
				f.c.Revision().Access = reviewed{access.New(access.Config{Reviews: kube.AccessReviews{Subject: server}})}
				expect := func(what string, may bool) {
					t.Helper()
					f.request, f.log = nil, nil
					code := int64(-100)
					if f.run(); f.request != nil {
						code = f.getCode(gadget, "ns", "g")
					}
					f.log = nil
					f.c.ObserveOwned(f.child(1), f.child(2))
					f.c.ObserveRead(testKey, f.child(1), f.child(2), false)
					if f.c.unanswered.size > 0 {
						f.answers()
					}
					woken := len(f.log)
					if may && (f.request == nil || code != abi.CodeNotFound || woken != 2) || !may && (f.request != nil || woken > 0) {
						t.Errorf("%s: called %v, code %d, %d keys are due", what, f.request != nil, code, woken)
					}
				}
				all := []string{on("get", "widgets", "w"), on("get", "gadgets", "g"), on("watch", "gadgets", "g")}
				server.set(all...)
				expect("with rights", true)
				server.set()
				time.Sleep(time.Minute) // fake time
				expect("without", false)
				server.set(all...)
				time.Sleep(10 * time.Second) // fake time
				expect("with rights again", true)
				for range 1000 {
					f.c.ObserveOwned(f.child(1), f.child(2))
				}
				if f.c.unanswered.size > 0 || server.asked > 9 {
					t.Errorf("%d wait, %d questions", f.c.unanswered.size, server.asked)
				}
			})
		})
	}
}
