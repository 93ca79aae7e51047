package runner

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
)

var (
	widgets = abi.Kind{APIVersion: "test.dev/v1", Kind: "Widget"}
	old     = abi.Kind{APIVersion: "test.dev/v1beta1", Kind: "Widget"} // the same objects
	gadgets = abi.Kind{APIVersion: "test.dev/v1", Kind: "Gadget"}
)

// withFinalizers returns an object with finalizers. It is being deleted if its name
// ends in "-".
func withFinalizers(name string, finalizers ...string) *object.Object {
	o := &object.Object{}
	o.Namespace, o.Name, o.Finalizers = "ns", name, finalizers
	if strings.HasSuffix(name, "-") {
		o.DeletionTimestamp = &metav1.Time{}
	}
	return o
}

func controllers(pairs ...any) (all []abi.Controller) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, abi.Controller{Name: pairs[i].(string), For: pairs[i+1].(abi.Kind).All()})
	}
	return all
}

func TestLeftoverFinalizers(t *testing.T) {
	objects := map[abi.Kind][]*object.Object{
		widgets: {
			withFinalizers("a", "demo.thole.dev/main"), withFinalizers("b-", "other.dev/x", "demo.thole.dev/main"), withFinalizers("c"),
			withFinalizers("d", "demos.thole.dev/main", "x.demo.thole.dev/main", "demo.thole.dev/"), // not of this plugin
			withFinalizers("e", "demo.thole.dev/former"),
		},
		gadgets: {withFinalizers("g", "demo.thole.dev/main", "demo.thole.dev/second")},
	}
	objects[old] = objects[widgets]
	for name, c := range map[string]struct {
		before, now []abi.Controller
		want        []string
	}{
		"the plugin is removed": {controllers("main", widgets), nil, []string{
			"demo/former Widget 1 0 ns/e", "demo/main Widget 2 1 ns/a ns/b-",
		}},
		"a plugin with two kinds is removed": {controllers("main", widgets, "second", gadgets), nil, []string{
			"demo/former Widget 1 0 ns/e", "demo/main Widget 2 1 ns/a ns/b-", "demo/main Gadget 1 0 ns/g", "demo/second Gadget 1 0 ns/g",
		}},
		"the plugin starts, and an older version had another controller": {nil, controllers("main", widgets), []string{"demo/former Widget 1 0 ns/e"}},
		"a controller is removed": {controllers("main", widgets, "second", gadgets), controllers("main", widgets), []string{
			"demo/former Widget 1 0 ns/e", "demo/main Gadget 1 0 ns/g", "demo/second Gadget 1 0 ns/g",
		}},
		"a controller has another primary": {controllers("main", widgets), controllers("main", gadgets), []string{
			"demo/second Gadget 1 0 ns/g", "demo/former Widget 1 0 ns/e", "demo/main Widget 2 1 ns/a ns/b-",
		}},
		"the primary has another API version": {controllers("main", old), controllers("main", widgets), []string{"demo/former Widget 1 0 ns/e"}},
		"nothing changed":                     {controllers("main", gadgets, "second", gadgets), controllers("main", gadgets, "second", gadgets), nil},
	} {
		var got []string
		for _, l := range leftoverFinalizers("demo", "", c.before, c.now, func(k abi.Kind) iter.Seq[*object.Object] { return slices.Values(objects[k]) }) {
			owner := strings.Replace(l.Finalizer, ".thole.dev", "", 1)
			got = append(got, fmt.Sprintf("%s %s %d %d %s", owner, l.Kind.Kind, l.Objects, l.Deleting, strings.Join(l.Examples, " ")))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestAFewOfManyObjectsAreNamed(t *testing.T) {
	var many []*object.Object
	for i := range 100 {
		many = append(many, withFinalizers(fmt.Sprint(i), "demo.thole.dev/main"))
	}
	left := leftoverFinalizers("demo", "", controllers("main", widgets), nil, func(abi.Kind) iter.Seq[*object.Object] { return slices.Values(many) })
	if len(left) != 1 || left[0].Objects != 100 || strings.Join(left[0].Examples, " ") != "ns/0 ns/1 ns/2 ns/3 ns/4" {
		t.Errorf("got %+v", left)
	}
}

func TestTheCommandsReleaseWhatIsLeft(t *testing.T) {
	objects := map[string][]*object.Object{
		"Widget": {withFinalizers("a", "demo.thole.dev/main", "demo.thole.dev/second")},
		"Gadget": {withFinalizers("b", "demo.thole.dev/second")},
	}
	var got events.FinalizersLeft
	r := New(Config{Cache: unconnected(t), Events: events.Func(func(e events.Event) { got = e.(events.FinalizersLeft) }), Namespace: "ns"})
	r.objectsOf = func(k abi.Kind) iter.Seq[*object.Object] { return slices.Values(objects[k.Kind]) }
	before := controllers("main", widgets, "second", widgets, "third", gadgets)
	r.reportLeftoverFinalizers("demo", before, nil)
	if want := []string{"thole finalizers demo Widget.v1.test.dev Gadget.v1.test.dev -n ns --release"}; !got.Removed || !slices.Equal(got.Commands, want) {
		t.Errorf("of a removed plugin: %+v, want %q", got, want)
	}
	r.reportLeftoverFinalizers("demo", before, controllers("main", widgets))
	if want := []string{
		"thole finalizers demo/second Widget.v1.test.dev -n ns --release", "thole finalizers demo/second Gadget.v1.test.dev -n ns --release",
	}; got.Removed || !slices.Equal(got.Commands, want) {
		t.Errorf("of a running plugin: %+v, want %q", got, want)
	}
	got = events.FinalizersLeft{}
	objects = nil
	if r.reportLeftoverFinalizers("demo", before, nil); got.Plugin != "" {
		t.Errorf("reported although nothing is left: %+v", got)
	}
}
