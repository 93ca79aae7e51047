package receive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/internal/explain"
)

// This file finds out who sends a request.

const (
	// acceptedFor and refusedFor are for how long the review of a token counts, from the time when it
	// was asked for. A token may be good for as much longer than it is valid.
	acceptedFor = 10 * time.Second
	refusedFor  = 2 * time.Second
	// maxTokens bounds the tokens that are remembered, of those that are accepted and of others.
	maxTokens = 1024
	// maxToken bounds one. Those of service accounts have some 1,000 bytes.
	maxToken = 8 << 10
	// reviewTimeout bounds one request to the API server.
	reviewTimeout = 5 * time.Second
	// strangersPerSecond and strangersAtOnce bound the reviews of tokens that were not accepted
	// before: of garbage there is any amount.
	strangersPerSecond = 50
	strangersAtOnce    = 200
	// maxAsking bounds the requests that wait for a review at once, of tokens that were accepted before
	// and of others. Such a request holds nothing but this place, until the API server has answered.
	maxAsking = 64
)

// callers finds out who sends requests, by TokenReviews.
type callers struct {
	reviews   client.TokenReviewsGetter
	audiences []string
	clock     clock.PassiveClock
	accepted  *lru.Cache // of *reviewed, by SHA-256 of the token
	refused   *lru.Cache // the same; garbage takes no place from tokens that are accepted
	asking    singleflight.Group
	strangers *rate.Limiter

	acceptedWait, strangersWait *semaphore.Weighted // of maxAsking
}

// reviewed is what is known of a token.
type reviewed struct {
	caller *access.Caller // nil: it is not accepted
	until  time.Time
}

func newCallers(reviews client.TokenReviewsGetter, audiences []string, c clock.PassiveClock) *callers {
	return &callers{
		reviews: reviews, audiences: audiences, clock: c, accepted: lru.New(maxTokens), refused: lru.New(maxTokens),
		strangers:    rate.NewLimiter(strangersPerSecond, strangersAtOnce),
		acceptedWait: semaphore.NewWeighted(maxAsking), strangersWait: semaphore.NewWeighted(maxAsking),
	}
}

// of returns who sends a request.
func (c *callers) of(ctx context.Context, r *http.Request) (*access.Caller, *refusal) {
	token, ok := bearer(r.Header)
	if !ok {
		return nil, refuse(http.StatusUnauthorized, "there is no bearer token: send the header Authorization: Bearer TOKEN, once")
	}
	caller, err := c.review(ctx, token)
	switch {
	case errors.Is(err, errAsking):
		return nil, busy("the host is asking about %d other requests who sends them: try again", maxAsking)
	case err != nil:
		return nil, busy("the API server cannot be asked whose token it is: try again").because(err)
	case caller == nil:
		return nil, refuse(http.StatusUnauthorized, "the token is not valid for %s: make one with kubectl create token NAME --audience %s", strings.Join(c.audiences, " or "), c.audiences[0])
	}
	return caller, nil
}

// bearer returns the token of a request.
func bearer(header http.Header) (token string, ok bool) {
	all := header.Values("Authorization")
	if len(all) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	token = strings.TrimSpace(token)
	odd := strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f })
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && len(token) <= maxToken && !odd
}

// errAsking is returned if too many requests wait for a review.
var errAsking = errors.New("too many requests wait for a review of their token")

// review returns whose token it is, nil if it is not accepted. The error is that of asking.
func (c *callers) review(ctx context.Context, token string) (*access.Caller, error) {
	id := sha256.Sum256([]byte(token))
	r := c.remembered(id)
	if r != nil && c.clock.Now().Before(r.until) {
		return r.caller, nil
	}
	waiting := c.strangersWait
	if !r.isStranger() {
		waiting = c.acceptedWait
	}
	if !waiting.TryAcquire(1) {
		return nil, errAsking
	}
	defer waiting.Release(1)
	result := c.asking.DoChan(string(id[:]), func() (any, error) { return c.ask(context.WithoutCancel(ctx), id, token) })
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case r := <-result:
		caller, _ := r.Val.(*access.Caller)
		return caller, r.Err
	}
}

func (c *callers) remembered(id [sha256.Size]byte) *reviewed {
	for _, known := range []*lru.Cache{c.accepted, c.refused} {
		if r, ok := known.Get(id); ok {
			return r.(*reviewed)
		}
	}
	return nil
}

// isStranger reports whether a token was not accepted when it was reviewed last, or never reviewed: r is
// nil.
func (r *reviewed) isStranger() bool { return r == nil || r.caller == nil }

// ask asks the API server. Garbage that is sent again and again keeps nobody out whose token was
// accepted before.
func (c *callers) ask(ctx context.Context, id [sha256.Size]byte, token string) (*access.Caller, error) {
	began, before := c.clock.Now(), c.remembered(id)
	if before != nil && began.Before(before.until) {
		return before.caller, nil // since the caller has looked
	}
	if before.isStranger() && !c.strangers.AllowN(began, 1) {
		return nil, errors.New("too many tokens are not known")
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := c.reviews.TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: c.audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("review a token: %w", explain.Forbidden(err))
	}
	if !c.accepts(&review.Status) {
		c.accepted.Remove(id)
		c.refused.Add(id, &reviewed{until: began.Add(refusedFor)})
		return nil, nil
	}
	r := &reviewed{access.NewCaller(review.Status.User), began.Add(acceptedFor)}
	c.accepted.Add(id, r)
	return r.caller, nil
}

// accepts reports whether a token is of a user, and for the host: an API server that knows no audiences
// returns none.
func (c *callers) accepts(s *authenticationv1.TokenReviewStatus) bool {
	return s.Authenticated && s.Error == "" && s.User.Username != "" &&
		slices.ContainsFunc(s.Audiences, func(a string) bool { return slices.Contains(c.audiences, a) })
}
