package cache

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/thole-dev/thole/host/object"
)

// listReader is an owner that has listed the objects with the label l=x.
type listReader struct {
	items []*object.Object
	told  bool // since then
}

// Whatever is written, and whatever a list goes past: when the informer has seen
// everything, an owner whose list is different now has had an event or was woken.
func TestNoOwnerMissesThatWhatItHasReadIsDifferent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		server, own := newLateInformer(t), &OwnWrites{}
		owners := []string{"p/1", "p/2"}
		readers := map[string]*listReader{"p/other": {told: true}}
		for _, o := range owners {
			readers[o] = &listReader{told: true}
		}
		server.store.missed = func(o Owner) { readers[o.Controller].told = true }
		hasX := func(o *object.Object) bool { return o != nil && o.Labels["l"] == "x" }
		server.store.subscribe(&handler{event: func(e Event) {
			for _, r := range readers {
				r.told = r.told || hasX(e.Old) || hasX(e.New)
			}
		}})
		server.woken = func(o Owner) { readers[o.Controller].told = true }
		read := func(owner string, late func()) {
			list := server.read(Owner{Controller: owner}, own)
			readers[owner] = &listReader{}
			late()
			readers[owner].items = list()
		}
		actions := server.actions(own, []string{"a", "b", "c"}, func(string) {})
		actions["read"] = func(t *rapid.T) { read(rapid.SampledFrom(owners).Draw(t, "owner"), func() {}) }
		// The informer lists again before it is known what the owner has read.
		actions["late read"] = func(t *rapid.T) { read(rapid.SampledFrom(owners).Draw(t, "owner"), server.relist) }
		actions[""] = func(t *rapid.T) {
			for _, b := range server.store.feed.take() {
				b.deliver()
			}
			if server.seen < len(server.log) {
				return
			}
			items := server.read(Owner{Controller: "p/other"}, own)()
			for owner, r := range readers {
				if !r.told && !slices.Equal(items, r.items) {
					t.Fatalf("%s was not told that its list of %d is one of %d", owner, len(r.items), len(items))
				}
			}
		}
		t.Repeat(actions)
	})
}

func TestOwnersThatKnowWhatTheInformerShowsAreForgotten(t *testing.T) {
	server := newLateInformer(t)
	for n := range 10 * minSweep {
		o := server.put("a", "x")
		server.store.remember(Owner{Controller: fmt.Sprint(n)}, o.ResourceVersion)
		server.receive()
	}
	if n := len(server.store.ahead.owners); n > 2*minSweep {
		t.Errorf("%d owners are remembered", n)
	}
}

func TestAListWakesNobodyForWhatTheInformerHasShown(t *testing.T) {
	server := newLateInformer(t)
	server.store.missed = func(o Owner) { t.Errorf("woken: %v", o) }
	server.store.remember(Owner{Controller: "p/c"}, server.put("a", "x").ResourceVersion)
	server.receive()
	server.put("b", "x")
	server.relist()
}

// A kind that is not served any more has no objects.
func TestOwnersAreWokenWhenTheKindIsGone(t *testing.T) {
	server := newLateInformer(t)
	var missed []Owner
	server.store.missed = func(o Owner) { missed = append(missed, o) }
	server.store.remember(Owner{Controller: "p/c"}, server.put("a", "x").ResourceVersion)
	if server.store.clear(); len(missed) != 1 {
		t.Errorf("woken: %v", missed)
	}
}

// The object that a run has read is created and deleted while the watch shows nothing.
func TestARunIsWokenForWhatAListGoesPast(t *testing.T) {
	for name, read := range map[string]func(*Run) error{
		"get":  func(r *Run) error { _, err := r.Get(widget, keyOf("new"), whole); return err },
		"list": func(r *Run) error { _, err := r.List(Reading{Kind: widget, Namespaces: []string{"ns"}}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			woken := make(chan Owner, 10)
			c := open(t, p, Config{}, Hooks{Wake: func(o Owner, _ Event, _ bool) { woken <- o }})
			i := acquire(t, c)
			p.next(isWatchList)
			p.silence(true)
			p.put("ns", "new")
			o, err := object.Parse([]byte(p.objects["ns/new"]), widget)
			if err != nil {
				t.Fatal(err)
			}
			var own OwnWrites
			own.Wrote(i, o)
			run := begin(c, me, &own)
			if err := read(run); err != nil {
				t.Fatal(err)
			}
			run.Commit()
			p.remove("ns", "new")
			p.silence(false)
			p.send("ERROR", status(http.StatusGone, metav1.StatusReasonExpired))
			if got := receive(t, woken); got != me {
				t.Errorf("woken: %v", got)
			}
		})
	}
}

// A list that is behind goes past some of what an owner knows.
func TestAnOwnerIsWokenAgainForWhatALaterListGoesPast(t *testing.T) {
	server := newLateInformer(t)
	woken := 0
	server.store.missed = func(Owner) { woken++ }
	for _, name := range []string{"a", "b", "c"} {
		server.store.remember(Owner{}, server.put(name, "x").ResourceVersion)
	}
	for _, step := range []struct{ list, woken int }{{1, 1}, {2, 2}, {3, 3}, {3, 3}} {
		if server.relistAt(step.list); woken != step.woken {
			t.Errorf("after a list of %d objects: woken %d times, want %d", step.list, woken, step.woken)
		}
	}
}

// A reply may be slow, so that the informer has listed many times when it comes.
func TestAnOwnerIsWokenForWhatEarlierListsWentPast(t *testing.T) {
	server := newLateInformer(t)
	first := server.put("a", "x").ResourceVersion
	server.relist()
	shown := server.put("b", "x").ResourceVersion
	server.receive()
	second := server.put("a", "y").ResourceVersion
	for range 2 * maxSpans {
		server.relist() // finds the same
	}
	for range maxSpans - 3 {
		server.put("a", "x")
		server.receive()
		server.put("a", "x")
		server.relist()
	}
	for version, missed := range map[string]bool{first: true, second: true, shown: false} {
		if got := server.store.remember(Owner{}, version); got != missed {
			t.Errorf("a list went past %s: %v", version, got)
		}
	}
	for range 10 * maxSpans {
		server.put("a", "x")
		server.receive()
		server.put("a", "x")
		server.relist()
	}
	if n := len(server.store.ahead.skipped); n != maxSpans {
		t.Errorf("%d lists are remembered", n)
	}
}

func TestAnOwnerIsWokenForWhatTheFirstListGoesPast(t *testing.T) {
	s := newStore()
	woken := 0
	s.missed = func(Owner) { woken++ }
	s.remember(Owner{}, "5")
	if _ = s.Replace(nil, "6"); woken != 1 || !s.remember(Owner{}, "5") {
		t.Errorf("woken %d times", woken)
	}
}
