package cache

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clocktest "k8s.io/utils/clock/testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/object"
)

// receivedAll returns the events so far, sorted, after a list has ended.
func (r *recorder) receivedAll(n int) (all []string) {
	r.t.Helper()
	for range n {
		all = append(all, receive(r.t, r.events))
	}
	r.expectNone()
	slices.Sort(all)
	return all
}

func versioned(uid, version, generation int) string {
	return fmt.Sprintf(`,"uid":"u%d","resourceVersion":"%d","generation":%d`, uid, version, generation)
}

func TestAPollFindsEveryChangeOf5000ObjectsWithinOneInterval(t *testing.T) {
	p := newPollPeer(t)
	p.version = "7000"
	for n := range 5000 {
		p.put(fmt.Sprintf("s%04d", n), versioned(n, n+1, 1), `,"status":{"cpu":1}`)
	}
	c := p.open(Config{})
	i := p.acquire(c, scope.All(polled))
	if got := p.received(); len(got) != 10 || got[0].Get("limit") != "500" || got[9].Get("continue") != "4500" || got[0].Get("watch") != "" {
		t.Fatalf("%d requests, the first one is %v", len(got), got[0])
	}
	changes := make(chan Event, 100)
	i.AddHandler(nil, func(e Event) {
		if !e.Initial {
			changes <- e
		}
	})
	p.put("a-new", versioned(6000, 7001, 1), "")
	p.put("s0001", versioned(1, 7002, 2), `,"status":{"cpu":1}`)
	p.put("s2500", versioned(2500, 7003, 1), `,"status":{"cpu":2}`)
	p.remove("s4999")
	p.put("s3000", versioned(6001, 7004, 1), "") // deleted and created
	p.after(c, interval)
	got := map[string]Event{}
	for range 6 {
		e := receive(t, changes)
		got[describe(e)] = e
	}
	for _, want := range []string{"add ns/a-new", "update ns/s0001", "update ns/s2500", "delete ns/s4999", "delete ns/s3000", "add ns/s3000"} {
		if _, ok := got[want]; !ok {
			t.Errorf("there was no %q, but %d others", want, len(got))
		}
	}
	updated := got["update ns/s0001"]
	if updated.Old.Generation != 1 || updated.New.Generation != 2 {
		t.Errorf("generations %d and %d", updated.Old.Generation, updated.New.Generation)
	}
	if s := c.Stats(); s[0].Objects != 5000 || s[0].Restores != 0 {
		t.Errorf("%+v", s)
	}
	if p.after(c, interval); len(changes) != 0 {
		t.Errorf("a list without changes had %d", len(changes))
	}
}

func TestAPollComparesObjectsWithoutUIDAndResourceVersion(t *testing.T) {
	p := newPollPeer(t)
	p.put("a", "", `,"cpu":1`)
	p.put("b", "", `,"cpu":1`)
	p.put("c", `,"creationTimestamp":"2026-01-01T00:00:00Z"`, "")
	c := p.open(Config{})
	r := record(t, p.acquire(c, scope.All(polled)))
	r.expect("initial ns/a", "initial ns/b", "initial ns/c")
	p.put("b", "", `,"cpu":2`)
	p.put("c", `,"creationTimestamp":"2026-01-01T00:00:31Z"`, "") // deleted and created
	p.put("d", "", "")
	p.after(c, interval)
	r.expect("update ns/b", "update ns/c", "add ns/d")
	p.after(c, interval)
	r.expectNone()
}

// A server may give everything the same version. It then counts as none.
func TestAPollSeesAChangeUnderTheSameResourceVersion(t *testing.T) {
	p := newPollPeer(t)
	p.put("a", `,"uid":"u","resourceVersion":"1"`, `,"cpu":1`)
	c := p.open(Config{})
	i := p.acquire(c, scope.All(polled))
	r := record(t, i)
	r.expect("initial ns/a")
	for cpu := range 3 { // each is another state: none has the version of one before
		p.put("a", `,"uid":"u","resourceVersion":"1"`, fmt.Sprintf(`,"cpu":%d`, cpu+2))
		p.after(c, interval)
		r.expect("update ns/a")
		if o, _ := i.Get(keyOf("a")); o.ResourceVersion != "" || !strings.Contains(string(o.Raw), fmt.Sprintf(`"cpu":%d`, cpu+2)) {
			t.Errorf("version %q of %s", o.ResourceVersion, o.Raw)
		}
	}
	p.after(c, interval)
	r.expectNone()
}

func TestPackedObjectsAreComparedByAPoll(t *testing.T) {
	p := newPollPeer(t)
	for n := range 600 {
		p.put(fmt.Sprintf("s%04d", n), "", `,"data":"`+strings.Repeat("x", 4000)+`"`)
	}
	c := p.open(Config{})
	i := p.acquire(c, scope.All(polled))
	r := record(t, i)
	r.receivedAll(600)
	for range 6 {
		i.parts[0].store.sweep(t.Context())
	}
	p.put("s0300", "", `,"data":"y"`)
	p.after(c, interval)
	r.expect("update ns/s0300")
	r.expectNone()
}

// Between two lists nothing is requested, and nothing at all for a kind that is watched.
func TestAWatchedKindIsNotPolled(t *testing.T) {
	p, fake := newPeer(t), clocktest.NewFakeClock(time.Now())
	p.put("a", "x")
	c := open(t, p, Config{Clock: fake})
	i := acquire(t, c)
	i.PollEvery(time.Second)
	if i.parts[0].poller != nil {
		t.Error("there is a poller")
	}
	r := record(t, i)
	for n := range 10 {
		fake.Step(8 * time.Second)
		p.put("a", fmt.Sprintf("y%d", n)) // resets the timer of a watch that has stalled
		await.Until(t, "the event comes", func() bool { return len(r.events) >= n+2 })
	}
	if got := p.received(); len(got) != 1 || !isWatchList(got[0]) {
		t.Errorf("requests: %v", got)
	}
	if f := c.Following(); len(f) != 1 || f[0] != (Following{Kind: widget, Working: true, Handlers: 1}) {
		t.Errorf("%+v", f)
	}
}

func TestAKindThatCannotBeListedIsRefused(t *testing.T) {
	p := newPollPeer(t)
	p.verbs = metav1.Verbs{"get", "watch"}
	_, err := p.open(Config{}).Acquire(within(t), scope.All(polled))
	if _, ok := errors.AsType[*NotListableError](err); !ok ||
		err.Error() != `poll.dev/v1 Sample cannot be listed: its API has no verb "list"; do not name it in For, Owns, Reads or Watches of a controller` {
		t.Errorf("got %v", err)
	}
}

// Once the API has watch, the next informer uses it.
func TestTheNextInformerWatchesIfTheAPICan(t *testing.T) {
	p := newPollPeer(t)
	c := p.open(Config{IdleAfter: time.Minute})
	i := p.acquire(c, scope.All(polled))
	p.mu.Lock()
	p.verbs = metav1.Verbs{"get", "list", "watch"}
	p.mu.Unlock()
	i.Release()
	p.idle()
	p.clock.Step(time.Hour)
	await.Until(t, "the idle informer has stopped", func() bool { return len(c.Following()) == 0 })
	p.received()
	if _, err := c.Acquire(within(t), scope.All(polled)); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a watch is requested", func() bool {
		return slices.ContainsFunc(p.received(), isWatchList)
	})
	if f := c.Following(); f[0].Polled {
		t.Errorf("%+v", f)
	}
}

func TestAPolledKindThatIsNotServedHasNoObjects(t *testing.T) {
	p := newPollPeer(t)
	p.put("a", "", "")
	logs := logtest.New(hclog.Info)
	c := p.open(Config{Logger: logs.Logger})
	i := p.acquire(c, scope.All(polled))
	r := record(t, i)
	r.expect("initial ns/a")
	serve := func(served bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.served = served
	}
	serve(false)
	p.after(c, interval) // response 404
	p.clock.Step(time.Minute)
	r.expect("lose ns/a")
	if err := i.Err(); err == nil || i.parts[0].health.reason != "KindNotServed" {
		t.Errorf("fails with %v", err)
	}
	serve(true)
	await.Until(t, "the kind is listed again", func() bool {
		p.clock.Step(interval)
		return i.Err() == nil
	})
	r.expect("add ns/a")
}

// An API may ignore what is selected, and whether only metadata is asked for.
func TestWhatAnAPIDoesNotSelectIsLeftOut(t *testing.T) {
	p := newPollPeer(t)
	p.put("a", `,"labels":{"app":"x"}`, `,"secret":1`)
	p.put("b", `,"labels":{"app":"y"}`, "")
	c := p.open(Config{})
	selected := scope.Scope{Kind: polled, Labels: labels.SelectorFromSet(labels.Set{"app": "x"}), Namespaces: []string{"ns"}, MetadataOnly: true}
	i := p.acquire(c, selected)
	r := p.requests[0]
	if r.URL.Path != "/apis/poll.dev/v1/namespaces/ns/samples" || r.URL.Query().Get("labelSelector") != "app=x" ||
		!strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		t.Errorf("requested %s with %s", r.URL, r.Header.Get("Accept"))
	}
	all := i.List("", nil)
	if names(all) != "ns/a" || strings.Contains(string(all[0].Raw), "secret") {
		t.Errorf("the list is %s", names(all))
	}
	other := p.acquire(c, scope.Scope{Kind: polled, Namespaces: []string{"other"}})
	if got := other.List("", nil); len(got) != 0 { // the peer ignores the namespace
		t.Errorf("of another namespace: %s", names(got))
	}
}

// An owner that has written an object that others delete before the next list is woken by it.
func TestAnOwnerIsWokenForWhatAPollGoesPast(t *testing.T) {
	for _, meta := range []string{"", versioned(1, 5, 1)} {
		p := newPollPeer(t)
		woken := make(chan Owner, 10)
		c := p.open(Config{}, Hooks{Wake: func(o Owner, _ Event, _ bool) { woken <- o }})
		i := p.acquire(c, scope.All(polled))
		p.idle()
		o, err := object.Parse([]byte(sampleText("a", meta, "")), polled)
		if err != nil {
			t.Fatal(err)
		}
		i.WakeIfSkipped(me, o.Key(), o.ResourceVersion)
		if p.after(c, interval); receive(t, woken) != me {
			t.Errorf("another one was woken")
		}
		if p.after(c, interval); len(woken) != 0 {
			t.Errorf("woken again")
		}
	}
}

func TestAMissingRightToListIsExplainedWithoutWatch(t *testing.T) {
	p := newPollPeer(t)
	p.breaks(func(int, *http.Request) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"samples.poll.dev is forbidden: User \"system:serviceaccount:thole:host\" cannot list resource \"samples\" in API group \"poll.dev\" at the cluster scope"}`)
		}
	})
	logs := logtest.New(hclog.Info)
	i, err := p.open(Config{Logger: logs.Logger}).Acquire(within(t), scope.All(polled))
	if err != nil {
		t.Fatal(err)
	}
	err = i.WaitForSync(within(t))
	if err == nil || !strings.HasPrefix(err.Error(), "list poll.dev/v1 Sample: ") || strings.Contains(err.Error(), "watch") {
		t.Errorf("got %v", err)
	}
	p.breaks(nil)
	await.Until(t, "the informer recovers", func() bool {
		p.clock.Step(time.Second)
		return i.Err() == nil && i.HasSynced()
	})
	expectChangesOnly(t, logs.All())
}

func TestFollowingHasTheShortestIntervalOfAKind(t *testing.T) {
	p := newPollPeer(t)
	c := p.open(Config{})
	p.acquire(c, scope.Scope{Kind: polled, Namespaces: []string{"a", "b"}}).PollEvery(time.Minute)
	p.acquire(c, scope.Scope{Kind: polled, Namespaces: []string{"c"}}).PollEvery(time.Hour)
	var f []Following
	// A list is counted when its objects are there.
	await.Until(t, "three lists are counted", func() bool { f = c.Following(); return len(f) == 1 && f[0].Succeeded >= 3 })
	if !f[0].Polled || !f[0].Working || f[0].Interval != time.Minute || f[0].Succeeded != 3 || f[0].Kind != (abi.Kind{APIVersion: "poll.dev/v1", Kind: "Sample"}) {
		t.Errorf("%+v", f)
	}
}

// Two servers behind one address may count the versions of objects each by itself.
func TestVersionsThatGoBackAreNoRestore(t *testing.T) {
	p := newPollPeer(t)
	p.put("a", versioned(1, 9, 1), `,"cpu":1`)
	restored := 0
	c := p.open(Config{}, Hooks{Restored: func(abi.Kind) { restored++ }})
	i := p.acquire(c, scope.All(polled))
	r := record(t, i)
	r.expect("initial ns/a")
	p.put("a", versioned(1, 4, 1), `,"cpu":2`)
	p.after(c, interval)
	r.expect("update ns/a")
	if c.Stats()[0].Restores != 0 {
		t.Errorf("%+v, %d", c.Stats(), restored)
	}
}

func TestAPackedObjectWithoutVersionHasNone(t *testing.T) {
	p := newPollPeer(t)
	put := func(cpu int) {
		for n := range 600 {
			p.put(fmt.Sprintf("s%04d", n), fmt.Sprintf(`,"uid":"u%d","resourceVersion":"1"`, n), fmt.Sprintf(`,"cpu":%d,"data":%q`, cpu, strings.Repeat("x", 4000)))
		}
	}
	put(1)
	c := p.open(Config{})
	i := p.acquire(c, scope.All(polled))
	put(2)
	p.after(c, interval)
	for range 6 {
		i.parts[0].store.sweep(t.Context())
	}
	if o, _ := i.Get(keyOf("s0300")); o.ResourceVersion != "" || !strings.Contains(string(o.Raw), `"cpu":2`) {
		t.Errorf("version %q", o.ResourceVersion)
	}
}
