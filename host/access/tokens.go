package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/kube"
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
	// MaxAsking bounds the requests that wait for a review at once, of tokens that were accepted before
	// and of others each. Such a request holds nothing but this place, until the API server has answered.
	MaxAsking = 64
	// addressShare is which part of that one address may have, and maxAddresses bounds how many of them
	// are remembered.
	addressShare = 4
	maxAddresses = 1024
)

// TokensConfig configures [Tokens].
type TokensConfig struct {
	Reviews kube.Creator[*authenticationv1.TokenReview] // its own limit of requests must be off
	// Audiences are those that a token may be for, one of them; none: that of the API server.
	Audiences []string
	Clock     clock.PassiveClock // default: the real one
}

// Tokens finds out who sends requests, by TokenReviews. It is safe for concurrent use.
type Tokens struct {
	TokensConfig
	accepted  *lru.Cache // of *reviewed, by SHA-256 of the token
	refused   *lru.Cache // the same; garbage takes no place from tokens that are accepted
	asking    singleflight.Group
	waiting   *semaphore.Weighted // for reviews of tokens that were accepted; of MaxAsking
	strangers *strangers          // all of them

	mu        sync.Mutex // so that the strangers of an address are one
	addresses *lru.Cache // of *strangers, by address
}

// strangers bounds the reviews of tokens that were not accepted before.
type strangers struct {
	rate    *rate.Limiter
	waiting *semaphore.Weighted
}

// newStrangers has one part of what all strangers have.
func newStrangers(parts int) *strangers {
	return &strangers{rate.NewLimiter(rate.Limit(strangersPerSecond)/rate.Limit(parts), strangersAtOnce/parts), semaphore.NewWeighted(int64(MaxAsking / parts))}
}

// reviewed is what is known of a token.
type reviewed struct {
	caller *Caller // nil: it is not accepted
	until  time.Time
}

// NewTokens knows no token yet.
func NewTokens(c TokensConfig) *Tokens {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return &Tokens{
		TokensConfig: c, accepted: lru.New(maxTokens), refused: lru.New(maxTokens),
		waiting: semaphore.NewWeighted(MaxAsking), strangers: newStrangers(1), addresses: lru.New(maxAddresses),
	}
}

// Bearer returns the token of a request.
func Bearer(header http.Header) (token string, ok bool) {
	all := header.Values("Authorization")
	if len(all) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && IsToken(token)
}

// IsToken reports whether a text may be a token, of which the API server is asked.
func IsToken(text string) bool {
	return text != "" && len(text) <= maxToken && !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}

// ErrAsking is returned if [MaxAsking] requests wait for a review.
var ErrAsking = errors.New("too many requests wait for a review of their token")

// AddressOf returns the address that a request comes from, without the port.
func AddressOf(r *http.Request) string {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	return address
}

// Caller returns whose token it is, nil if it is not accepted. The error is that of asking. from is the
// address that the token comes from.
func (t *Tokens) Caller(ctx context.Context, from, token string) (*Caller, error) {
	id := sha256.Sum256([]byte(token))
	r := t.remembered(id)
	if r != nil && t.Clock.Now().Before(r.until) {
		return r.caller, nil
	}
	places := []*semaphore.Weighted{t.waiting}
	if r.isStranger() {
		places = []*semaphore.Weighted{t.strangersFrom(from).waiting, t.strangers.waiting}
	}
	for _, place := range places {
		if !place.TryAcquire(1) {
			return nil, ErrAsking
		}
		defer place.Release(1)
	}
	result := t.asking.DoChan(string(id[:]), func() (any, error) { return t.ask(context.WithoutCancel(ctx), from, id, token) })
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case r := <-result:
		caller, _ := r.Val.(*Caller)
		return caller, r.Err
	}
}

// strangersFrom returns the bounds of strangers of one address.
func (t *Tokens) strangersFrom(address string) *strangers {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.addresses.Get(address); ok {
		return s.(*strangers)
	}
	s := newStrangers(addressShare)
	t.addresses.Add(address, s)
	return s
}

func (t *Tokens) remembered(id [sha256.Size]byte) *reviewed {
	for _, known := range []*lru.Cache{t.accepted, t.refused} {
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
// accepted before, and that of one address nobody elsewhere.
func (t *Tokens) ask(ctx context.Context, from string, id [sha256.Size]byte, token string) (*Caller, error) {
	began, before := t.Clock.Now(), t.remembered(id)
	if before != nil && began.Before(before.until) {
		return before.caller, nil // since the caller has looked
	}
	if before.isStranger() && !(t.strangersFrom(from).rate.AllowN(began, 1) && t.strangers.rate.AllowN(began, 1)) {
		return nil, errors.New("too many tokens are not known")
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := t.Reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: t.Audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("review a token: %w", explain.Forbidden(err))
	}
	if !t.accepts(&review.Status) {
		t.accepted.Remove(id)
		t.refused.Add(id, &reviewed{until: began.Add(refusedFor)})
		return nil, nil
	}
	r := &reviewed{NewCaller(review.Status.User), began.Add(acceptedFor)}
	t.accepted.Add(id, r)
	return r.caller, nil
}

// accepts reports whether a token is of a user, and for the host: an API server that knows no audiences
// returns none.
func (t *Tokens) accepts(s *authenticationv1.TokenReviewStatus) bool {
	return s.Authenticated && s.Error == "" && s.User.Username != "" &&
		(len(t.Audiences) == 0 || slices.ContainsFunc(s.Audiences, func(a string) bool { return slices.Contains(t.Audiences, a) }))
}
