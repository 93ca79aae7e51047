package host

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// TestACacheWithoutItsInformer: an event of an owned kind may be under way to
// a controller whose informers were given back.
func TestACacheWithoutItsInformer(t *testing.T) {
	c := dispatchCache{kind: abi.Kind{APIVersion: "example.dev/v1", Kind: "Widget"}, kinds: &informers{}}
	if o, ok := c.Get(object.Key{Name: "w"}); ok {
		t.Errorf("found %v", o)
	}
}
