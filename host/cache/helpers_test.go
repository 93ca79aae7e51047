package cache

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/object"
)

// within returns a context that is done after [await.Limit].
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	t.Cleanup(cancel)
	return ctx
}

// receive returns the next element of a channel, or fails the test.
func receive[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-within(t).Done():
		t.Fatal("nothing was received")
	}
	return v
}

// quickly is a backoff for tests.
var quickly = &wait.Backoff{Duration: 5 * time.Millisecond, Cap: 20 * time.Millisecond, Steps: 5, Factor: 2}

// open returns a running cache that is connected to the peer.
func open(t *testing.T, p *peer, config Config, hooks ...Hooks) *Cache {
	t.Helper()
	config.REST = p.config()
	config.backoff = quickly
	if config.RetryAfter == 0 {
		config.RetryAfter = 5 * time.Millisecond
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	for _, h := range hooks {
		c.Subscribe(h)
	}
	return c
}

// acquire returns the informer of widgets when it has synced.
func acquire(t *testing.T, c *Cache) *Informer {
	t.Helper()
	i, err := c.Acquire(within(t), scope.All(widget))
	if err != nil {
		t.Fatal(err)
	}
	if err := i.WaitForSync(within(t)); err != nil {
		t.Fatal(err)
	}
	return i
}

// begin opens a run of a plugin that reads every kind that has an informer.
func begin(c *Cache, o Owner, own *OwnWrites) *Run {
	return c.Begin(o, own, func(kind abi.Kind) *Informer {
		c.mu.Lock()
		defer c.mu.Unlock()
		if i := c.informers[selected{kind: kind, namespace: c.config.Namespace}]; i != nil {
			return &Informer{scope: i.scope, parts: []part{{informer: i}}}
		}
		return nil
	})
}

var whole fieldpath.Set

// widgets is a list of widgets. The selector may be nil.
func widgets(namespace string, sel labels.Selector) Reading {
	l := Reading{Kind: widget, Selector: sel}
	if namespace != "" {
		l.Namespaces = []string{namespace}
	}
	return l
}

// versionOf returns the resourceVersion that the store has reached, "" before it
// has synced.
func versionOf(i *Informer) string {
	i.parts[0].store.mu.RLock()
	defer i.parts[0].store.mu.RUnlock()
	return i.parts[0].store.version
}

func reached(i *Informer, version string) bool {
	ok, _ := atLeast(versionOf(i), version)
	return ok
}

// waitReached waits until an informer has reached a resourceVersion.
func waitReached(ctx context.Context, i *Informer, version string) error {
	for {
		if ok, err := i.parts[0].store.reached(version); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// follow calls h with an initial event for each object that is shown, and with each change.
// The initial event has no more than the key of an object that is gone by then.
func (i *Informer) follow(h func(Event)) (remove func()) {
	return i.AddHandler(func(key object.Key) {
		o, ok := i.Get(key)
		if !ok {
			o = &object.Object{Kind: i.Kind(), ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		}
		h(Event{New: o, Initial: true})
	}, h)
}

// recorder is a handler that keeps the events.
type recorder struct {
	t      testing.TB
	events chan string
}

func record(t testing.TB, i *Informer) *recorder {
	r := &recorder{t: t, events: make(chan string, 1000)}
	t.Cleanup(i.follow(r.handle))
	return r
}

func (r *recorder) handle(e Event) { r.events <- describe(e) }

func describe(e Event) string {
	verb := "update"
	switch {
	case e.Initial:
		verb = "initial"
	case e.Old == nil:
		verb = "add"
	case e.Lost:
		verb = "lose"
	case e.New == nil:
		verb = "delete"
	}
	return verb + " " + e.Object().Key().String()
}

// expect waits for exactly these events in this order.
func (r *recorder) expect(want ...string) {
	r.t.Helper()
	for _, w := range want {
		if got := receive(r.t, r.events); got != w {
			r.t.Fatalf("got event %q, want %q", got, w)
		}
	}
}

// expectNone fails the test if there is an event.
func (r *recorder) expectNone() {
	r.t.Helper()
	select {
	case got := <-r.events:
		r.t.Fatalf("unexpected event %q", got)
	default:
	}
}

func names(objects []*object.Object) string {
	var all []string
	for _, o := range objects {
		all = append(all, o.Key().String())
	}
	return strings.Join(all, " ")
}

// expectChangesOnly fails the test if a failure was logged twice in a row for the
// same reason.
func expectChangesOnly(t *testing.T, lines []logtest.Line) {
	t.Helper()
	var last any
	for _, line := range lines {
		reason := line.Fields["reason"]
		if reason != nil && reason == last {
			t.Errorf("logged again: %s", line)
		}
		last = reason
	}
}

func notFound(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonNotFound
}

// usersOf returns the number of users of the informer of widgets.
func usersOf(c *Cache) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.informers[selectedBy(scope.All(widget))].users
}
