package object_test

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestConditionHasOneWriter(t *testing.T) {
	widget := abi.Kind{APIVersion: "example.com/v1", Kind: "Widget"}
	for name, c := range map[string]struct {
		second  abi.Controller
		refused bool
	}{
		"another kind":          {abi.Controller{Name: "b", For: abi.Kind{APIVersion: "example.com/v1", Kind: "Gadget"}}, false},
		"another target":        {abi.Controller{Name: "b", For: widget, Conditions: abi.Conditions{Target: "Synced"}}, false},
		"the same":              {abi.Controller{Name: "b", For: widget}, true},
		"the same, spelled out": {abi.Controller{Name: "b", For: widget, Conditions: abi.Conditions{Target: "Ready"}}, true},
		"another version":       {abi.Controller{Name: "b", For: abi.Kind{APIVersion: "example.com/v2", Kind: "Widget"}}, true},
		"a built-in kind":       {abi.Controller{Name: "b", For: abi.Kind{APIVersion: "v1", Kind: "Widget"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for plugins, err := range map[string]error{
				"one": object.ConditionWriters{}.Add("p", []abi.Controller{{Name: "a", For: widget}, c.second}),
				"two": func() error {
					writers := object.ConditionWriters{}
					if err := writers.Add("p", []abi.Controller{{Name: "a", For: widget}}); err != nil {
						t.Fatal(err)
					}
					return writers.Add("q", []abi.Controller{c.second})
				}(),
			} {
				if (err != nil) != c.refused {
					t.Errorf("of %s plugin: %v", plugins, err)
				}
			}
		})
	}
}
