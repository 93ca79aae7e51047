package object

import (
	"testing"

	"github.com/thole-dev/thole/abi"
)

func TestWhatIsClusterScopedCannotBelongToANamespacedPrimary(t *testing.T) {
	widget, cluster, pod, node, other := abi.Kind{APIVersion: "example.com/v1", Kind: "Widget"}, abi.Kind{APIVersion: "example.com/v1", Kind: "Cluster"},
		abi.Kind{APIVersion: "v1", Kind: "Pod"}, abi.Kind{APIVersion: "v1", Kind: "Node"}, abi.Kind{APIVersion: "example.com/v1", Kind: "Other"}
	served := func(kind abi.Kind) (Resource, bool) {
		return Resource{Kind: kind, Namespaced: kind != node && kind != cluster}, kind != other
	}
	for name, c := range map[string]struct {
		abi.Controller
		refused bool
	}{
		"namespaced":                  {abi.Controller{For: widget.All(), Owns: abi.AllOf(pod)}, false},
		"cluster-scoped":              {abi.Controller{For: widget.All(), Owns: abi.AllOf(pod, node)}, true},
		"cluster-scoped, and written": {abi.Controller{For: widget.All(), Owns: abi.AllOf(node), Writes: []abi.Kind{node}}, false},
		"both cluster-scoped":         {abi.Controller{For: cluster.All(), Owns: abi.AllOf(pod, node)}, false},
		"not known":                   {abi.Controller{For: widget.All(), Owns: abi.AllOf(other)}, false},
		"of a primary not known":      {abi.Controller{For: other.All(), Owns: abi.AllOf(node)}, false},
	} {
		c.Name = "c"
		err := CheckOwned(&c.Controller, served)
		if want := `controller "c": v1 Node in Owns is cluster-scoped, and an object of example.com/v1 Widget is in a namespace and cannot own it: name the kind in Writes instead`; c.refused != (err != nil) || err != nil && err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
