package runner

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// authorizer decides about the rights of service accounts, and of the host. It has the service
// accounts of the namespace a.
type authorizer struct {
	mu     sync.Mutex
	denied map[string]bool // "account verb resource", or "host verb resource"
	fails  error
	silent string // about whom no question is answered
	asked  map[string]int
}

// mute makes all questions about an account fail, "" for none.
func (a *authorizer) mute(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silent = name
}

// awaitAsked waits for a question about an account.
func (a *authorizer) awaitAsked(t *testing.T, name string) {
	t.Helper()
	count := func() int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.asked[name]
	}
	before := count()
	await.Until(t, "a question about "+name, func() bool { return count() > before })
}

// deny takes the rights away that are named, and gives all others.
func (a *authorizer) deny(fails error, denied ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.denied, a.fails = map[string]bool{}, fails
	for _, right := range denied {
		a.denied[right] = true
	}
}

func (a *authorizer) decide(user string, r *authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := user[strings.LastIndex(user, ":")+1:]
	if a.asked == nil {
		a.asked = map[string]int{}
	}
	a.asked[name]++
	if a.silent == name {
		return authorizationv1.SubjectAccessReviewStatus{}, errors.New("no answer")
	}
	return authorizationv1.SubjectAccessReviewStatus{Allowed: !a.denied[name+" "+r.Verb+" "+r.Resource]}, a.fails
}

// reviewer returns what asks the authorizer, and believes an answer for no time.
func (a *authorizer) reviewer(accounts ...string) *access.Reviewer {
	var there []runtime.Object
	for _, name := range accounts {
		there = append(there, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}})
	}
	client := fake.NewClientset(there...)
	client.PrependReactor("get", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		hidden := action.GetNamespace() == "hidden"
		return hidden, nil, apierrors.NewForbidden(corev1.Resource("serviceaccounts"), "there", errors.New("not here"))
	})
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		var err error
		review.Status, err = a.decide(review.Spec.User, review.Spec.ResourceAttributes)
		return true, review, err
	})
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		var err error
		review.Status, err = a.decide("host", review.Spec.ResourceAttributes)
		return true, review, err
	})
	return access.New(access.Config{Reviews: reviewsOf(client), Accounts: accountsOf(client), AllowedFor: time.Nanosecond})
}

func reviewsOf(client *fake.Clientset) kube.AccessReviews {
	return kube.AccessReviews{Subject: client.AuthorizationV1().SubjectAccessReviews(), Self: client.AuthorizationV1().SelfSubjectAccessReviews()}
}

func accountsOf(client *fake.Clientset) func(string) kube.Getter[*corev1.ServiceAccount] {
	return func(namespace string) kube.Getter[*corev1.ServiceAccount] {
		return client.CoreV1().ServiceAccounts(namespace)
	}
}

// startAccount starts a plugin of widgets that acts as a service account.
func startAccount(t *testing.T, r *Runner, account string) error {
	t.Helper()
	policy := config.Policy{ServiceAccount: account}
	policy.Limits.Concurrency = 1
	return r.Start(t.Context(), &Revision{
		Revision: events.Revision{Plugin: "p", Number: 1, Digest: "d"}, Policy: policy,
		Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: widgets.All()}}},
	}, func() error { return nil })
}

func TestAPluginWaitsForAnIdentityThatItCanHave(t *testing.T) {
	_, url := startRefusingServer(t)
	impersonate, constrained := "host impersonate serviceaccounts", "host impersonate:serviceaccount serviceaccounts"
	for name, c := range map[string]struct {
		account      string
		hostIdentity bool
		fails        error
		denied       []string
		want         string // "": it starts
		stops        bool   // what runs under another policy
	}{
		"its account":               {account: "a/there"},
		"the host":                  {hostIdentity: true},
		"constrained impersonation": {account: "a/there", denied: []string{impersonate}},
		"no account": {
			want: "the policy names no service account to act as: write serviceAccount: NAMESPACE/NAME to p.yaml, beside the module, or let plugins act with the rights of the host by --host-identity", stops: true,
		},
		"an account that is not there": {
			account: "a/gone", want: "there is no service account a/gone: create it; thole rbac prints it, with what it needs", stops: true,
		},
		"one that it may not use": {
			account: "a/there", denied: []string{impersonate, constrained}, stops: true,
			want: `the host may not act as the service account a/there: "the host" lacks a right: add to a Role in namespace "a" the rule {apiGroups: [''], resources: ['serviceaccounts'], verbs: ['impersonate'], resourceNames: ['there']}; thole rbac prints all rules`,
		},
		"one that the host may not look up": {
			account: "hidden/there", stops: true,
			want: `look up the service account hidden/there: serviceaccounts "there" is forbidden: not here; thole rbac prints all rules`,
		},
		"no answer": {account: "a/there", fails: errors.New("no time"), want: "ask the API server what the host may do: no time"},
	} {
		t.Run(name, func(t *testing.T) {
			r, a := newRunner(t, url, ""), &authorizer{}
			a.deny(c.fails, c.denied...)
			r.HostIdentity, r.Access = c.hostIdentity, a.reviewer("there")
			err := startAccount(t, r, c.account)
			wait, waits := errors.AsType[*catalog.WaitError](err)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!waits || wait.Reason != c.want || wait.Denied != c.stops):
				t.Errorf("got  %+v\nwant %s", err, c.want)
			}
		})
	}
}

// What is missing is reported when it changes, and shown as long as it is missing.
func TestMissingRightsAreReportedOnce(t *testing.T) {
	_, url := startRefusingServer(t)
	r, a := newRunner(t, url, ""), &authorizer{}
	reported := make(chan string, 100)
	r.Events = events.Func(func(e events.Event) {
		switch e := e.(type) {
		case events.RightsMissing:
			reported <- strings.Join(e.Missing, "\n")
		case events.RightsGranted:
			reported <- "all"
		}
	})
	r.Access, r.ReviewEvery = a.reviewer("there"), time.Millisecond
	if err := startAccount(t, r, "a/there"); err != nil {
		t.Fatal(err)
	}
	const ofPlugin, ofHost = `"system:serviceaccount:a:there" lacks`, `"the host" lacks`
	expect := func(want ...string) {
		t.Helper()
		text := <-reported
		for _, want := range want {
			if !strings.Contains(text, want) {
				t.Errorf("reported %s, want %s", text, want)
			}
		}
		if shown := r.Statuses()["p"].MissingRights; len(shown) != strings.Count(text, "\n")+1 && text != "all" {
			t.Errorf("shown are %q, reported was %s", shown, text)
		}
	}
	a.deny(nil, "there patch widgets")
	expect(ofPlugin, `resources: ['widgets'], verbs: ['patch']`)
	a.deny(nil, "there patch widgets", "host watch widgets")
	expect(ofPlugin, ofHost, `verbs: ['watch']`)
	a.deny(errors.New("no answer")) // which changes nothing
	a.deny(nil, "host watch widgets")
	expect(ofHost)
	a.deny(nil)
	expect("all")
	if err := startAccount(t, r, "a/there"); err != nil { // which reports nothing
		t.Fatal(err)
	}
	a.deny(nil, "host create subjectaccessreviews")
	expect(ofHost, "subjectaccessreviews")
	r.Stop("p", false)
	select {
	case text := <-reported:
		t.Errorf("also reported: %s", text)
	default:
	}
}

// A right that is taken away and given back between two reviews is missing in none of them. What was refused
// meanwhile is due all the same, and nothing is if the right is still missing, or nothing was refused.
func TestARightThatIsMissingBetweenReviewsMakesObjectsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &authorizer{}
		a.deny(nil)
		r := &Runner{Config: Config{Access: a.reviewer("there"), Events: events.Observers()}}
		v := &rightsReview{runner: r, plugin: "p", account: rights.Account{Namespace: "a", Name: "there"}, ofAccount: []rights.Rule{
			{Resource: "gadgets", Verbs: []string{"get"}}, {Resource: "widgets", Verbs: []string{"get", "watch"}},
		}}
		v.refused = make([]atomic.Bool, len(v.ofAccount))
		v.missing.Store(new([]lack))
		p := &plugin{}
		p.review.Store(v)
		kind := abi.Kind{APIVersion: "v1", Kind: "Widget"}
		widgets := object.Resource{GVR: schema.GroupVersionResource{Version: "v1", Resource: "widgets"}, Namespaced: true}
		may := r.accessOf(&Revision{Policy: config.Policy{ServiceAccount: "a/there"}}, map[abi.Kind]object.Resource{kind: widgets}, p)
		due := 0
		v.due = func() { due++ }
		regained := func() bool {
			t.Helper()
			time.Sleep(time.Minute) // fake time: what was denied is not remembered
			before := due
			if err := v.review(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // fake time: nor what was allowed
			return due > before
		}
		w := object.Key{Namespace: "n", Name: "w"}
		for name, read := range map[string]func(){
			"a read":   func() { _ = may.May(t.Context(), rights.Get, kind, w) },
			"a change": func() { _, _ = may.Known(rights.Get, kind, w) },
		} {
			if regained() {
				t.Errorf("%s: before", name)
			}
			a.deny(nil, "there get widgets")
			_ = may.May(t.Context(), rights.Get, kind, w) // what is known is what was asked
			v.takeRefused()
			read()
			a.deny(nil)
			if !regained() {
				t.Errorf("%s that was refused is not due", name)
			}
			if regained() {
				t.Errorf("%s is due twice", name)
			}
			a.deny(nil, "there get widgets")
			read()
			if regained() {
				t.Errorf("%s is due while the right is missing", name)
			}
			a.deny(nil)
			if !regained() {
				t.Errorf("%s is not due after the right was granted", name)
			}
		}
	})
}

// The answers about the verbs of a rule are believed for a time each: a review may find a part of them changed.
// Only what was granted makes objects due.
func TestVerbsThatAreLostOneAfterTheOtherMakeNothingDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, due := &authorizer{}, 0
		v := &rightsReview{
			runner: &Runner{Config: Config{Access: a.reviewer("there"), Events: events.Observers()}}, account: rights.Account{Namespace: "a", Name: "there"},
			ofAccount: []rights.Rule{{Resource: "gadgets", Verbs: []string{"get"}}, {Resource: "widgets", Verbs: []string{"get", "list"}}},
			due:       func() { due++ },
		}
		v.refused = make([]atomic.Bool, len(v.ofAccount))
		v.missing.Store(new([]lack))
		for _, step := range []struct {
			denied []string
			due    int
		}{
			{denied: []string{"there list widgets"}},
			{denied: []string{"there list widgets", "there get widgets"}},
			{denied: []string{"there list widgets", "there get widgets", "there get gadgets"}},
			{denied: []string{"there get widgets", "there get gadgets"}, due: 1},
			{denied: []string{"there list widgets", "there get gadgets"}, due: 2},
			{denied: []string{"there list widgets"}, due: 3},
			{due: 4},
			{due: 4},
		} {
			a.deny(nil, step.denied...)
			time.Sleep(time.Minute) // fake time: no answer is remembered
			if err := v.review(t.Context()); err != nil {
				t.Fatal(err)
			}
			if due != step.due {
				t.Errorf("due %d times, want %d, without %q", due, step.due, step.denied)
			}
		}
	})
}

func TestOneWriteWaitsForASlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, silent := fake.NewClientset(), make(chan struct{})
		client.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-silent
			return true, &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
		})
		r := &Runner{Config: Config{Access: access.New(access.Config{Reviews: reviewsOf(client)})}}
		mayGet := r.mayGet(rights.Account{Namespace: "a", Name: "b"})
		expect := func(want bool, waits time.Duration) {
			t.Helper()
			began := time.Now()
			got := mayGet(t.Context(), object.Resource{GVR: schema.GroupVersionResource{Resource: "widgets"}}, object.Key{Name: "w"})
			if waited := time.Since(began); got != want || waited != waits {
				t.Errorf("%v after %s, want %v after %s", got, waited, want, waits)
			}
		}
		expect(false, mayGetTimeout)
		expect(false, 0)
		time.Sleep(afterSlowGet) // fake time
		expect(false, mayGetTimeout)
		expect(false, 0)
		close(silent)
		synctest.Wait()
		expect(true, 0)
	})
}

// Who has rights in many namespaces may lose them all.
func TestMissingRightsAreBounded(t *testing.T) {
	a := &authorizer{}
	a.deny(nil, "there get widgets")
	r := &Runner{Config: Config{Access: a.reviewer("there")}}
	look := func(n int) []string {
		v := &rightsReview{runner: r, account: rights.Account{Namespace: "a", Name: "there"}}
		for i := range n {
			v.ofAccount = append(v.ofAccount, rights.Rule{Namespace: fmt.Sprint("n", i), Resource: "widgets", Verbs: []string{"get"}})
		}
		missing, err := v.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return textsOf(missing)
	}
	if missing := look(maxMissing); len(missing) != maxMissing || !strings.Contains(missing[maxMissing-1], `namespace "n99"`) {
		t.Errorf("%d are missing: %q", len(missing), missing)
	}
	missing := look(3 * maxMissing)
	if last := missing[len(missing)-1]; len(missing) != maxMissing+1 || last != "and 200 more: thole rbac prints all rules" {
		t.Errorf("%d are missing, the last: %s", len(missing), last)
	}
}

// An account that is deleted is missing like a right: the API server goes on to let the host act
// as it. While the host may not ask, what the account lacks is what was found last.
func TestAReviewOfAnAccountThatIsDeleted(t *testing.T) {
	_, url := startRefusingServer(t)
	r, a := newRunner(t, url, ""), &authorizer{}
	reported := make(chan []string, 100)
	r.Events = events.Func(func(e events.Event) {
		switch e := e.(type) {
		case events.RightsMissing:
			reported <- e.Missing
		case events.RightsGranted:
			reported <- nil
		}
	})
	r.Access, r.ReviewEvery = a.reviewer("there"), time.Millisecond
	if err := startAccount(t, r, "a/there"); err != nil {
		t.Fatal(err)
	}
	expect := func(want ...string) {
		t.Helper()
		got := <-reported
		if len(got) != len(want) {
			t.Fatalf("reported %q, want %q", got, want)
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("reported %q, want %q", got[i], want[i])
			}
		}
	}
	const gone, lacks, hostLacks = "there is no service account a/there: create it", `"system:serviceaccount:a:there" lacks`, `"the host" lacks`
	accounts := r.Access.Accounts("a").(typed.ServiceAccountInterface)
	if err := accounts.Delete(t.Context(), "there", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(gone)
	may := r.controllersOf("p")[0].Revision().Access
	if err := may.May(t.Context(), rights.Get, widgets, object.Key{Namespace: "n", Name: "w"}); err == nil || !access.Denied(err) || !strings.Contains(err.Error(), gone) {
		t.Errorf("the plugin may still read: %v", err)
	}
	if allowed, known := may.Known(rights.Watch, widgets, object.Key{}); allowed || !known {
		t.Error("changes still wake the plugin")
	}
	a.deny(nil, "there patch widgets")
	expect(gone, lacks)
	a.deny(nil, "there patch widgets", "host watch widgets")
	expect(hostLacks, gone, lacks)
	a.mute("there")
	a.awaitAsked(t, "there")
	a.awaitAsked(t, "there")
	a.mute("")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "there"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(hostLacks, lacks)
	if err := may.May(t.Context(), rights.Get, widgets, object.Key{Namespace: "n", Name: "w"}); err != nil {
		t.Error(err)
	}
	a.deny(nil, "host watch widgets") // one after the other: a review may be between the questions about both
	expect(hostLacks)
	a.deny(nil)
	expect()
}

// The cache of the host decides about writes to what the account may get, and no others.
func TestWritesAreDecidedByWhatTheAccountMayGet(t *testing.T) {
	_, url := startRefusingServer(t)
	for _, account := range []string{"", "a/there"} {
		r, a := newRunner(t, url, ""), &authorizer{}
		r.HostIdentity, r.Access = true, a.reviewer("there")
		if err := startAccount(t, r, account); err != nil {
			t.Fatal(err)
		}
		mayGet := r.plugins["p"].effects.Load().MayGet
		if account == "" {
			if mayGet != nil {
				t.Error("the host needs an account")
			}
			continue
		}
		expect := func(want bool, why string) {
			t.Helper()
			if got := mayGet(t.Context(), object.Resource{GVR: schema.GroupVersionResource{Resource: "widgets"}, Namespaced: true}, object.Key{Namespace: "n", Name: "w"}); got != want {
				t.Errorf("%s: %v", why, got)
			}
		}
		expect(true, "with the right")
		a.deny(nil, "there get widgets")
		expect(false, "without the right")
		a.deny(errors.New("no answer"))
		expect(false, "without an answer")
	}
}
