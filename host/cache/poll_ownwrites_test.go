package cache

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"

	"github.com/thole-dev/thole/host/cache/edges"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/object"
)

// pollModel is an API that is polled, and a plugin that writes to it. A list begins, is made
// of the objects at some later time, and ends at a later one still.
type pollModel struct {
	t    *rapid.T
	meta func(name string, state, created int) string // uid and versions, if the API has any

	*Informer
	own     *OwnWrites
	objects map[string]*object.Object
	created map[string]int // by name: how often it was created
	state   int            // is counted with each change
	log     map[string][]*object.Object
	at      map[string]int // by name: how much of its log the plugin must see

	begun  map[string]int // by name: at of the list in flight
	made   []any          // its objects
	inList map[string]int // and how much of each log these are
	number string         // of the list in flight, "" if there is none
}

func newPollModel(t *rapid.T, meta func(string, int, int) string) *pollModel {
	m := &pollModel{t: t, meta: meta, own: &OwnWrites{}, objects: map[string]*object.Object{}, created: map[string]int{}, log: map[string][]*object.Object{}, at: map[string]int{}}
	c := &Cache{config: Config{}.withDefaults(), edges: edges.New(edges.Config{})}
	i := &informer{cache: c, scope: scope.All(polled), store: newStore(), edges: c.edges.Kind(polled), ctx: context.Background()}
	i.health = newHealth(logtest.New(hclog.Error).Logger, func() {})
	i.resource.Store(&object.Resource{Kind: polled, Namespaced: true, Polled: true})
	i.pollsInto(&pollCounts{})
	m.Informer = &Informer{scope: i.scope, parts: []part{{informer: i}}}
	m.begin()
	m.makeList()
	m.end()
	return m
}

// set changes an object, or deletes it if it exists and exists is false.
func (m *pollModel) set(name string, exists bool) *object.Object {
	before := m.objects[name]
	m.state++
	if delete(m.objects, name); exists {
		if before == nil {
			m.created[name]++
		}
		o, err := object.Parse([]byte(sampleText(name, m.meta(name, m.state, m.created[name]), fmt.Sprintf(`,"state":%d`, m.state))), polled)
		if err != nil {
			m.t.Fatal(err)
		}
		m.objects[name] = o
	}
	m.log[name] = append(m.log[name], m.objects[name])
	return before
}

func (m *pollModel) write(name string) {
	m.set(name, true)
	m.own.Wrote(m.Informer, m.objects[name])
	m.at[name] = len(m.log[name])
}

func (m *pollModel) delete(name string) {
	if m.objects[name] == nil {
		return
	}
	before := m.set(name, false)
	m.own.Deleted(m.Informer, before.Key(), before.UID, before.ResourceVersion)
	m.at[name] = len(m.log[name])
}

func (m *pollModel) begin() {
	if m.number == "" {
		m.number = fmt.Sprint(m.parts[0].poller.counts.begun.Add(1))
		m.made, m.inList, m.begun = nil, nil, maps.Clone(m.at)
	}
}

func (m *pollModel) makeList() {
	if m.number == "" {
		return
	}
	m.made, m.inList = nil, map[string]int{}
	for _, o := range m.objects {
		m.made = append(m.made, o)
	}
	for name, log := range m.log {
		m.inList[name] = len(log)
	}
}

func (m *pollModel) end() {
	if m.number == "" || m.inList == nil {
		return
	}
	if err := m.parts[0].store.Replace(m.made, m.number); err != nil {
		m.t.Fatal(err)
	}
	for name, n := range m.inList {
		if m.begun[name] == m.at[name] { // nothing was written since it began
			m.at[name] = n
		}
	}
	m.number = ""
}

// check fails the test if the plugin sees a state of an object from before its own last write,
// or from before a list that began after that.
func (m *pollModel) check() {
	for name, log := range m.log {
		got := m.own.Get(m.Informer, keyOf(name))
		allowed := log[max(0, m.at[name]-1):]
		if m.at[name] == 0 {
			allowed = append(slices.Clone(allowed), nil)
		}
		if !slices.ContainsFunc(allowed, func(o *object.Object) bool { return stateOf(o) == stateOf(got) }) {
			m.t.Fatalf("%s is %v, and the plugin has seen %v", name, stateOf(got), stateOf(allowed[0]))
		}
	}
}

// Whatever the versions of the API are, a plugin never sees what was before its own write.
func TestOwnWritesToAPolledKindAreNotUndone(t *testing.T) {
	for name, meta := range map[string]func(name string, state, created int) string{
		"neither uid nor version": func(string, int, int) string { return "" },
		"no version":              func(name string, _, created int) string { return fmt.Sprintf(`,"uid":"%s%d"`, name, created) },
		"the same version": func(name string, _, created int) string {
			return fmt.Sprintf(`,"uid":"%s%d","resourceVersion":"1"`, name, created)
		},
		"versions without order": func(name string, state, created int) string {
			return fmt.Sprintf(`,"uid":"%s%d","resourceVersion":"v%d"`, name, created, state)
		},
		"numbers without order": func(name string, state, created int) string {
			return versionedAs(name, created, 1+state*7919%1009)
		},
		"versions":           func(name string, state, created int) string { return versionedAs(name, created, state) },
		"versions of no uid": func(_ string, state, _ int) string { return fmt.Sprintf(`,"resourceVersion":"%d"`, state) },
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := newPollModel(t, meta)
				drawName := rapid.SampledFrom([]string{"a", "b"})
				one := func(do func(string)) func(*rapid.T) {
					return func(t *rapid.T) { do(drawName.Draw(t, "name")) }
				}
				t.Repeat(map[string]func(*rapid.T){
					"write": one(m.write), "delete": one(m.delete),
					"other writes": one(func(name string) { m.set(name, true) }), "other deletes": one(func(name string) { m.set(name, false) }),
					"begin": func(*rapid.T) { m.begin() }, "list": func(*rapid.T) { m.makeList() }, "end": func(*rapid.T) { m.end() },
					"": func(*rapid.T) { m.check() },
				})
				m.makeList()
				m.end()
				m.begin()
				m.makeList()
				m.end()
				if m.check(); m.own.Len() != 0 {
					t.Fatalf("after a list that began later %d writes are kept", m.own.Len())
				}
				for name, o := range m.objects {
					if got := m.own.Get(m.Informer, keyOf(name)); got == nil || string(got.Raw) != string(o.Raw) {
						t.Fatalf("%s is %v, want %v", name, stateOf(got), stateOf(o))
					}
				}
			})
		})
	}
}

func versionedAs(name string, created, state int) string {
	return fmt.Sprintf(`,"uid":"%s%d","resourceVersion":"%d"`, name, created, state)
}

// The informers of a kind number their lists together: a write that one of them has not shown
// yet may be read through another one.
func TestAnOwnWriteIsPassedByAListOfAnotherInformer(t *testing.T) {
	p := newPollPeer(t)
	c := p.open(Config{})
	first := p.acquire(c, scope.Scope{Kind: polled, Namespaces: []string{"ns"}})
	for range 5 {
		p.after(c, interval)
	}
	o, err := object.Parse([]byte(p.put("a", "", "")), polled)
	if err != nil {
		t.Fatal(err)
	}
	var own OwnWrites
	own.Wrote(first, o)
	p.remove("a")
	if got := own.Get(first, keyOf("a")); got != o {
		t.Errorf("before a list: %v", stateOf(got))
	}
	second := p.acquire(c, scope.All(polled))
	if got := own.Get(second, keyOf("a")); got != nil || own.Len() != 0 {
		t.Errorf("after a list: %v, %d", stateOf(got), own.Len())
	}
}
