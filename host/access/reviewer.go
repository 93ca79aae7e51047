package access

import (
	"cmp"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/rights"
)

// Action is what an account wants to do. Namespace and Name are "" for all: a right to an
// action with one of them is less than one to the action without. The fields are those of
// ResourceAttributes of the API group authorization.k8s.io.
type Action struct {
	Verb                         string
	Group, Resource, Subresource string
	Namespace, Name              string
	// Path is one of a URL, as in NonResourceAttributes, for callers alone. What is above but the
	// verb is "" then.
	Path string
}

// right returns the action as a right that is missing.
func (a Action) right(account rights.Account) explain.Right {
	r := explain.Right{User: UserOf(account), Verb: a.Verb, Group: a.Group, Resource: a.Resource, Namespace: a.Namespace}
	if a.Subresource != "" {
		r.Resource += "/" + a.Subresource
	}
	r.Name = a.Name
	return r
}

// Config configures a [Reviewer].
type Config struct {
	// Reviews need the right to create subjectaccessreviews, or with Local to create
	// localsubjectaccessreviews in the namespaces. Their own limit of requests must be off (a QPS of
	// -1): it would let one account delay the others, and the reviewer bounds each of them.
	Reviews kube.AccessReviews
	// Local is for a host that works in some namespaces alone. Each question about namespaced
	// objects is one about a namespace, for which it needs no ClusterRole: the right to all objects
	// that there are is not asked for.
	Local    bool
	Accounts func(namespace string) kube.Getter[*corev1.ServiceAccount] // needs the right to get them
	// AllowedFor and DeniedFor are for how long an answer is remembered, from the time of the
	// question; default 60 s and 10 s.
	AllowedFor, DeniedFor time.Duration
	// MaxAnswers bounds how many answers are remembered of each subject; default 4096.
	MaxAnswers int
	Clock      clock.PassiveClock // default: the real one
}

// Answers about a caller are remembered for a moment: it sends its requests one after the other.
const (
	callerAllowedFor = 10 * time.Second
	callerDeniedFor  = 2 * time.Second
	// callerAnswers bounds what is remembered of the rights of each caller.
	callerAnswers = 1024
)

// OfCallers returns a configuration for those who send requests to the host.
func OfCallers(reviews kube.AccessReviews) Config {
	return Config{Reviews: reviews, AllowedFor: callerAllowedFor, DeniedFor: callerDeniedFor, MaxAnswers: callerAnswers}
}

// Reviewer answers whether accounts, and the host itself, may do something. It is safe for
// concurrent use.
type Reviewer struct {
	Config
	host       *subject
	reviewRate *rate.Limiter // of questions of [Reviewer.Review]

	mu       sync.Mutex // so that an account is one subject
	accounts *lru.Cache // of *subject, by account
	callers  *lru.Cache // of *subject, by hash of a [Caller]
}

// maxAccounts bounds how many accounts are remembered: a policy that changes again and again
// may name one after the other.
const maxAccounts = 1024

// maxReviewed bounds the questions of [Reviewer.Review] about all accounts, in the time for which
// an answer is remembered: 50 in a second.
const maxReviewed = 3000

// New returns a reviewer that knows nothing yet.
func New(c Config) *Reviewer {
	c.AllowedFor = cmp.Or(c.AllowedFor, time.Minute)
	c.MaxAnswers = cmp.Or(c.MaxAnswers, maxAnswers)
	c.DeniedFor = cmp.Or(c.DeniedFor, min(c.AllowedFor, 10*time.Second))
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	r := &Reviewer{Config: c, accounts: lru.New(maxAccounts), callers: lru.New(maxCallers), reviewRate: rate.NewLimiter(rate.Every(c.AllowedFor/maxReviewed), 1)}
	r.host = newSubject(&r.Config, "the host", r.reviewHost)
	r.host.narrow, r.host.wide = rate.NewLimiter(rate.Inf, 0), rate.NewLimiter(rate.Inf, 0) // no guest asks about it
	return r
}

// May reports whether an account may do something, if need be by asking the API server.
// After an error nothing is allowed.
func (r *Reviewer) May(ctx context.Context, account rights.Account, action Action) (bool, error) {
	return r.subject(account).may(ctx, action)
}

// HostMay is May for the host itself.
func (r *Reviewer) HostMay(ctx context.Context, action Action) (bool, error) {
	return r.host.may(ctx, action)
}

// Review is May, and HostMay for the zero Account, for who asks again and again about all that is
// needed. It waits for its turn, and takes nothing of the limits and the memory that reads have.
func (r *Reviewer) Review(ctx context.Context, account rights.Account, action Action) (bool, error) {
	s := r.host
	if account != (rights.Account{}) {
		s = r.subject(account)
	}
	if allowed, known := s.known(action); known {
		return allowed, nil
	}
	if err := r.reviewRate.Wait(ctx); err != nil {
		return false, err
	}
	_, has := s.answers.Get(action)
	return s.send(ctx, action, s == r.host || has)
}

func (r *Reviewer) subject(account rights.Account) *subject {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.accounts.Get(account); ok {
		return s.(*subject)
	}
	s := newSubject(&r.Config, account.String(), func(ctx context.Context, a Action) (authorizationv1.SubjectAccessReviewStatus, error) {
		return r.review(ctx, account, a)
	})
	r.accounts.Add(account, s)
	return s
}

// review asks about an account. The API server adds no groups to those of a review, so that
// they are spelled out. That the account exists is not checked.
// See https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access.
func (r *Reviewer) review(ctx context.Context, account rights.Account, a Action) (authorizationv1.SubjectAccessReviewStatus, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{User: account.User(), Groups: account.Groups(), ResourceAttributes: a.attributes()}
	var forbidden error // where the roles of the host are those of a version that did not ask so
	if r.Local && a.Namespace != "" {
		review, err := r.Reviews.Local(a.Namespace).Create(ctx, &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace}, Spec: spec,
		}, metav1.CreateOptions{})
		switch {
		case err == nil:
			return review.Status, nil
		case !apierrors.IsForbidden(err):
			return authorizationv1.SubjectAccessReviewStatus{}, err
		}
		forbidden = err
	}
	review, err := r.Reviews.Subject.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, cmp.Or(forbidden, err)
	}
	return review.Status, nil
}

// reviewHost asks about the user of the client, for which every authenticated user has the
// right: see system:basic-user among the default roles of RBAC.
func (r *Reviewer) reviewHost(ctx context.Context, a Action) (authorizationv1.SubjectAccessReviewStatus, error) {
	review, err := r.Reviews.Self.Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a.attributes()},
	}, metav1.CreateOptions{})
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	return review.Status, nil
}

// UserOf returns the user that a text names: that of an account, or the host for the zero Account.
func UserOf(account rights.Account) string {
	if account == (rights.Account{}) {
		return explain.Host
	}
	return account.User()
}
