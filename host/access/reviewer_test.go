package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/rights"
)

var (
	one      = rights.Account{Namespace: "a", Name: "one"}
	other    = rights.Account{Namespace: "a", Name: "other"}
	getPods  = Action{Verb: "get", Resource: "pods"}
	getInA   = Action{Verb: "get", Resource: "pods", Namespace: "a"}
	getP     = Action{Verb: "get", Resource: "pods", Namespace: "a", Name: "p"}
	noAnswer = authorizationv1.SubjectAccessReviewStatus{}
	allowed  = authorizationv1.SubjectAccessReviewStatus{Allowed: true}
)

// server is an API server that answers reviews.
type server struct {
	*Reviewer
	clock *clocktesting.FakePassiveClock

	mu     sync.Mutex
	asked  []string // "USER VERB RESOURCE NAMESPACE NAME", USER is "" for the host
	groups []string // of the last question
	local  int      // how many of the questions were in their namespace
	// forbidsLocal makes the server refuse these.
	forbidsLocal bool
	// answer is called for each question, several at once.
	answer func(authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, int)
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC))}
	s.allow(true)
	http := httptest.NewServer(s)
	t.Cleanup(http.Close)
	c, err := kube.New(&rest.Config{Host: http.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Reviewer = New(Config{Reviews: c.AccessReviews, Clock: s.clock})
	return s
}

// allow makes every answer the same.
func (s *server) allow(all bool) {
	s.always(authorizationv1.SubjectAccessReviewStatus{Allowed: all}, 201)
}

func (s *server) always(status authorizationv1.SubjectAccessReviewStatus, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = func(authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, int) {
		return status, code
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SubjectAccessReview // a SelfSubjectAccessReview has fewer fields
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || (review.Spec.ResourceAttributes == nil) == (review.Spec.NonResourceAttributes == nil) {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	if host := strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"); host != (review.Spec.User == "") {
		http.Error(w, r.URL.Path+" of "+review.Spec.User, http.StatusBadRequest)
		return
	}
	a := review.Spec.ResourceAttributes
	isLocal := strings.HasSuffix(r.URL.Path, "/localsubjectaccessreviews")
	if isLocal && (r.URL.Path != "/apis/authorization.k8s.io/v1/namespaces/"+a.Namespace+"/localsubjectaccessreviews" || review.Namespace != a.Namespace) {
		http.Error(w, r.URL.Path+" of "+a.Namespace, http.StatusBadRequest) // as the API server does
		return
	}
	if path := review.Spec.NonResourceAttributes; path != nil {
		a = &authorizationv1.ResourceAttributes{Verb: path.Verb, Name: path.Path}
	}
	s.mu.Lock()
	s.asked = append(s.asked, strings.Join([]string{review.Spec.User, a.Verb, a.Resource, a.Namespace, a.Name}, " "))
	s.groups = review.Spec.Groups
	answer := s.answer
	if isLocal {
		s.local++
	}
	forbidden := isLocal && s.forbidsLocal
	s.mu.Unlock()
	if forbidden {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"cannot create localsubjectaccessreviews","reason":"Forbidden","code":403}`)
		return
	}
	status, code := answer(*a)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if code >= 400 {
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Unknown","code":%d}`, code)
		return
	}
	review.Status = status
	_ = json.NewEncoder(w).Encode(review)
}

// take returns how many questions were asked since the last call.
func (s *server) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.asked)
	s.asked = nil
	return n
}

func (s *server) passes(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

func (s *server) wants(t *testing.T, account rights.Account, action Action, want bool, questions int) {
	t.Helper()
	if got, err := s.May(t.Context(), account, action); got != want || err != nil {
		t.Errorf("%s %+v: %v, %v, want %v", account, action, got, err, want)
	}
	if got := s.take(); got != questions {
		t.Errorf("%s %+v: %d questions, want %d", account, action, got, questions)
	}
}

func TestQuestionHasTheAccountWithItsGroupsAndTheAction(t *testing.T) {
	s := newServer(t)
	s.answer = func(a authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, int) {
		want := authorizationv1.ResourceAttributes{Verb: "patch", Group: "g", Resource: "r", Subresource: "status", Namespace: "ns", Name: "n"}
		return authorizationv1.SubjectAccessReviewStatus{Allowed: a == want}, 201
	}
	s.wants(t, one, Action{Verb: "patch", Group: "g", Resource: "r", Subresource: "status", Namespace: "ns", Name: "n"}, true, 1)
	if want := []string{"system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"}; !slices.Equal(s.groups, want) {
		t.Errorf("groups %q, want %q", s.groups, want)
	}
	s.allow(false)
	s.wants(t, rights.Account{Namespace: "x", Name: "y"}, getPods, false, 1)
}

func TestAnswersAreRememberedFromTheTimeOfTheQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		allowed bool
		valid   time.Duration
	}{"allowed": {true, time.Minute}, "denied": {false, 10 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.allow(c.allowed)
			s.wants(t, one, getPods, c.allowed, 1)
			s.allow(!c.allowed)
			for range 2 { // that it is read does not prolong it
				s.passes(c.valid/2 - time.Millisecond)
				s.wants(t, one, getPods, c.allowed, 0)
			}
			s.passes(2 * time.Millisecond)
			if _, known := s.subject(one).known(getPods); known {
				t.Error("the answer is known")
			}
			s.wants(t, one, getPods, !c.allowed, 1)
		})
	}
}

func TestSlowAnswerDoesNotLiveLonger(t *testing.T) {
	for name, took := range map[string]time.Duration{"slow": 40 * time.Second, "as slow as it is valid": time.Minute, "slower": 2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.answer = func(authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, int) {
				s.passes(took)
				return allowed, 201
			}
			s.wants(t, one, getPods, true, 1)
			s.allow(false)
			if took < time.Minute {
				s.wants(t, one, getPods, true, 0)
				s.passes(time.Minute - took)
			}
			s.wants(t, one, getPods, false, 1)
		})
	}
}

func TestWhatIsNotAllowedIsDenied(t *testing.T) {
	for name, status := range map[string]authorizationv1.SubjectAccessReviewStatus{
		"nothing":                           noAnswer,
		"denied":                            {Denied: true},
		"allowed and denied":                {Allowed: true, Denied: true},
		"an error while it was decided":     {EvaluationError: "the webhook is away"},
		"a reason why it would be allowed":  {Reason: "RBAC: allowed"},
		"allowed and denied, with an error": {Allowed: true, Denied: true, EvaluationError: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.always(status, 201)
			s.wants(t, one, getPods, false, 1)
			s.wants(t, one, getPods, false, 0)
		})
	}
	// An authorizer may fail, and another one allow it.
	s := newServer(t)
	s.always(authorizationv1.SubjectAccessReviewStatus{Allowed: true, EvaluationError: "no ClusterRole x"}, 201)
	s.wants(t, one, getPods, true, 1)
}

func TestNothingIsAllowedAfterAnErrorWhichIsNotRemembered(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404, 409, 422, 500, 501, 503} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s := newServer(t)
			for range 2 {
				s.always(allowed, code)
				may, err := s.May(t.Context(), one, getPods)
				if may || err == nil || s.take() == 0 || Denied(err) || !strings.HasPrefix(err.Error(), "ask the API server what a/one may do: ") {
					t.Errorf("got %v, %v", may, err)
				}
				if code != 501 && apierrors.IsForbidden(err) != (code == 403) {
					t.Errorf("got %v", err)
				}
				if may, known := s.subject(one).known(getPods); may || known {
					t.Error("it is remembered")
				}
			}
			s.allow(true)
			s.wants(t, one, getPods, true, 1)
			// An error does not prolong what was allowed.
			s.always(allowed, code)
			s.passes(time.Minute)
			if may, err := s.May(t.Context(), one, getPods); may || err == nil {
				t.Errorf("got %v, %v", may, err)
			}
		})
	}
}

func TestSameQuestionIsAskedOnceAtATime(t *testing.T) {
	s := newServer(t)
	release := make(chan struct{})
	s.answer = func(authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, int) {
		<-release
		return allowed, 201
	}
	const callers = 20
	results := make(chan error, callers)
	for range callers {
		go func() {
			may, err := s.May(t.Context(), one, getP)
			if err == nil && !may {
				err = errors.New("denied")
			}
			results <- err
		}()
	}
	// Another account, and another question, are asked meanwhile.
	for _, c := range []struct {
		account rights.Account
		action  Action
	}{{other, getP}, {one, getInA}} {
		go func() { _, err := s.May(t.Context(), c.account, c.action); results <- err }()
	}
	await.Until(t, "three different questions are asked", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.asked) == 3 })
	close(release)
	for range callers + 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := s.take(); n != 3 {
		t.Errorf("%d questions", n)
	}
}

func TestCallerThatStopsWaitingDoesNotFailTheOthers(t *testing.T) {
	s := newServer(t)
	release := make(chan struct{})
	s.answer = func(authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, int) {
		<-release
		return allowed, 201
	}
	cause := errors.New("the run was ended")
	first, cancel := context.WithCancelCause(t.Context())
	ended, waiting := make(chan error, 1), make(chan error, 1)
	go func() { _, err := s.May(first, one, getPods); ended <- err }()
	await.Until(t, "the question is asked", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.asked) == 1 })
	go func() {
		may, err := s.May(t.Context(), one, getPods)
		if err == nil && !may {
			err = errors.New("denied")
		}
		waiting <- err
	}()
	cancel(cause)
	if err := <-ended; !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	s.wants(t, one, getPods, true, 1) // the one that all waited for
}

// Whatever a guest asks for costs few requests and little memory.
func TestQuestionsAboutNamesAreBounded(t *testing.T) {
	ask := func(s *server, n int) (refused error) {
		for i := range n {
			a := Action{Verb: "get", Resource: "pods", Namespace: "a", Name: fmt.Sprint("p", i)}
			if i%2 == 0 {
				a.Namespace, a.Name = fmt.Sprint("ns", i), ""
			}
			if may, err := s.May(t.Context(), one, a); err != nil && !may {
				refused = err
			} else if err != nil {
				t.Error("allowed with an error")
			}
		}
		return refused
	}
	s := newServer(t)
	s.wants(t, other, getP, true, 1)
	if err := ask(s, atOnce); err != nil {
		t.Fatal(err)
	}
	err := ask(s, 3*maxAnswers)
	if n := s.take(); n != atOnce {
		t.Errorf("%d questions", n)
	}
	const want = "a/one uses too many namespaces and objects that it has rights to one by one: its rights to 50 in a second are looked up; " +
		"give it a right to all, or to those of a namespace"
	if err == nil || err.Error() != want || Denied(err) {
		t.Errorf("got %v", err)
	}
	s.wants(t, one, getPods, true, 1) // a right to all is still found
	s.wants(t, one, Action{Verb: "get", Resource: "pods", Namespace: "ns0"}, true, 0)
	s.wants(t, other, getInA, true, 1)
	s.wants(t, other, getP, true, 0)
	s.passes(time.Second)
	_ = ask(s, 3*maxAnswers)
	if n := s.take(); n != perSecond {
		t.Errorf("%d questions after a second", n)
	}
}

// What failed is not remembered, so that each read asks again.
func TestQuestionsThatFailAreBounded(t *testing.T) {
	s := newServer(t)
	s.always(allowed, 403)
	for i := range 3 * atOnce {
		may, err := s.May(t.Context(), one, getPods)
		if may || err == nil {
			t.Fatalf("got %v, %v", may, err)
		}
		if limited := strings.HasPrefix(err.Error(), "the API server was asked too often what a/one may do"); limited != (i >= atOnce) {
			t.Fatalf("question %d: %v", i, err)
		}
	}
	if n := s.take(); n != atOnce {
		t.Errorf("%d questions", n)
	}
	s.allow(true)
	s.wants(t, other, getPods, true, 1)
	s.wants(t, one, getP, true, 1)
	s.passes(time.Second)
	s.wants(t, one, getPods, true, 1)
	for i := range 3 * atOnce { // the host itself is not bounded
		if may, err := s.HostMay(t.Context(), Action{Verb: "get", Resource: "pods", Name: fmt.Sprint(i)}); !may || err != nil {
			t.Fatalf("got %v, %v", may, err)
		}
	}
}

// A review asks about each rule in each namespace, every minute. Reads have their limit and their
// memory for themselves.
func TestReviewsTakeNothingOfWhatReadsHave(t *testing.T) {
	s := newServer(t)
	s.reviewRate = rate.NewLimiter(rate.Inf, 0)
	s.wants(t, one, getP, true, 1)
	s.wants(t, one, getInA, true, 1)
	review := func(account rights.Account, action Action, want bool, questions int) {
		t.Helper()
		if allowed, err := s.Review(t.Context(), account, action); allowed != want || err != nil {
			t.Fatalf("%+v: %v, %v", action, allowed, err)
		}
		if n := s.take(); n != questions {
			t.Fatalf("%+v: %d questions", action, n)
		}
	}
	for i := range 2 * maxAnswers {
		review(one, Action{Verb: "get", Resource: "pods", Namespace: fmt.Sprint("n", i)}, true, 1)
	}
	s.wants(t, one, getP, true, 0)
	s.wants(t, one, Action{Verb: "get", Resource: "pods", Namespace: "new"}, true, 1)
	if n := s.subject(one).answers.Len(); n != 3 {
		t.Errorf("%d answers", n)
	}

	// What is remembered is used by both, and replaced.
	review(one, getP, true, 0)
	s.passes(time.Minute)
	s.allow(false)
	review(one, getP, false, 1)
	s.wants(t, one, getP, false, 0)
	s.passes(10 * time.Second)
	s.allow(true)
	review(one, getP, true, 1)
	s.wants(t, one, getP, true, 0)
	host := rights.Account{}
	review(host, getP, true, 1)
	review(host, getP, true, 0) // for another plugin
	s.always(allowed, 500)
	if may, err := s.Review(t.Context(), other, getP); may || err == nil {
		t.Errorf("got %v, %v", may, err)
	}
}

func TestReviewsOfAllAccountsAreBounded(t *testing.T) {
	s := newServer(t)
	const questions = 100
	r := New(Config{Reviews: s.Reviews, AllowedFor: 6 * time.Second}) // 500 in a second
	began := time.Now()
	var wait sync.WaitGroup
	for i := range questions {
		account := rights.Account{Namespace: "a", Name: fmt.Sprint(i % 4)}
		if i%5 == 0 {
			account = rights.Account{} // the host
		}
		wait.Go(func() {
			if may, err := r.Review(t.Context(), account, Action{Verb: "get", Resource: "pods", Name: fmt.Sprint(i)}); !may || err != nil {
				t.Errorf("got %v, %v", may, err)
			}
		})
	}
	wait.Wait()
	if took, n := time.Since(began), s.take(); n != questions || took < (questions-1)*2*time.Millisecond {
		t.Errorf("%d questions in %s", n, took)
	}
}

func TestMemoryOfAnAccountIsBoundedAndItsOwn(t *testing.T) {
	s := newServer(t)
	s.subject(one).wide = rate.NewLimiter(rate.Inf, 0)
	s.wants(t, other, getP, true, 1)
	for i := range 3 * maxAnswers {
		if _, err := s.May(t.Context(), one, Action{Verb: "get", Resource: fmt.Sprint("r", i)}); err != nil {
			t.Fatal(err)
		}
	}
	s.take()
	if n := s.subject(one).answers.Len(); n != maxAnswers {
		t.Errorf("%d answers", n)
	}
	s.wants(t, other, getP, true, 0)
	s.wants(t, one, Action{Verb: "get", Resource: "r0"}, true, 1)
	for i := range 2 * maxAccounts {
		s.subject(rights.Account{Namespace: "n", Name: fmt.Sprint(i)}).known(getP)
	}
	if n := s.accounts.Len(); n != maxAccounts {
		t.Errorf("%d accounts", n)
	}
}

// All values of two actions after each other may be the same text.
func TestQuestionsAreNotMistakenForEachOther(t *testing.T) {
	values := []string{"", "a", " ", `"`, `" "`, `\`, `\"`, "\x00", "a b", `a" "b`, "/", "}", "{", "\xff", "\ufffd", "%!q"}
	keys := map[string]Action{}
	for _, v := range values {
		for _, w := range values {
			for _, a := range []Action{
				{Verb: v, Group: w},
				{Verb: v, Resource: w},
				{Group: v, Resource: w},
				{Resource: v, Subresource: w},
				{Subresource: v, Namespace: w},
				{Namespace: v, Name: w},
				{Resource: v, Name: w},
				{Verb: v, Name: w},
				{Verb: v + w},
				{Name: v + w},
				{Namespace: w + v},
			} {
				if before, ok := keys[a.key()]; ok && before != a {
					t.Errorf("%#v and %#v are %s", before, a, a.key())
				}
				keys[a.key()] = a
			}
		}
	}
	s := newServer(t)
	s.wants(t, rights.Account{Namespace: "a", Name: "b"}, getP, true, 1)
	s.allow(false)
	s.wants(t, rights.Account{Namespace: "a", Name: "b-c"}, getP, false, 1)
	s.wants(t, rights.Account{Namespace: "b", Name: "a"}, getP, false, 1)
	s.wants(t, rights.Account{}, getP, false, 1)
}

func TestHostIsAskedAboutByItself(t *testing.T) {
	s := newServer(t)
	may := func(want bool, questions int) {
		t.Helper()
		got, err := s.HostMay(t.Context(), getP)
		if got != want || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
		if n := s.take(); n != questions {
			t.Errorf("%d questions, want %d", n, questions)
		}
	}
	may(true, 1)
	s.allow(false)
	s.wants(t, one, getP, false, 1)
	s.wants(t, rights.Account{}, getP, false, 1) // no account has the rights of the host
	may(true, 0)
	s.passes(time.Minute)
	may(false, 1)
	s.always(allowed, 403)
	s.passes(10 * time.Second)
	if got, err := s.HostMay(t.Context(), getP); got || err == nil || !strings.HasPrefix(err.Error(), "ask the API server what the host may do: ") {
		t.Errorf("got %v, %v", got, err)
	}
}
