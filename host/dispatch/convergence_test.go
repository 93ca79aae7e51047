package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// request is the time that a request takes.
func (w *world) request() {
	w.mu.Lock()
	d := time.Duration(w.random.IntN(20)) * time.Millisecond
	w.mu.Unlock()
	time.Sleep(d) // fake time
}

// write sends a write, which takes place or not, and whose reply arrives or not.
// failure is nil if it does both. It is for the object with a uid, if that is not "".
func (w *world) write(verb string, of id, uid string, how func(*entity)) (report effect.Report, failure *effect.Failure) {
	w.request()
	defer w.request()
	w.mu.Lock()
	defer w.mu.Unlock()
	takesPlace := true
	if w.chaos && w.random.IntN(3) == 0 {
		failure = &effect.Failure{EffectFailure: abi.EffectFailure{
			Verb: verb, Class: abi.ClassRetry, Reason: "Chaos",
			Ref: abi.Ref{APIVersion: of.kind.APIVersion, Kind: of.kind.Kind, Namespace: "ns", Name: of.key.Name},
		}}
		later := time.Duration(w.random.IntN(2000)+1) * time.Millisecond
		switch w.random.IntN(4) {
		case 0:
			failure.Conflict, takesPlace = true, false
		case 1:
			failure.Later, takesPlace = later, false
		case 2:
			failure.Uncertain, takesPlace = true, w.random.IntN(2) == 0
		case 3:
			failure.Uncertain, failure.Later, takesPlace = true, later, w.random.IntN(2) == 0
		}
	}
	before := w.objects[of]
	if before == nil && verb != abi.VerbApply || before != nil && uid != "" && before.uid != uid { // gone meanwhile
		return report, &effect.Failure{EffectFailure: abi.EffectFailure{Verb: verb, Class: abi.ClassRetry, Reason: "Superseded"}, Conflict: true}
	}
	if !takesPlace {
		return report, failure
	}
	after := w.change(of, how)
	if failure != nil {
		return report, failure
	}
	wrote := effect.Write{Verb: verb, Kind: of.kind, Key: of.key}
	if after != nil {
		wrote.Object = after.object()
		wrote.UID, wrote.ResourceVersion = types.UID(after.uid), fmt.Sprint(after.version)
	} else {
		wrote.UID, wrote.ResourceVersion = types.UID(before.uid), fmt.Sprint(before.version)
	}
	report.Writes = []effect.Write{wrote}
	if of.kind == widget {
		report.Primary, report.Before = wrote.Object, before.object()
	}
	return report, nil
}

// The effects of the controller. Those of a primary that was replaced do nothing.
type worldEffects struct {
	Effects
	*world
}

func (e worldEffects) primary(t effect.Target) (of id, live *entity) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of = id{widget, t.Object.Key()}
	if live = e.objects[of]; live != nil && live.uid != string(t.Object.UID) {
		live = nil
	}
	return of, live
}

func (e worldEffects) HasFinalizer(t effect.Target) bool { return len(t.Object.Finalizers) > 0 }

func (e worldEffects) EnsureFinalizer(_ context.Context, t effect.Target) (effect.Report, *effect.Failure) {
	of, live := e.primary(t)
	switch {
	case live == nil || live.deleting:
		return effect.Report{}, &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry, Reason: "Superseded"}, Conflict: true}
	case live.finalizer:
		return effect.Report{}, nil
	}
	return e.write(abi.VerbFinalizer, of, live.uid, func(o *entity) { o.finalizer = true })
}

func (e worldEffects) RemoveFinalizer(_ context.Context, t effect.Target) (effect.Report, *effect.Failure) {
	of, live := e.primary(t)
	e.cleansUp(t.Object.UID)
	if live == nil {
		return effect.Report{}, nil
	}
	return e.write(abi.VerbFinalizer, of, live.uid, func(o *entity) { o.finalizer = false })
}

func (e worldEffects) PerformIntents(_ context.Context, t effect.Target, in *abi.Result) (report effect.Report, failure *effect.Failure) {
	of, live := e.primary(t)
	add := func(r effect.Report, f *effect.Failure) bool {
		report.Writes = append(report.Writes, r.Writes...)
		if r.Primary != nil {
			report.Primary = r.Primary
		}
		failure = f
		return f == nil
	}
	if live == nil && !t.Gone {
		return report, &effect.Failure{EffectFailure: abi.EffectFailure{Class: abi.ClassRetry, Reason: "Superseded"}, Conflict: true}
	}
	if _, value, ok := strings.Cut(string(in.Patch), `"copied":"`); ok {
		note, _, _ := strings.Cut(value, `"`)
		if live.copied != note && !add(e.write(abi.VerbPatch, of, live.uid, func(o *entity) { o.copied = note })) {
			return report, failure
		}
	}
	for _, intent := range in.Apply {
		_, name, _ := strings.Cut(string(intent.Object), `"name":"`)
		name, _, _ = strings.Cut(name, `"`)
		child := id{gadget, object.Key{Namespace: "ns", Name: name}}
		if _, exists := e.has(child); !exists && !add(e.write(abi.VerbApply, child, "", func(o *entity) { o.owner = live })) {
			return report, failure
		}
	}
	for _, ref := range in.Delete {
		child := id{gadget, object.Key{Namespace: "ns", Name: ref.Name}}
		if _, exists := e.has(child); exists && !add(e.write(abi.VerbDelete, child, "", nil)) {
			return report, failure
		}
	}
	return report, nil
}

func (w *world) has(of id) (*entity, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.objects[of]
	return e, ok
}

func (e worldEffects) WriteStatus(_ context.Context, t effect.Target, want effect.Status) (effect.Report, *effect.Failure) {
	of, live := e.primary(t)
	status := strings.NewReplacer(`"`, "").Replace(string(want.Patch))
	for _, c := range want.Set {
		status += " " + c.Type + "=" + c.Status + "/" + c.Reason
	}
	if live == nil || live.status == status {
		return effect.Report{}, nil
	}
	return e.write(abi.VerbStatus, of, live.uid, func(o *entity) { o.status = status })
}

func (worldEffects) Release(context.Context, effect.Target, bool) (r effect.Report, f *effect.Failure) {
	return r, f
}

func (worldEffects) ReleaseGone(context.Context, *abi.Controller, object.Key) (r effect.Report, f *effect.Failure) {
	return r, f
}
func (worldEffects) EmitEvent(effect.Target, *abi.Event) {}
func (worldEffects) Forget(object.Hash)                  {}

func (worldEffects) Live(context.Context, abi.Kind, object.Key) (*object.Object, error) {
	return nil, nil
}

// worldAccess is an account that may do everything, whose answers are forgotten at random.
type worldAccess struct{ *world }

func (a worldAccess) Known(string, abi.Kind, object.Key) (allowed, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known = a.random.IntN(3) > 0
	return known, known
}

func (a worldAccess) May(context.Context, string, abi.Kind, object.Key) error {
	a.request()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.chaos && a.random.IntN(3) == 0 {
		return errors.New("chaos")
	}
	return nil
}

type worldMetrics struct {
	noMetrics
	*world
}

func (m worldMetrics) Vanished(end outcome.LateCleanup) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleaned[end]++
}

func (worldMetrics) Wrote(string) {}
func (worldMetrics) Looped()      {}

// plan is what others do.
type plan struct {
	seed      uint64
	as        bool // an account
	finalizer bool
	ledger    bool // the controller has it, and asks for objects that are gone
	gapless   bool
	steps     []step
}

type step struct {
	action, widget string
	want           int
	pause          time.Duration
}

func drawPlan(t *rapid.T, more ...string) plan {
	actions := append([]string{"scale", "note", "status", "delete", "lose a child", "swap", "resync"}, more...)
	pauses := []time.Duration{0, time.Millisecond, 15 * time.Millisecond, 150 * time.Millisecond, 2 * time.Second}
	p := plan{seed: rapid.Uint64().Draw(t, "seed"), as: rapid.Bool().Draw(t, "as"), finalizer: true}
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		p.steps = append(p.steps, step{
			action: rapid.SampledFrom(actions).Draw(t, "action"),
			widget: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "widget"),
			want:   rapid.IntRange(0, 3).Draw(t, "want"),
			pause:  rapid.SampledFrom(pauses).Draw(t, "pause"),
		})
	}
	return p
}

// Whatever fails, and however late the informer is: in the end the last run of each
// object saw its last state, and there are as many children as wanted.
func TestEveryObjectConverges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawPlan(r)
		var problems []string
		synctest.Test(t, func(*testing.T) { problems = p.run() })
		if len(problems) > 0 {
			r.Fatal(strings.Join(problems, "\n"))
		}
	})
}

// However late the informer is, and whatever fails: each object that is deleted in spite of its
// finalizer is cleaned up once.
func TestEveryObjectThatVanishesIsCleanedUpOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawPlan(r, "vanish", "vanish")
		p.gapless = true
		var problems []string
		synctest.Test(t, func(*testing.T) { problems = p.run() })
		if len(problems) > 0 {
			r.Fatal(strings.Join(problems, "\n"))
		}
	})
}

// run runs a controller while others do what is planned, and returns what is wrong
// at the end.
func (p plan) run() []string {
	w := &world{
		random: rand.New(rand.NewPCG(p.seed, 0)), chaos: true,
		objects: map[id]*entity{}, shown: map[id]*object.Object{}, own: map[id]ownWrite{}, ahead: map[object.Key]int{}, saw: map[object.Key]string{},
		gapless: p.gapless, cleaned: map[outcome.LateCleanup]int{},
	}
	var longest time.Duration
	w.c = New(Config{
		Plugin: "p", Name: "c", Workers: 2, Cache: worldCache{world: w},
		Metrics: worldMetrics{world: w}, Logger: hclog.NewNullLogger(),
		Events: events.Func(func(e events.Event) {
			if ended, ok := e.(events.RunEnded); ok {
				w.mu.Lock()
				longest = max(longest, ended.Duration)
				w.model.ended(ended)
				w.mu.Unlock()
			}
		}),
	}, queue.New(queue.Config{}), &Revision{Guest: w, Effects: worldEffects{world: w}, Controller: abi.Controller{
		Name: "c", For: widget.All(), Owns: abi.AllOf(gadget), Finalizer: p.finalizer,
	}})
	if p.ledger {
		w.keepLedger()
	}
	if p.as {
		w.c.Revision().Access = worldAccess{w}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { w.c.Run(ctx) })
	defer ended.Wait()
	defer cancel()
	for n, s := range p.steps {
		w.step(n, s)
		time.Sleep(s.pause) // fake time
	}
	w.mu.Lock()
	w.chaos = false
	w.mu.Unlock()
	time.Sleep(2 * time.Hour) // fake time, for the backoffs
	problems := w.problems()
	if longest > 2*time.Second {
		problems = append(problems, fmt.Sprintf("a run took %s", longest))
	}
	return problems
}

// step performs the step of that number.
func (w *world) step(n int, s step) {
	of := id{widget, object.Key{Namespace: "ns", Name: s.widget}}
	switch s.action {
	case "swap":
		next := *w.c.Revision()
		next.Number++
		next.Digest = fmt.Sprint(s.want % 2)
		if next.Access == nil && s.want == 0 {
			next.Access = worldAccess{w}
		} else if s.want == 1 {
			next.Access = nil
		}
		w.c.Swap(&next, []object.Key{of.key})
		return
	case "resync":
		w.c.Resync([]object.Key{of.key})
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch live := w.objects[of]; {
	case live == nil || s.action == "scale":
		w.change(of, func(e *entity) { e.want, e.generation = s.want, e.generation+1 })
	case s.action == "note":
		w.change(of, func(e *entity) { e.note = fmt.Sprint(n) })
	case s.action == "status":
		w.change(of, func(e *entity) { e.status = fmt.Sprint(n) })
	case s.action == "remove the finalizer":
		w.change(of, func(e *entity) { e.finalizer = false })
	case s.action == "vanish":
		if live.finalizer && !live.deleting {
			w.vanished++
			w.change(of, nil)
		}
	case s.action == "delete":
		w.change(of, func(e *entity) { e.deleting, e.generation = true, e.generation+1 })
	default:
		for child, e := range w.objects {
			if child.kind == gadget && e.owner.uid == live.uid {
				w.change(child, nil)
				return
			}
		}
	}
}

// problems returns what is wrong when nothing happens any more.
func (w *world) problems() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	children := map[string]int{} // by uid of the owner
	for of, e := range w.objects {
		if of.kind == gadget {
			children[e.owner.uid]++
		}
	}
	if succeeded := w.cleaned[outcome.LateCleanupSucceeded]; w.gapless && (succeeded != w.vanished || len(w.cleaned) > 1) {
		add("of %d widgets that have vanished, these were cleaned up: %v", w.vanished, w.cleaned)
	}
	for of, e := range w.objects {
		if of.kind == gadget && w.gapless {
			if owner := w.objects[e.owner.id]; owner == nil || owner.uid != e.owner.uid {
				add("the owner of %s is gone", of.key)
			}
		}
		if of.kind != widget {
			continue
		}
		if children[e.uid] != e.want {
			add("%s has %d children and wants %d", of.key, children[e.uid], e.want)
		}
		if want := state(e.object(), children[e.uid]); w.saw[of.key] != want {
			add("the last run of %s saw %s, and it is %s", of.key, w.saw[of.key], want)
		}
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	all = append(all, w.model.problems(w)...)
	for key, s := range w.c.keys {
		left := s.left()
		if w.objects[id{widget, key}] == nil || left.parked != nil || len(left.uncertain) > 0 || len(left.deferred) > 0 || s.running {
			add("%s is remembered: %+v", key, s)
		}
	}
	return all
}
