package operator_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/operator"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// The tests of this file let chance choose what happens to a site. A watcher keeps a copy of
// its title somewhere else, as one that calls another system does.

// model is a site, its copy, and what is known of the last run.
type model struct {
	*test
	rand  *rand.Rand
	copy  map[string]string // by uid
	steps []string
	calm  bool // nothing fails any more

	changed bool // the title, or the host, since the last run that ended well
	failing bool // writes

	// begun means that a call has been made since the last run that ended well, and
	// undone that the host was restarted after that: a change that is taken back then is
	// none, and only Sync is called.
	begun, undone, sync bool

	plain bool // it is called for what it has done itself
}

// fails makes chance decide whether a call has the effect that it is for, and an error.
func (m *model) fails(effect func()) error {
	if m.calm {
		effect()
		return nil
	}
	switch m.rand.IntN(6) {
	case 0:
		return errBroken // before the effect
	case 1:
		effect()
		return errBroken
	case 2:
		effect()
		return sdk.Waiting("Later", time.Duration(m.rand.IntN(100))*time.Second, errBroken)
	}
	effect()
	return nil
}

// watcher returns the watcher that keeps the copy.
func (m *model) watcher(opinionated bool, dequeue func(*request, pending) bool, sync bool) watcher {
	put := func(r *object) error {
		m.calls = append(m.calls, "put "+r.Spec.Title)
		m.begun, m.undone = true, false
		m.url(r)
		return m.fails(func() { m.copy[r.UID] = r.Spec.Title })
	}
	w := watcher{
		Opinionated: opinionated, Dequeue: dequeue,
		Add:    put,
		Update: func(_ *old, r *object) error { return put(r) },
		Delete: func(r *object) error {
			m.calls = append(m.calls, "delete")
			return m.fails(func() { delete(m.copy, r.UID) })
		},
	}
	if sync {
		m.sync, w.Sync = true, put
	}
	return w
}

// url lets some calls ask for effects, which may fail.
func (m *model) url(r *object) {
	if m.rand.IntN(2) == 0 {
		r.Status.URL = "http://" + r.Spec.Title
	}
	if m.rand.IntN(2) == 0 {
		r.Apply(sdk.Raw(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"title":"` + r.Spec.Title + `"}}`))
	}
	if m.rand.IntN(4) == 0 {
		r.Patch(map[string]any{"metadata": map[string]any{"labels": map[string]string{"title": r.Spec.Title}}})
	}
}

// step lets one thing happen.
func (m *model) step() {
	switch m.rand.IntN(12) {
	case 0, 1:
		title := string(rune('A' + m.rand.IntN(3)))
		m.log("title " + title)
		m.title(title)
		m.changed = true
	case 2:
		m.log("label")
		m.change(fmt.Sprintf(`{"metadata":{"labels":{"x":"%d"}}}`, m.rand.IntN(3)))
	case 3:
		m.log("restart")
		m.Restart()
		m.changed, m.undone = true, m.begun && !m.sync
	case 4:
		m.log("time")
		m.Advance(time.Duration(m.rand.IntN(120)) * time.Second)
	case 5:
		m.failing = !m.failing
		m.log(fmt.Sprint("writes fail: ", m.failing))
		m.FailWrites(configMap, map[bool]string{true: "Forbidden"}[m.failing])
	case 6:
		m.log("trap")
		m.traps = true
		m.Reconcile("default/shop")
		m.traps = false
		m.changed = m.changed || m.sync // Sync is called after it
	default:
		m.reconcile()
	}
}

func (m *model) log(step string) { m.steps = append(m.steps, step) }

// reconcile runs the site, and checks what must hold after any run.
func (m *model) reconcile() *sdktest.Run {
	m.calls = nil
	r := m.Reconcile("default/shop")
	m.log(fmt.Sprintf("run: %q, %s %s", m.calls, r.Class, r.Reason))
	var now struct {
		Metadata sdk.ObjectMeta
		Spec     siteSpec
	}
	if !m.Get(shop, &now) || r.Class != "" {
		return r
	}
	if got := m.copy[now.Metadata.UID]; got != now.Spec.Title && !m.undone {
		m.t.Fatalf("the change to %q is lost, the copy is %q:\n%q", now.Spec.Title, got, m.steps)
	}
	if !m.changed && !m.plain && len(m.calls) > 0 {
		m.t.Fatalf("called again for what was done:\n%q", m.steps)
	}
	m.changed, m.begun = false, false
	return r
}

// settle ends all failures, and runs the site until nothing is pending.
func (m *model) settle() {
	m.calm, m.failing = true, false
	m.FailWrites(configMap, "")
	for range 10 {
		m.Advance(time.Hour)
		if r := m.reconcile(); r.Class == "" {
			return
		}
	}
	m.t.Fatalf("does not come to rest:\n%q", m.steps)
}

// remove deletes the site, while no host runs if chance chooses so, and expects that the copy
// goes before it is gone.
func (m *model) remove() {
	m.log("delete")
	m.Delete(shop)
	held := m.Exists(shop)
	if !held && len(m.copy) > 0 {
		m.t.Fatalf("was not held:\n%q", m.steps)
	}
	for range 20 {
		if m.rand.IntN(3) == 0 {
			m.log("restart")
			m.Restart()
		}
		m.Advance(time.Hour)
		if !m.Exists(shop) {
			break
		}
		m.reconcile()
	}
	if len(m.copy) > 0 && !m.Exists(shop) {
		m.t.Fatalf("the deletion is lost:\n%q", m.steps)
	}
}

func TestNoChangeAndNoDeletionIsLost(t *testing.T) {
	dequeues := map[string]func(*request, pending) bool{"dropping": nil, "keeping": keep, "of older": operator.DequeueOlder[siteSpec, siteStatus]}
	for name, dequeue := range dequeues {
		for _, sync := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sync %t", name, sync), func(t *testing.T) {
				for seed := range uint64(80) {
					m := &model{test: &test{t: t}, rand: rand.New(rand.NewPCG(seed, 1)), copy: map[string]string{}, changed: true}
					m.begin(m.watcher(true, dequeue, sync), controller{Retry: sdk.RetryPolicy{Initial: time.Second, Cap: time.Minute, Attempts: int(seed % 4)}})
					for range 30 {
						m.step()
					}
					if seed%2 == 0 {
						m.settle()
						m.calm = false
					}
					m.remove()
				}
			})
		}
	}
}

// Without a finalizer, a deletion is delivered as long as the host runs.
func TestPlainWatcherLosesNothingWhileTheHostRuns(t *testing.T) {
	for _, dequeue := range []func(*request, pending) bool{nil, keep} {
		for seed := range uint64(100) {
			m := &model{test: &test{t: t}, rand: rand.New(rand.NewPCG(seed, 2)), copy: map[string]string{}, plain: true}
			m.begin(m.watcher(false, dequeue, false))
			for range 30 {
				m.step()
				m.undone = false
			}
			m.Delete(shop)
			for range 30 {
				if r := m.ReconcileGone("default/shop"); r.Class == "" {
					break
				}
			}
			if len(m.copy) > 0 {
				t.Fatalf("the deletion is lost:\n%q", m.steps)
			}
		}
	}
}
