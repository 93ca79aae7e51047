package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/utils/lru"

	"github.com/thole-dev/thole/host/internal/explain"
)

// subject is an account, or the host, with what is remembered of its rights. Each has a
// memory and a limit of its own, so that none can use up what others need.
type subject struct {
	*Config
	name   string // in errors
	review reviewFunc

	gone    atomic.Bool        // the account was not there when it was looked up last
	answers *lru.Cache         // of answer, by Action
	asking  singleflight.Group // by key of the Action
	narrow  *rate.Limiter      // of questions about single namespaces and objects
	wide    *rate.Limiter      // of others, of which there are many only while they fail
}

type reviewFunc func(context.Context, Action) (authorizationv1.SubjectAccessReviewStatus, error)

type answer struct {
	allowed bool
	until   time.Time
}

const (
	// askTimeout bounds one request.
	askTimeout = 10 * time.Second
	// maxAnswers is the default of [Config].MaxAnswers, some 1.5 MiB. There are no more
	// valid answers about namespaces and objects: see perSecond.
	maxAnswers = 4096
	// perSecond and atOnce bound the questions about an account: of those about namespaces
	// and objects there are as many as names, and what failed is asked again.
	perSecond = 50
	atOnce    = 1000
)

func newSubject(c *Config, name string, review reviewFunc) *subject {
	return &subject{
		Config: c, name: name, review: review,
		answers: lru.New(c.MaxAnswers), narrow: rate.NewLimiter(perSecond, atOnce), wide: rate.NewLimiter(perSecond, atOnce),
	}
}

// known returns the answer that is remembered.
func (s *subject) known(action Action) (allowed, known bool) {
	remembered, ok := s.answers.Get(action)
	if !ok {
		return false, false
	}
	a := remembered.(answer)
	known = s.Clock.Now().Before(a.until)
	return a.allowed && known, known
}

// knownOneOf returns whether one of the actions is known to be allowed, or else whether the answers
// about all are remembered.
func (s *subject) knownOneOf(actions []Action) (allowed, known bool) {
	known = true
	for _, a := range actions {
		may, answered := s.known(a)
		if may {
			return true, true
		}
		known = known && answered
	}
	return false, known
}

// may returns the answer that is remembered, or asks. Callers with the same question share
// one request, which goes on when the context of one of them ends.
func (s *subject) may(ctx context.Context, action Action) (bool, error) {
	if allowed, known := s.known(action); known {
		return allowed, nil
	}
	result := s.asking.DoChan(action.key(), func() (any, error) {
		return s.ask(context.WithoutCancel(ctx), action)
	})
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case r := <-result:
		allowed, _ := r.Val.(bool)
		return allowed && r.Err == nil, r.Err
	}
}

// key returns a text that no other action has.
func (a Action) key() string { return fmt.Sprintf("%q", a) }

func (s *subject) ask(ctx context.Context, action Action) (bool, error) {
	if allowed, known := s.known(action); known {
		return allowed, nil // since the caller has looked
	}
	if err := s.mayAsk(action, s.Clock.Now()); err != nil {
		return false, err
	}
	return s.send(ctx, action, true)
}

// send asks the API server.
func (s *subject) send(ctx context.Context, action Action, remember bool) (bool, error) {
	began := s.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := s.review(ctx, action)
	if err != nil {
		return false, fmt.Errorf("ask the API server what %s may do: %w", s.name, explain.Forbidden(err))
	}
	a := answer{status.Allowed && !status.Denied, began.Add(s.DeniedFor)}
	if a.allowed {
		a.until = began.Add(s.AllowedFor)
	}
	if remember {
		s.answers.Add(action.clone(), a)
	}
	return a.allowed, nil
}

// mayAsk returns an error if too much was asked about the subject.
func (s *subject) mayAsk(action Action, now time.Time) error {
	isNarrow := action.Namespace != "" || action.Name != ""
	switch {
	case isNarrow && !s.narrow.AllowN(now, 1):
		return askedTooOften("%s uses too many namespaces and objects that it has rights to one by one: "+
			"its rights to %d in a second are looked up; give it a right to all, or to those of a namespace", s.name, perSecond)
	case !isNarrow && !s.wide.AllowN(now, 1):
		return askedTooOften("the API server was asked too often what %s may do: %d times in a second are possible", s.name, perSecond)
	}
	return nil
}

// tooOftenError is why a question is not asked.
type tooOftenError struct{ text string }

func (e *tooOftenError) Error() string { return e.text }

func askedTooOften(format string, args ...any) error {
	return &tooOftenError{fmt.Sprintf(format, args...)}
}

// TooOften reports whether an error is that too much was asked about one subject.
func TooOften(err error) bool {
	_, is := errors.AsType[*tooOftenError](err)
	return is
}

// mayOneOf returns whether one of the actions is allowed, of which each includes all after it.
func (s *subject) mayOneOf(ctx context.Context, actions []Action) (bool, error) {
	if allowed, known := s.knownOneOf(actions); known {
		return allowed, nil
	}
	for _, a := range actions {
		if allowed, err := s.may(ctx, a); allowed || err != nil {
			return allowed, err
		}
	}
	return false, nil
}

func (a Action) attributes() *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{
		Verb: a.Verb, Group: a.Group, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name,
	}
}

// clone returns the action without references to the objects that its names may be parts of.
func (a Action) clone() Action {
	a.Namespace, a.Name = strings.Clone(a.Namespace), strings.Clone(a.Name)
	return a
}
