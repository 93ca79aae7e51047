package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
)

// noted is a capability that notes its calls.
type noted struct {
	mu     sync.Mutex
	calls  []string
	handle Handle
	fails  error // of Prepare
}

func (n *noted) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, fmt.Sprintf(format, args...))
}

func (n *noted) capability(name string) Capability {
	number := func(rev *dispatch.Revision) int {
		if rev == nil {
			return 0
		}
		return rev.Number
	}
	return Capability{
		Plugin: func(plugin string) PluginPart {
			n.note("%s plugin %s", name, plugin)
			return PluginPart{
				Prepare: func(_ context.Context, rev *Revision) (use Use, err error) {
					n.note("%s prepare %d", name, rev.Number)
					return func(with Running) any {
						n.note("%s use %d", name, rev.Number)
						if i := with.Informers[widgets]; i == nil || !i.HasSynced() || with.Access != nil || with.Recorder == nil || with.Logger == nil {
							n.note("%s has %+v", name, with)
						}
						return rev.Number
					}, n.fails
				},
				Granted: func() { n.note("%s granted", name) },
				Controller: func(h Handle) ControllerPart {
					n.note("%s controller", name)
					n.handle = h
					return ControllerPart{
						Hooks:   dispatch.Hooks{Changed: func(_ *dispatch.Revision, _, updated *object.Object) { n.note("%s changed %s", name, updated.Key()) }},
						Swapped: func(before, next *dispatch.Revision) { n.note("%s swapped %d %d", name, number(before), number(next)) },
						Stop:    func() { n.note("%s stop controller", name) },
						Ended:   func() { n.note("%s ended", name) },
					}
				},
				Stop: func() { n.note("%s stop", name) },
			}
		},
	}
}

// expect compares the calls since the last time, without those for events of objects.
func (n *noted) expect(t *testing.T, want ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	got := slices.DeleteFunc(n.calls, func(call string) bool { return strings.Contains(call, "changed") })
	if n.calls = nil; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Functions of capabilities are called in the order of the list, one that is missing is not, and a revision
// that is refused by one of them changes nothing for the others.
func TestCapabilitiesFollowTheLifeOfAPlugin(t *testing.T) {
	_, url := startRefusingServer(t) // has a widget
	r, n := newRunner(t, url, ""), &noted{}
	r.Capabilities = []Capability{
		n.capability("a"),
		{},
		{Plugin: func(string) PluginPart { return PluginPart{} }},
		{Plugin: func(string) PluginPart {
			return PluginPart{Controller: func(Handle) ControllerPart { return ControllerPart{} }}
		}},
		n.capability("b"),
	}
	start := func(number int, kind abi.Kind) error {
		rev := &Revision{
			Revision: events.Revision{Plugin: "p", Number: number, Digest: "d"},
			Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: kind.All()}}},
		}
		rev.Policy.Limits.Concurrency = 1
		return r.Start(t.Context(), rev, func() error { return nil })
	}
	n.fails = errors.New("no room")
	if err := start(1, widgets); !errors.Is(err, n.fails) {
		t.Fatal(err)
	}
	n.expect(t, "a plugin p", "b plugin p", "a prepare 1")
	n.fails = nil
	if err := start(2, widgets); err != nil {
		t.Fatal(err)
	}
	n.expect(t, "a plugin p", "b plugin p", "a prepare 2", "b prepare 2", "a use 2", "b use 2", "a controller", "b controller", "a swapped 0 2", "b swapped 0 2")
	if kept := n.handle.Kept(n.handle.Revision()); kept != 2 {
		t.Errorf("%v is kept for the revision", kept)
	}
	if o, exists := n.handle.Shown(object.Key{Namespace: "a", Name: "w"}); !exists || n.handle.Revision().Number != 2 || !n.handle.Leads() || !slices.Equal(n.handle.Keys(), []object.Key{o.Key()}) {
		t.Errorf("the handle has %v, %v", o, n.handle.Keys())
	}
	for o := range r.objectsOf(widgets) {
		r.plugins["p"].controllers["c"].Observe(o, o, false)
	}
	if !slices.Equal(n.calls, []string{"a changed a/w", "b changed a/w"}) {
		t.Errorf("the calls for an event are %q", n.calls)
	}
	if err := start(3, widgets); err != nil {
		t.Fatal(err)
	}
	n.expect(t, "a prepare 3", "b prepare 3", "a use 3", "b use 3", "a swapped 2 3", "b swapped 2 3")
	r.makeDue("p")
	n.expect(t, "a granted", "b granted")
	r.Stop("p", false)
	n.expect(t, "a stop controller", "b stop controller", "a ended", "b ended", "a stop", "b stop")
}
