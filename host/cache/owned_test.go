package cache

import (
	"fmt"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

// owners returns the metadata of an object whose controller has a UID; others are owners of it,
// too, and no controllers.
func owners(uid string) []string {
	const other = `{"apiVersion":"v1","kind":"A","name":"a","uid":"u9"}`
	return []string{fmt.Sprintf(`"ownerReferences":[%s,{"apiVersion":"v1","kind":"A","name":"b","uid":%q,"controller":true}]`, other, uid)}
}

// listed reads the names of a list of widgets.
func listed(t *testing.T, r *Run, l Reading) (all []string) {
	t.Helper()
	found, err := r.List(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range found.Items {
		all = append(all, o.Name)
	}
	return all
}

func TestAListOfOwnedObjectsHasThoseOfTheController(t *testing.T) {
	p := newPeer(t)
	p.put("a", "mine", owners("u1")...)
	p.put("a", "mine-too", append(owners("u1"), `"labels":{"app":"web"}`)...)
	p.put("a", "theirs", owners("u2")...)
	p.put("a", "nobodys")
	p.put("a", "only-owned", `"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"b","uid":"u1","controller":false}]`)
	p.put("b", "elsewhere", owners("u1")...)
	c, _ := edgeCache(t, p)
	run := begin(c, me, &OwnWrites{})
	defer run.Abandon()
	l := widgets("a", nil)
	l.Controller = "u1"
	if got := listed(t, run, l); !slices.Equal(got, []string{"mine", "mine-too"}) {
		t.Errorf("listed: %v", got)
	}
	page := l
	page.Limit = 1
	if got := listed(t, run, page); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("the first page: %v", got)
	}
	page.After = object.Key{Namespace: "a", Name: "mine"}
	if got := listed(t, run, page); !slices.Equal(got, []string{"mine-too"}) {
		t.Errorf("the second page: %v", got)
	}
	l.Selector = selector(t, "app=web")
	if got := listed(t, run, l); !slices.Equal(got, []string{"mine-too"}) {
		t.Errorf("with labels: %v", got)
	}
	l.Selector, l.Fields = nil, fieldpath.Selector{{Path: fieldPaths(t, "metadata.name")[0], Value: "mine-too", Not: true}}
	if got := listed(t, run, l); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("with fields: %v", got)
	}
	l.Fields, l.Namespaces = nil, nil
	if got := listed(t, run, l); !slices.Equal(got, []string{"mine", "mine-too", "elsewhere"}) {
		t.Errorf("of all namespaces: %v", got)
	}
}

func TestAListOfOwnedObjectsWakesItsReaders(t *testing.T) {
	for _, c := range []struct {
		name   string
		part   string // that is read; "" for all
		change func(*peer)
		wakes  bool
	}{
		{"one is created", "", func(p *peer) { p.put("a", "new", owners("u1")...) }, true},
		{"one is adopted", "", func(p *peer) { p.put("a", "nobodys", owners("u1")...) }, true},
		{"one is adopted, of which something else is read", "/spec", func(p *peer) { p.put("a", "nobodys", owners("u1")...) }, true},
		{"one is released", "", func(p *peer) { p.put("a", "mine") }, true},
		{"one is released, of which something else is read", "/spec", func(p *peer) { p.put("a", "mine") }, true},
		{"one is taken over", "/spec", func(p *peer) { p.put("a", "mine", owners("u2")...) }, true},
		{"one is only owned any more", "/spec", func(p *peer) {
			p.put("a", "mine", `"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"b","uid":"u1","controller":false}]`)
		}, true},
		{"one changes", "", func(p *peer) { p.put("a", "mine", append(owners("u1"), `"generation":2`)...) }, true},
		{"one changes where nothing is read", "/spec", func(p *peer) { p.put("a", "mine", append(owners("u1"), `"generation":2`)...) }, false},
		{"one is deleted", "", func(p *peer) { p.remove("a", "mine") }, true},
		{"one of another controller", "", func(p *peer) { p.put("a", "theirs", append(owners("u2"), `"generation":2`)...) }, false},
		{"one of no controller", "", func(p *peer) { p.put("a", "nobodys", `"generation":2`) }, false},
		{"one of another namespace", "", func(p *peer) { p.put("b", "new", owners("u1")...) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t)
			p.put("a", "mine", owners("u1")...)
			p.put("a", "theirs", owners("u2")...)
			p.put("a", "nobodys")
			cache, s := edgeCache(t, p)
			run := begin(cache, me, &OwnWrites{})
			l := widgets("a", nil)
			l.Controller = "u1"
			if c.part != "" {
				set, err := fieldpath.Parse([]string{c.part})
				if err != nil {
					t.Fatal(err)
				}
				l.Part = set
			}
			listed(t, run, l)
			run.Commit()
			c.change(p)
			p.mu.Lock()
			last := p.log[len(p.log)-1].object
			p.mu.Unlock()
			o, err := object.Parse([]byte(last), widget)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if c.wakes {
				want = []string{"me by " + o.Key().String()}
			}
			s.expect(p, want...)
		})
	}
}

// Among very many objects, those of a controller are found by an index after the first list.
func TestAListOfOwnedObjectsIsIndexed(t *testing.T) {
	p := newPeer(t)
	for i := range 3 * worthIndexing {
		p.put("a", fmt.Sprint("n", i), owners(fmt.Sprint("u", i/2))...)
	}
	c, _ := edgeCache(t, p)
	run := begin(c, me, &OwnWrites{})
	defer run.Abandon()
	looked := 0
	l := widgets("a", nil)
	l.Controller, l.Look = "u7", func(cost int) { looked += cost }
	for _, most := range []int{1 << 30, 50} {
		looked = 0
		if got := listed(t, run, l); !slices.Equal(got, []string{"n14", "n15"}) || looked > most {
			t.Errorf("listed: %v, looked at %d", got, looked)
		}
		run.Commit()
		run = begin(c, me, &OwnWrites{})
	}
}
