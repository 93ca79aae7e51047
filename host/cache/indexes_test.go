package cache

import (
	"fmt"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

func TestAPluginWithoutRoomForAnIndexIsTold(t *testing.T) {
	p := newPeer(t)
	for i := range 2 * worthIndexing {
		p.put("a", fmt.Sprint(i))
	}
	var limited []Owner
	c := open(t, p, Config{}, Hooks{IndexLimited: func(o Owner, kind abi.Kind) {
		if limited = append(limited, o); kind != widget {
			t.Errorf("of %s", kind)
		}
	}})
	i := acquire(t, c)
	list := func(o Owner, label string) {
		run := begin(c, o, &OwnWrites{})
		defer run.Abandon()
		if _, err := run.List(widgets("", selector(t, label+"=x"))); err != nil {
			t.Fatal(err)
		}
	}
	me := Owner{Controller: "greedy/c", Key: object.Key{Name: "me"}}
	for n := range 10 {
		list(me, fmt.Sprint("label-", n))
	}
	if !slices.Equal(limited, []Owner{me, me}) {
		t.Errorf("told: %v", limited)
	}
	limited = nil
	list(Owner{Controller: "modest/c"}, "label-9")
	path, err := fieldpath.ParsePath("spec.one")
	if err != nil {
		t.Fatal(err)
	}
	i.ListBy(Owner{Controller: "modest/c"}, "", path, "x")
	if limited != nil {
		t.Errorf("told: %v, which has its part", limited)
	}
	if path, err = fieldpath.ParsePath("spec.two"); err != nil {
		t.Fatal(err)
	}
	if i.ListBy(me, "", path, "x"); !slices.Equal(limited, []Owner{me}) {
		t.Errorf("told: %v", limited)
	}
}
