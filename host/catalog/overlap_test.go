package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// rest lets the retries of all plugins happen.
func rest() {
	time.Sleep(5 * time.Second) // fake time
	synctest.Wait()
}

// expectRunning compares what runs, as "plugin digest" ordered by name.
func (w *world) expectRunning(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []string
	for name, digest := range w.runs {
		got = append(got, name+" "+digest)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || len(w.misused) > 0 {
		t.Errorf("running: %q, want %q; misused: %q", got, want, w.misused)
	}
}

// Whichever file is there first, and whichever module is ready first: the plugin
// that comes first by name runs, the other one reports why not, and takes over when
// the first one is gone.
func TestTheFirstPluginByNameWinsInAnyOrder(t *testing.T) {
	a, b := module("a", "A/a"), module("b", "A+B/b")
	for name, arrive := range map[string]func(update func(...Module)){
		"together":      func(update func(...Module)) { update(a, b) },
		"a comes first": func(update func(...Module)) { update(a); rest(); update(a, b) },
		"b comes first": func(update func(...Module)) { update(b); rest(); update(a, b) },
	} {
		for _, slow := range []string{"", "A/a", "A+B/b"} {
			t.Run(strings.TrimSpace(name+" "+slow), func(t *testing.T) {
				w := newWorld("A", "B")
				scenario(t, w, func(update func(...Module), c *testCatalog) {
					if slow != "" {
						w.hold(slow)
					}
					arrive(update)
					rest()
					if slow != "" {
						w.release(slow)
					}
					rest()
					w.expectRunning(t, "a A/a")
					if s := c.Statuses()[1]; s.State != Failed || s.FailedStep != "overlap" || !strings.Contains(s.LastError, `"b/c" and "a/c" both write the condition Ready`) {
						t.Errorf("the other one: %+v", s)
					}
					update(b)
					rest()
					w.expectRunning(t, "b A+B/b")
					expectStatus(t, c, "b running A+B/b")
					update(a, b)
					rest()
					w.expectRunning(t, "a A/a")
				})
			})
		}
	}
}

// Whichever file is there first, and whichever module is ready first: a plugin whose account could
// not do its work stops none that does.
func TestAPluginWithoutTheRightDisplacesNothing(t *testing.T) {
	a, b := module("a", "A/a"), module("b", "A+B/b")
	for name, arrive := range map[string]func(update func(...Module)){
		"together":      func(update func(...Module)) { update(a, b) },
		"a comes first": func(update func(...Module)) { update(a); rest(); update(a, b) },
		"b comes first": func(update func(...Module)) { update(b); rest(); update(a, b) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld("A", "B")
			w.takeRight("a", "add the rule")
			scenario(t, w, func(update func(...Module), c *testCatalog) {
				arrive(update)
				rest()
				w.expectRunning(t, "b A+B/b")
				if s := c.Statuses()[0]; s.State != Failed || s.FailedStep != "overlap" || !strings.Contains(s.LastError, `"a/c" and "b/c" both write the condition Ready`) || !strings.Contains(s.LastError, "would not work: add the rule") {
					t.Errorf("the one without the right: %+v", s)
				}
				if name == "b comes first" && w.counters["stopped b, ran: true"] != 0 {
					t.Error("the running plugin was stopped")
				}
				w.takeRight("a", "") // the account gets it
				rest()
				w.expectRunning(t, "a A/a")
				w.silence(true)
				w.takeRight("a", "add the rule")
				rest()
				w.expectRunning(t, "a A/a")
				w.silence(false)
				rest()
				w.expectRunning(t, "b A+B/b")
				w.takeRight("b", "add another") // and none has what it needs
				rest()
				w.expectRunning(t, "a A/a")
				update(a)
				rest()
				w.expectRunning(t, "a A/a") // alone it runs, and waits for its right
			})
		})
	}
}

func TestAPluginThatCannotStartDisplacesNothing(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), c *testCatalog) {
		b := module("b", "A/b")
		update(b)
		for _, text := range []string{"broken", "A+Late/a", "A/slow", "A+A/a"} {
			update(module("a", text), b)
			rest()
			w.expectRunning(t, "b A/b")
		}
		if w.counters["stopped b, ran: true"] != 0 {
			t.Error("the running plugin was stopped")
		}
		update(module("a", "A+Late/a"), b)
		rest()
		w.serve("Late")
		rest()
		w.expectRunning(t, "a A+Late/a")
	})
}

func TestADisplacedPluginIsReplacedAsSoonAsItHasStopped(t *testing.T) {
	w := newWorld("A")
	scenario(t, w, func(update func(...Module), _ *testCatalog) {
		b := module("b", "A/b")
		update(b)
		stopping := make(chan struct{})
		w.stopping = stopping
		update(module("a", "A/a"), b)
		w.expectRunning(t, "b A/b")
		close(stopping)
		synctest.Wait() // no time passes
		w.expectRunning(t, "a A/a")
	})
}

// While the plugin that is displaced ends its last runs, the other one can change
// its mind.
func TestAClaimEndsWithItsReason(t *testing.T) {
	for name, change := range map[string]func(w *world, update func(...Module), b Module){
		"it is removed":              func(_ *world, update func(...Module), b Module) { update(b) },
		"it is broken":               func(_ *world, update func(...Module), b Module) { update(module("a", "broken"), b) },
		"it writes something else":   func(_ *world, update func(...Module), b Module) { update(module("a", "B/a"), b) },
		"its new code starts slowly": func(_ *world, update func(...Module), b Module) { update(module("a", "A/slow"), b) },
		"its kind is not served now": func(w *world, _ func(...Module), _ Module) { w.withdraw("C") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld("A", "B", "C")
			scenario(t, w, func(update func(...Module), c *testCatalog) {
				b := module("b", "A/b")
				update(b)
				stopping := make(chan struct{})
				w.stopping = stopping
				update(module("a", "A+C/a"), b)
				rest()
				w.expectRunning(t, "b A/b")
				if s := c.Statuses()[0]; s.State != Waiting || !strings.Contains(s.LastError, `waiting for plugin "b" to stop`) {
					t.Errorf("the other one: %+v", s)
				}
				change(w, update, b)
				rest()
				close(stopping)
				rest()
				want := []string{"b A/b"}
				if name == "it writes something else" {
					want = []string{"a B/a", "b A/b"}
				}
				w.expectRunning(t, want...)
			})
		})
	}
}

// a and c have nothing in common, and b something with each. Whatever the order, a
// and c run while a is there, and b without it.
func TestAPluginThatIsOverruledDisplacesNothing(t *testing.T) {
	modules := []Module{module("a", "A/a"), module("b", "A+B/b"), module("c", "B/c")}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			w := newWorld("A", "B")
			scenario(t, w, func(update func(...Module), _ *testCatalog) {
				var present []Module
				for i, n := range order {
					present = append(present, modules[n])
					update(present...)
					if i == 1 {
						rest()
					}
				}
				rest()
				w.expectRunning(t, "a A/a", "c B/c")
				update(modules[1:]...)
				rest()
				w.expectRunning(t, "b A+B/b")
				update(modules...)
				rest()
				w.expectRunning(t, "a A/a", "c B/c")
			})
		})
	}
}
