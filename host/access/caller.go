package access

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/object"
)

// Reconcile is the verb of a right to make an object run by an event. No request to the API server has
// it: it is for roles alone.
const Reconcile = "reconcile"

// maxCallers bounds how many callers are remembered, each with MaxAnswers answers.
const maxCallers = 256

// Caller is a user who sends requests to the host, as a TokenReview shows it.
type Caller struct {
	user authenticationv1.UserInfo
	id   [sha256.Size]byte // no other user has it
}

// NewCaller returns the caller that is a user.
func NewCaller(user authenticationv1.UserInfo) *Caller {
	text, _ := json.Marshal(user) // cannot fail; the keys of a map are in order
	return &Caller{user: user, id: sha256.Sum256(text)}
}

// Name returns the name of the user.
func (c *Caller) Name() string { return c.user.Username }

// MayReconcile reports whether a caller may make an object run, be it there or not: by a right to all,
// to those of the namespace, or to this one. After an error nothing is allowed; [TooOften] reports
// whether it is the caller's.
func (r *Reviewer) MayReconcile(ctx context.Context, caller *Caller, on object.Resource, key object.Key) (bool, error) {
	return r.caller(caller).mayOneOf(ctx, including(Reconcile, on, key))
}

// MayGet reports whether a caller may get a path of the host. After an error nothing is allowed.
func (r *Reviewer) MayGet(ctx context.Context, caller *Caller, path string) (bool, error) {
	return r.caller(caller).may(ctx, Action{Verb: "get", Path: path})
}

func (r *Reviewer) caller(c *Caller) *subject {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.callers.Get(c.id); ok {
		return s.(*subject)
	}
	s := newSubject(&r.Config, fmt.Sprintf("the user %q", c.Name()), func(ctx context.Context, a Action) (authorizationv1.SubjectAccessReviewStatus, error) {
		return r.reviewCaller(ctx, c, a)
	})
	r.callers.Add(c.id, s)
	return s
}

func (r *Reviewer) reviewCaller(ctx context.Context, c *Caller, a Action) (authorizationv1.SubjectAccessReviewStatus, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(c.user.Extra))
	for key, values := range c.user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	spec := authorizationv1.SubjectAccessReviewSpec{User: c.user.Username, UID: c.user.UID, Groups: c.user.Groups, Extra: extra}
	if a.Path != "" {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
	} else {
		spec.ResourceAttributes = a.attributes()
	}
	review, err := r.Reviews.Subject.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	return review.Status, nil
}
