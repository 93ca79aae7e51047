package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/finalizers"
	"github.com/thole-dev/thole/host/object"
)

var (
	widgets = abi.Kind{APIVersion: "test.dev/v1", Kind: "Widget"}
	old     = abi.Kind{APIVersion: "test.dev/v1beta1", Kind: "Widget"} // the same objects
	gadgets = abi.Kind{APIVersion: "test.dev/v1", Kind: "Gadget"}
)

// carrying is an object with finalizers; one whose name ends in "-" is being
// deleted.
func carrying(name string, finalizers ...string) *object.Object {
	o := &object.Object{}
	o.Namespace, o.Name, o.Finalizers = "ns", name, finalizers
	if strings.HasSuffix(name, "-") {
		o.DeletionTimestamp = &metav1.Time{}
	}
	return o
}

func controllers(pairs ...any) (all []abi.Controller) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, abi.Controller{Name: pairs[i].(string), For: pairs[i+1].(abi.Kind)})
	}
	return all
}

func TestLeftovers(t *testing.T) {
	world := map[abi.Kind][]*object.Object{
		widgets: {
			carrying("a", "demo.thole.dev/main"), carrying("b-", "other.dev/x", "demo.thole.dev/main"), carrying("c"),
			carrying("d", "demos.thole.dev/main", "x.demo.thole.dev/main", "demo.thole.dev/"), // nobody's of this plugin
			carrying("e", "demo.thole.dev/former"),
		},
		gadgets: {carrying("g", "demo.thole.dev/main", "demo.thole.dev/second")},
	}
	world[old] = world[widgets]
	for name, c := range map[string]struct {
		before, now []abi.Controller
		want        []string
	}{
		"removed": {controllers("main", widgets), nil, []string{
			"demo/former Widget 1 0 ns/e", "demo/main Widget 2 1 ns/a ns/b-",
		}},
		"removed with two kinds": {controllers("main", widgets, "second", gadgets), nil, []string{
			"demo/former Widget 1 0 ns/e", "demo/main Widget 2 1 ns/a ns/b-", "demo/main Gadget 1 0 ns/g", "demo/second Gadget 1 0 ns/g",
		}},
		"at its start, of a version before": {nil, controllers("main", widgets), []string{"demo/former Widget 1 0 ns/e"}},
		"a controller is gone": {controllers("main", widgets, "second", gadgets), controllers("main", widgets), []string{
			"demo/former Widget 1 0 ns/e", "demo/main Gadget 1 0 ns/g", "demo/second Gadget 1 0 ns/g",
		}},
		"a controller is for another kind": {controllers("main", widgets), controllers("main", gadgets), []string{
			"demo/second Gadget 1 0 ns/g", "demo/former Widget 1 0 ns/e", "demo/main Widget 2 1 ns/a ns/b-",
		}},
		"the kind at another version": {controllers("main", old), controllers("main", widgets), []string{"demo/former Widget 1 0 ns/e"}},
		"nothing changed":             {controllers("main", gadgets, "second", gadgets), controllers("main", gadgets, "second", gadgets), nil},
	} {
		var got []string
		for _, l := range leftovers("demo", c.before, c.now, func(k abi.Kind) []*object.Object { return world[k] }) {
			got = append(got, fmt.Sprintf("%s %s %d %d %s", l.owner, l.kind.Kind, l.objects, l.deleting, strings.Join(l.names, " ")))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestAFewOfManyAreNamed(t *testing.T) {
	var many []*object.Object
	for i := range 100 {
		many = append(many, carrying(fmt.Sprint(i), "demo.thole.dev/main"))
	}
	left := leftovers("demo", controllers("main", widgets), nil, func(abi.Kind) []*object.Object { return many })
	if len(left) != 1 || left[0].objects != 100 || left[0].examples() != "ns/0, ns/1, ns/2, ns/3, ns/4, ..." {
		t.Errorf("got %+v", left)
	}
}

func TestTheCommandsReleaseWhatRemains(t *testing.T) {
	main, second := finalizers.Owner{Plugin: "demo", Controller: "main"}, finalizers.Owner{Plugin: "demo", Controller: "second"}
	left := []leftover{{owner: main, kind: widgets}, {owner: second, kind: widgets}, {owner: second, kind: abi.Kind{APIVersion: "v1", Kind: "Pod"}}}
	gone := remains{plugin: "demo", gone: true, left: left}
	if got := gone.commands(); !slices.Equal(got, []string{"thole finalizers demo Widget.v1.test.dev Pod.v1 -A --release"}) {
		t.Errorf("of a removed plugin: %q", got)
	}
	stays := remains{plugin: "demo", namespace: "ns", left: left[1:]}
	if got := stays.commands(); !slices.Equal(got, []string{
		"thole finalizers demo/second Widget.v1.test.dev -n ns --release", "thole finalizers demo/second Pod.v1 -n ns --release",
	}) {
		t.Errorf("of one that runs: %q", got)
	}
	for len(stays.left) < 20 {
		stays.left = append(stays.left, stays.left...)
	}
	if text := stays.remedy(); !strings.HasSuffix(text, "the log has the commands") || strings.Contains(text, "thole finalizers") {
		t.Errorf("half a command: %s", text)
	}
}
