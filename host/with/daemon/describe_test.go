package daemon

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/daemon"
)

func TestDaemonsAreDescribed(t *testing.T) {
	for want, d := range map[string]*contract.Daemon{
		"":                                    nil,
		"one for each object":                 {Timeout: 1000},
		"one for each object with labels a=b": {LabelSelector: "a=b"},
	} {
		c := &abi.Controller{}
		if d != nil {
			c.Sections = []abi.Section{{Name: contract.Name, Value: contract.Encode(d)}}
		}
		if got := describe(c); got != want {
			t.Errorf("%+v is described as %q, want %q", d, got, want)
		}
	}
}
