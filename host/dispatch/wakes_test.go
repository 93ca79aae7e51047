package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
)

// wakes are the ways in which the gadget ns/g makes the widget ns/w due, with the question
// for each and the reason.
var wakes = map[string]struct {
	verb, reason string
	observe      func(f *fixture, old, updated *object.Object)
}{
	"owned": {"watch", "owned", func(f *fixture, old, updated *object.Object) { f.c.ObserveOwned(old, updated) }},
	"read":  {"get", "read", func(f *fixture, old, updated *object.Object) { f.c.ObserveRead(testKey, old, updated, false) }},
	"watched": {"watch", "read", func(f *fixture, old, updated *object.Object) {
		w := abi.Watch{By: abi.WatchByOwner}
		w.Kind = gadget
		f.c.Revision().Controller.Watches = []abi.Watch{w}
		f.follow()
		f.c.ObserveWatched(&w, fieldpath.Path{}, old, updated)
	}},
}

// eachWake runs a test of each way. With the change of the gadget, the key is due or not.
func eachWake(t *testing.T, test func(t *testing.T, f *fixture, verb, due string, change func(version int))) {
	for name, w := range wakes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.put(aWidget)
				test(t, f, w.verb, "add ns/w "+w.reason, func(version int) { w.observe(f, f.child(version-1), f.child(version)) })
			})
		})
	}
}

// answers answers what waits, as [Controller.Run] does.
func (f *fixture) answers() {
	f.t.Helper()
	select {
	case <-f.c.unanswered.due:
		f.c.answer(f.t.Context())
	default:
		f.t.Error("nothing waits for an answer")
	}
}

// expectNothingAsked checks that no answer is waited for.
func (f *fixture) expectNothingAsked() {
	f.t.Helper()
	select {
	case <-f.c.unanswered.due:
		f.t.Error("a change waits for an answer")
	default:
	}
	if u := &f.c.unanswered; u.size > 0 || u.order != nil || u.changes != nil {
		f.t.Errorf("%d changes wait, of %d questions", u.size, len(u.changes))
	}
}

func TestAChangeWakesIfTheAccountMaySeeTheObject(t *testing.T) {
	eachWake(t, func(t *testing.T, f *fixture, verb, due string, change func(int)) {
		for right, may := range map[string]bool{
			verb + " Gadget": true, verb + " Gadget ns": true, verb + " Gadget ns/g": true, "list Gadget": verb == "get",
			verb + " Gadget other": false, verb + " Gadget ns/other": false, verb + " Widget": false, "": false, "patch Gadget": false,
		} {
			f.as(right)
			want := []string{due}
			if !may {
				want = nil
			}
			change(50)
			f.expect()
			f.answers()
			f.expect(want...)
			change(52) // the answer is known
			f.expect(want...)
			f.expectNothingAsked()
		}
	})
}

// A run may have read the object by either verb.
func TestAnObjectIsAskedForUntilBothVerbsAreAnswered(t *testing.T) {
	for _, verb := range []string{"get", "list"} {
		f := newFixture(t)
		a := f.as(verb + " Gadget")
		for _, other := range []string{"get", "list"} {
			if other != verb && a.May(t.Context(), other, gadget, object.Key{Namespace: "ns", Name: "g"}) == nil {
				t.Errorf("%s is allowed", other)
			}
		}
		f.c.ObserveRead(testKey, nil, f.child(50), false)
		f.answers()
		f.expect("add ns/w read")
	}
}

func TestARightThatIsTakenAwayWakesNoMore(t *testing.T) {
	eachWake(t, func(t *testing.T, f *fixture, verb, due string, change func(int)) {
		a := f.as(verb + " Gadget")
		change(50)
		a.set()
		f.answers()
		f.expect()
		a.set(verb + " Gadget ns/g")
		change(52)
		f.answers()
		f.expect(due)
		a.set()
		change(54)
		f.answers()
		f.expect()
	})
}

func TestAnUnknownChangeWakesWithoutAQuestion(t *testing.T) {
	f := newFixture(t)
	f.as()
	f.c.ObserveRead(testKey, nil, nil, false)
	f.expect("add ns/w read")
	f.expectNothingAsked()
}

func TestAnObjectThatConcernsNoKeyIsNotAskedFor(t *testing.T) {
	f := newFixture(t)
	a := f.as()
	f.c.ObserveOwned(nil, patched(t, f.child(50), `{"metadata":{"ownerReferences":null}}`))
	wakes["watched"].observe(f, nil, f.child(50)) // whose owner is not there
	f.expectNothingAsked()
	a.expectAsked(t)
}

// An error of asking loses no change, however often it comes.
func TestAChangeWaitsUntilItIsAnswered(t *testing.T) {
	eachWake(t, func(t *testing.T, f *fixture, verb, due string, change func(int)) {
		f.c.LogLines = &budget{left: 1 << 20}
		a := f.as(verb + " Gadget")
		a.err = errors.New("the API server is away")
		var at []time.Duration
		began := time.Now()
		a.meanwhile = func() {
			if at = append(at, time.Since(began)); len(at) == 9 {
				a.mu.Lock()
				a.err = nil
				a.mu.Unlock()
			}
		}
		change(50)
		f.answers()
		f.expect(due)
		logs := len(f.c.LogLines.(*budget).bytes)
		s := time.Second
		if want := []time.Duration{0, s, 3 * s, 7 * s, 15 * s, 31 * s, 61 * s, 91 * s, 121 * s}; !slices.Equal(at, want) || logs != 8 {
			t.Errorf("asked after %s, %d lines", at, logs)
		}
		f.expectNothingAsked()
	})
}

// One question that is never answered delays the others by a pause.
func TestAQuestionThatFailsIsAskedAfterTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		a := f.as("get Gadget")
		fails := 3
		a.meanwhile = func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.err = nil
			if strings.HasSuffix(a.asked[len(a.asked)-1], "/bad") && fails > 0 {
				fails--
				a.err = errors.New("no")
			}
		}
		began := time.Now()
		for _, name := range []string{"bad", "b", "c"} {
			f.c.ObserveRead(object.Key{Name: name}, nil, patched(t, f.child(50), `{"metadata":{"name":"`+name+`"}}`), false)
		}
		f.answers()
		f.expect("add b read", "add c read", "add bad read")
		if took := time.Since(began); took != time.Second+time.Second+2*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

// What the answer is for is the revision that runs when it is there.
func TestAnAnswerIsThatOfTheRevisionThatRuns(t *testing.T) {
	for name, next := range map[string]func(verb string) Access{
		"none":         func(string) Access { return nil },
		"with a right": func(verb string) Access { return newAccess(verb + " Gadget") },
	} {
		t.Run(name, func(t *testing.T) {
			eachWake(t, func(t *testing.T, f *fixture, verb, due string, change func(int)) {
				for before, after := range map[Access]Access{newAccess(): next(verb), next(verb): newAccess()} {
					f.swap(func(r *Revision) { r.Access = newAccess() })
					f.log = nil
					swap := func() { f.swap(func(r *Revision) { r.Access = after }) }
					slow := newAccess(verb + " Gadget")
					slow.meanwhile = swap // while it is asked
					if before != nil {
						f.swap(func(r *Revision) { r.Access = before })
						change(50)
						swap() // before it is asked
						f.answers()
						f.expectDue(due, after)
					}
					f.swap(func(r *Revision) { r.Access = slow })
					change(52)
					f.answers()
					f.expectDue(due, after)
				}
			})
		})
	}
}

// Whether the account may see objects of such a kind cannot be asked any more.
func TestAChangeOfAKindThatIsNotFollowedAnyMoreIsDropped(t *testing.T) {
	eachWake(t, func(t *testing.T, f *fixture, _, _ string, change func(int)) {
		a := f.as()
		a.err = errors.New("it is not known how the kind is served")
		change(50)
		f.swap(func(r *Revision) {
			r.Controller.Owns, r.Controller.Reads, r.Controller.Watches = nil, nil, nil
		})
		f.log = nil
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		<-f.c.unanswered.due
		if f.c.answer(ctx); ctx.Err() != nil {
			t.Error("it is asked again and again")
		}
		f.expect()
		f.expectNothingAsked()
	})
}

// expectDue checks that the key is due if the account has a right.
func (f *fixture) expectDue(due string, a Access) {
	f.t.Helper()
	want := []string{due}
	if a != nil && a.(*testAccess).rights == nil {
		want = nil
	}
	f.log = slices.DeleteFunc(f.log, func(line string) bool { return strings.HasSuffix(line, " plugin") }) // of the swaps
	f.expect(want...)
}

func TestVeryManyKeysAreAskedForOnce(t *testing.T) {
	for right, due := range map[string]int{"get Gadget ns/g": 10_000, "": 0} {
		f := newFixture(t)
		a := f.as(right)
		updated := f.child(50)
		for i := range 10_000 {
			f.c.ObserveRead(object.Key{Namespace: "ns", Name: fmt.Sprint(i)}, nil, updated, true)
		}
		f.answers()
		if len(f.log) != due || due > 0 && !strings.HasPrefix(f.log[0], "add in the background ") {
			t.Errorf("%q: %d keys are due", right, len(f.log))
		}
		want := []string{"get Gadget ns/g", "list Gadget ns/g"}
		if due > 0 {
			want = want[:1]
		}
		a.expectAsked(t, want...)
		f.expectNothingAsked()
	}
}

// A plugin that writes what others have written must learn of it.
func TestChangesThatWaitTogetherAreThoseOfOthersIfOneIs(t *testing.T) {
	for name, c := range map[string]struct {
		versions []int // the second is the key's own
		want     string
	}{
		"own":               {[]int{52}, "add own ns/w owned after 0s"},
		"own twice":         {[]int{52, 52}, "add own ns/w owned after 0s"},
		"others and own":    {[]int{51, 52}, "add ns/w owned"},
		"own and others":    {[]int{52, 53}, "add ns/w owned"},
		"others, own twice": {[]int{51, 52, 52}, "add ns/w owned"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			f.run()
			f.log = nil
			f.as("watch Gadget")
			f.c.keys[testKey].own.add(writeOf(f.child(52)), false)
			for _, version := range c.versions {
				f.c.ObserveOwned(f.child(version-1), f.child(version))
			}
			f.answers()
			f.expect(c.want)
		})
	}
}

func writeOf(o *object.Object) effect.Write {
	return effect.Write{Verb: abi.VerbApply, Kind: o.Kind, Key: o.Key(), Object: o, UID: o.UID, ResourceVersion: o.ResourceVersion}
}

// No change is lost that there is no room for.
func TestWhatWaitsForAnswersIsBounded(t *testing.T) {
	for name, observe := range map[string]func(f *fixture, n int){
		"objects": func(f *fixture, n int) {
			f.c.ObserveRead(testKey, nil, patched(f.t, f.child(50), fmt.Sprintf(`{"metadata":{"name":"%d"}}`, n)), false)
		},
		"keys": func(f *fixture, n int) { f.c.ObserveRead(object.Key{Name: fmt.Sprint(n)}, nil, f.child(50), false) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			f.run()
			f.log = nil
			a := f.as()
			for n := range maxUnanswered {
				observe(f, n)
			}
			if f.c.unanswered.missed {
				t.Error("there was no room")
			}
			for n := range maxUnanswered {
				observe(f, n+maxUnanswered/2)
			}
			if u := &f.c.unanswered; !u.missed || u.size != maxUnanswered || len(u.changes) > maxUnanswered || len(u.order) != len(u.changes) {
				t.Errorf("%d wait, of %d questions", u.size, len(u.changes))
			}
			f.answers()
			f.expect("add ns/w resync") // without a right to any of them
			a.set("get Gadget")
			observe(f, 1)
			f.answers()
			if len(f.log) != 1 || !strings.HasSuffix(f.log[0], " read") {
				t.Errorf("what happened: %q", f.log)
			}
			f.expectNothingAsked()
		})
	}
}

// A change costs nothing more with no account, or with an answer that is known.
func TestAChangeCostsNoAllocation(t *testing.T) {
	f := newFixture(t)
	f.c.queue = idleQueue{testQueue{f}}
	f.put(aWidget)
	for name, a := range map[string]Access{"none": nil, "known": allowing{}} {
		f.c.Revision().Access = a
		before, after := f.child(50), f.child(51)
		for what, observe := range map[string]func(){
			"read":  func() { f.c.ObserveRead(testKey, before, after, false) },
			"owned": func() { f.c.ObserveOwned(before, after) },
		} {
			if n := testing.AllocsPerRun(100, observe); n > 0 {
				t.Errorf("%s, %s: %v allocations", name, what, n)
			}
		}
	}
}

type idleQueue struct{ testQueue }

func (idleQueue) Add(object.Key, queue.Cause) {}

// The only worker is needed by others.
func TestOthersRunWhileAnAnswerIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := map[string]int{}
		g := &namingGuest{ran: func(name string) { ran[name]++ }}
		a := newAccess("get Widget", "get Gadget")
		a.silent = func() bool { return strings.Contains(a.asked[len(a.asked)-1], "Gadget") }
		q := queue.New(queue.Config{})
		c := New(Config{Name: "c", Workers: 1, Cache: fullCache{}, Metrics: noMetrics{}, Logger: hclog.NewNullLogger()}, q,
			&Revision{Number: 1, Guest: g, Effects: g, Access: a, Controller: abi.Controller{Name: "c", For: widget.All()}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		f := &fixture{t: t}
		c.ObserveRead(object.Key{Name: "a"}, nil, f.child(1), false) // before it runs
		go func() {
			c.Run(ctx)
			close(ended)
		}()
		synctest.Wait()
		for range 10 {
			q.Add(object.Key{Name: "b"}, queue.Cause{Reason: abi.ReasonPrimary})
			c.ObserveRead(object.Key{Name: "a"}, nil, f.child(2), false)
			time.Sleep(time.Second) // fake time
		}
		synctest.Wait()
		if ran["a"] != 0 || ran["b"] != 10 {
			t.Errorf("runs: %v", ran)
		}
		c.SetWorkers(3)
		synctest.Wait()
		if c.started != 3 {
			t.Errorf("%d workers", c.started)
		}
		stop()
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("it waits for an answer after its end")
		}
		c.ObserveRead(object.Key{Name: "a"}, nil, f.child(3), false) // after its end
		c.ObserveRead(object.Key{Name: "a"}, nil, patched(t, f.child(3), `{"metadata":{"name":"other"}}`), false)
	})
}

// namingGuest reports the names of the objects that it is called for.
type namingGuest struct {
	noTurns
	testPlugin
	ran func(name string)
}

func (g *namingGuest) Reconcile(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
	request, err := abi.DecodeRequest(slices.Concat(call.Request...))
	if err != nil {
		return sandbox.Return{}, err
	}
	o, err := object.Parse(request.Object, abi.Kind{})
	if err != nil {
		return sandbox.Return{}, err
	}
	g.ran(o.Name)
	return returns(&abi.Result{})
}
