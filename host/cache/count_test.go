package cache

import (
	"fmt"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache/scope"
)

// An informer that another user shares has more than is shown.
func TestWhatIsNotShownIsNotCounted(t *testing.T) {
	for _, each := range []int{3, worthIndexing} { // read, and indexed
		p := newPeer(t)
		for i := range each {
			p.put("a", fmt.Sprint("x", i), `"labels":{"app":"x"}`)
			p.put("a", fmt.Sprint("y", i), `"labels":{"app":"y"}`)
			p.put("b", fmt.Sprint("none", i))
		}
		i := acquire(t, open(t, p, Config{}))
		app, err := fieldpath.ParsePath("metadata.labels.app")
		if err != nil {
			t.Fatal(err)
		}
		expect := func(shown scope.Scope, without int, want map[string]int) {
			t.Helper()
			for range 2 { // with the index that the first one has made
				got := i.Narrow(shown).CountBy(Owner{Controller: "p/c"}, app)
				if !maps.Equal(got.ByValue, want) || got.Without != without || got.Other != 0 {
					t.Errorf("of %s: got %v, want %d and %v", shown, got, without, want)
				}
			}
		}
		all, selected, inA := scope.All(widget), scope.All(widget), scope.All(widget)
		selected.Labels, _ = labels.Parse("app!=y")
		inA.Namespaces = []string{"a"}
		expect(all, each, map[string]int{"x": each, "y": each})
		expect(selected, each, map[string]int{"x": each})
		expect(inA, 0, map[string]int{"x": each, "y": each})
	}
}
