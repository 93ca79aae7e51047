package access

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"

	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/rights"
)

// Action is what an account wants to do. Namespace and Name are "" for all: a right to an
// action with one of them is less than one to the action without.
type Action struct {
	Verb                         string
	Group, Resource, Subresource string
	Namespace, Name              string
}

// right returns the action as a right that is missing.
func (a Action) right(account rights.Account) explain.Right {
	r := explain.Right{User: account.User(), Verb: a.Verb, Group: a.Group, Resource: a.Resource, Namespace: a.Namespace}
	if a.Subresource != "" {
		r.Resource += "/" + a.Subresource
	}
	return r
}

// Config configures a [Reviewer].
type Config struct {
	Client client.SubjectAccessReviewsGetter
	// AllowedFor and DeniedFor are for how long an answer is remembered, from the time of the
	// question; default 60 s and 10 s.
	AllowedFor, DeniedFor time.Duration
	Clock                 clock.PassiveClock // default: the real one
}

// Reviewer answers whether accounts may do something. It is safe for concurrent use.
type Reviewer struct {
	Config
	answers *cache.LRUExpireCache // of bool, by question
	asking  singleflight.Group
	names   sync.Map // of *rate.Limiter, by account: questions about single objects
}

type question struct {
	account rights.Account
	action  Action
}

const (
	// maxAnswers bounds the memory of answers, to some 10 MiB.
	maxAnswers = 32 << 10
	// askTimeout bounds one request.
	askTimeout = 10 * time.Second
	// namesPerSecond and namesAtOnce bound the questions about single objects, by account.
	namesPerSecond = 20
	namesAtOnce    = 400
)

// New returns a reviewer that knows nothing yet.
func New(c Config) *Reviewer {
	c.AllowedFor, c.DeniedFor = cmp.Or(c.AllowedFor, time.Minute), cmp.Or(c.DeniedFor, 10*time.Second)
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return &Reviewer{Config: c, answers: cache.NewLRUExpireCacheWithClock(maxAnswers, c.Clock)}
}

// Known returns the answer that is remembered.
func (r *Reviewer) Known(account rights.Account, action Action) (allowed, known bool) {
	answer, known := r.answers.Get(question{account, action})
	allowed, _ = answer.(bool)
	return allowed, known
}

// May reports whether an account may do something, if need be by asking the API server.
// Questions that are the same are asked once at a time. After an error nothing is allowed.
func (r *Reviewer) May(ctx context.Context, account rights.Account, action Action) (bool, error) {
	q := question{account, action}
	if allowed, known := r.Known(account, action); known {
		return allowed, nil
	}
	if !r.mayAsk(q) {
		return false, fmt.Errorf("%s reads too many objects that it has rights to one by one: %d in a second are asked for; give it a right to all, or to those of a namespace", account, namesPerSecond)
	}
	answer := r.asking.DoChan(fmt.Sprintf("%q %q", account, action), func() (any, error) {
		return r.ask(context.WithoutCancel(ctx), q) // for others too
	})
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case a := <-answer:
		allowed, _ := a.Val.(bool)
		return allowed && a.Err == nil, a.Err
	}
}

// mayAsk reports whether a question may be asked now. Those about single objects are as many
// as there are objects.
func (r *Reviewer) mayAsk(q question) bool {
	if q.action.Name == "" {
		return true
	}
	limiter, _ := r.names.LoadOrStore(q.account, rate.NewLimiter(namesPerSecond, namesAtOnce))
	return limiter.(*rate.Limiter).AllowN(r.Clock.Now(), 1)
}

func (r *Reviewer) ask(ctx context.Context, q question) (bool, error) {
	if allowed, known := r.Known(q.account, q.action); known {
		return allowed, nil // since the caller has looked
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	began, a := r.Clock.Now(), q.action
	review, err := r.Client.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: q.account.User(), Groups: q.account.Groups(),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: a.Verb, Group: a.Group, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask the API server what %s may do: %w", q.account, explain.Forbidden(err))
	}
	allowed := review.Status.Allowed && !review.Status.Denied
	remember := r.DeniedFor
	if allowed {
		remember = r.AllowedFor
	}
	if left := remember - r.Clock.Since(began); left > 0 {
		r.answers.Add(q, allowed, left)
	}
	return allowed, nil
}
