package access

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/thole-dev/thole/host/kube"
)

// viewed is a host whose API server answers reviews: everybody has the name that is their token, and may
// get /metrics; "operator" may get everything.
type viewed struct {
	*Viewers
	t     *testing.T
	clock *clocktesting.FakePassiveClock

	mu      sync.Mutex
	code    int             // of its answers; 0: it hangs
	revoked map[string]bool // tokens that are not accepted, and users that may get nothing
	asked   int
}

func newViewed(t *testing.T) *viewed {
	t.Helper()
	v := &viewed{t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)), code: http.StatusCreated, revoked: map[string]bool{}}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	c := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	clients, err := kube.New(c)
	if err != nil {
		t.Fatal(err)
	}
	v.Viewers = NewViewers(
		NewTokens(TokensConfig{Reviews: clients.TokenReviews, Clock: v.clock}),
		New(Config{Reviews: clients.AccessReviews, Clock: v.clock, AllowedFor: 10 * time.Second, DeniedFor: time.Second}))
	return v
}

func (v *viewed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	v.asked++
	code := v.code
	v.mu.Unlock()
	text, err := io.ReadAll(r.Body) // which the end of the context waits for
	if code == 0 || err != nil {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if code != http.StatusCreated {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
		var review authenticationv1.TokenReview
		_ = json.Unmarshal(text, &review)
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: !v.revoked[review.Spec.Token], User: authenticationv1.UserInfo{Username: review.Spec.Token}}
		_ = json.NewEncoder(w).Encode(review)
		return
	}
	var review authorizationv1.SubjectAccessReview
	_ = json.Unmarshal(text, &review)
	review.Status.Allowed = !v.revoked["user "+review.Spec.User] && (review.Spec.User == "operator" || review.Spec.NonResourceAttributes.Path == "/metrics")
	_ = json.NewEncoder(w).Encode(review)
}

func (v *viewed) questions() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked
}

// answers makes the API server answer with a code from now on, after all that is remembered of its answers.
func (v *viewed) answers(code int, later time.Duration, revoked ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.code = code
	for _, r := range revoked {
		v.revoked[r] = true
	}
	v.clock.SetTime(v.clock.Now().Add(later))
}

// expect checks who may get a path: yes, no, nobody for a token that is not accepted, or unknown.
func (v *viewed) expect(token, path, want string) {
	v.t.Helper()
	caller, allowed, err := v.MayGet(v.t.Context(), "127.0.0.1", token, path)
	got := "no"
	switch {
	case err != nil:
		got = "unknown"
	case caller == nil:
		got = "nobody"
	case allowed:
		got = "yes"
	}
	if got != want || allowed && (err != nil || caller.Name() != token) {
		v.t.Errorf("%s of %s: %s (%v), want %s", path, token, got, err, want)
	}
}

func TestWhoWasAllowedToLookMayLookInAnOutage(t *testing.T) {
	for name, code := range map[string]int{"it hangs": 0, "it is overloaded": http.StatusTooManyRequests, "etcd is away": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newViewed(t)
			v.expect("operator", "/metrics", "yes")
			v.expect("operator", "/ui", "yes")
			v.expect("prometheus", "/metrics", "yes")
			v.expect("prometheus", "/ui", "no")
			v.answers(code, time.Minute)
			v.expect("operator", "/metrics", "yes")
			asked := v.questions()
			for range 100 { // and does not wait each time
				v.expect("operator", "/ui", "yes")
			}
			if n := v.questions() - asked; n != 0 {
				t.Errorf("asked %d times", n)
			}
			v.expect("prometheus", "/metrics", "yes")
			v.expect("another", "/metrics", "unknown")
			if code == 0 {
				return // each of these would wait for seconds
			}
			v.expect("prometheus", "/ui", "unknown")
			v.answers(code, viewedFor)
			v.expect("operator", "/metrics", "unknown")
		})
	}
}

// Whatever the API server has answered last counts.
func TestWhoMayNotLookAnyMoreMayNotInAnOutage(t *testing.T) {
	v := newViewed(t)
	v.expect("operator", "/metrics", "yes")
	v.expect("operator", "/ui", "yes")
	v.expect("prometheus", "/metrics", "yes")
	v.answers(http.StatusCreated, time.Minute, "prometheus", "user operator")
	v.expect("prometheus", "/metrics", "nobody")
	v.expect("operator", "/ui", "no")
	v.answers(http.StatusServiceUnavailable, time.Minute)
	v.expect("prometheus", "/metrics", "unknown")
	v.expect("operator", "/ui", "unknown")
}

// A host that may not ask is in no outage.
func TestWithoutTheRightToAskNobodyMayLook(t *testing.T) {
	v := newViewed(t)
	v.expect("operator", "/metrics", "yes")
	v.answers(http.StatusForbidden, time.Minute)
	v.expect("operator", "/metrics", "unknown")
}
