package object_test

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestConditionHasOneWriter(t *testing.T) {
	widget := abi.Kind{APIVersion: "example.com/v1", Kind: "Widget"}
	first := abi.Controller{Name: "a", For: widget.All(), Conditions: abi.Conditions{Owned: []string{"Painted", "Stalled", "Reconciling", "Ready"}}}
	for name, c := range map[string]struct {
		second  abi.Controller
		refused bool
	}{
		"another kind":          {abi.Controller{Name: "b", For: abi.Kind{APIVersion: "example.com/v1", Kind: "Gadget"}.All()}, false},
		"another target":        {abi.Controller{Name: "b", For: widget.All(), Conditions: abi.Conditions{Target: "Synced"}}, false},
		"the same":              {abi.Controller{Name: "b", For: widget.All()}, true},
		"the same, spelled out": {abi.Controller{Name: "b", For: widget.All(), Conditions: abi.Conditions{Target: "Ready"}}, true},
		"another version":       {abi.Controller{Name: "b", For: abi.Kind{APIVersion: "example.com/v2", Kind: "Widget"}.All()}, true},
		"one owns the target":   {abi.Controller{Name: "b", For: widget.All(), Conditions: abi.Conditions{Target: "Synced", Owned: []string{"Ready"}}}, true},
		"the owned one":         {abi.Controller{Name: "b", For: widget.All(), Conditions: abi.Conditions{Target: "Painted"}}, true},
		"both own one":          {abi.Controller{Name: "b", For: widget.All(), Conditions: abi.Conditions{Target: "Synced", Owned: []string{"Dry", "Painted"}}}, true},
		"both own one, v2":      {abi.Controller{Name: "b", For: abi.Kind{APIVersion: "example.com/v2", Kind: "Widget"}.All(), Conditions: abi.Conditions{Target: "Synced", Owned: []string{"Painted"}}}, true},
		"they own others":       {abi.Controller{Name: "b", For: widget.All(), Conditions: abi.Conditions{Target: "Synced", Owned: []string{"Dry", "Synced"}}}, false},
		"owned of another kind": {abi.Controller{Name: "b", For: abi.Kind{APIVersion: "example.org/v1", Kind: "Widget"}.All(), Conditions: abi.Conditions{Owned: []string{"Painted"}}}, false},
		"the host's conditions": {abi.Controller{Name: "b", For: widget.All(), Conditions: abi.Conditions{Target: "Synced", Owned: []string{"Stalled", "Reconciling"}}}, false},
		"it reads the owned":    {abi.Controller{Name: "b", For: widget.All(), Conditions: abi.Conditions{Target: "Synced", Summarized: []string{"Painted"}}}, false},
		"it keeps no status":    {abi.Controller{Name: "b", For: abi.Followed{Kind: widget, Selector: abi.Selector{MetadataOnly: true}}}, false},
		"a built-in kind":       {abi.Controller{Name: "b", For: abi.Kind{APIVersion: "v1", Kind: "Widget"}.All()}, false},
		"all of the status":     {abi.Controller{Name: "b", For: widget.All(), StatusOwner: abi.StatusOwnerGuest}, true},
		"all of it, v2":         {abi.Controller{Name: "b", For: abi.Kind{APIVersion: "example.com/v2", Kind: "Widget"}.All(), StatusOwner: abi.StatusOwnerGuest}, true},
		"all of another status": {abi.Controller{Name: "b", For: abi.Kind{APIVersion: "example.com/v1", Kind: "WidgetSet"}.All(), StatusOwner: abi.StatusOwnerGuest}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for plugins, err := range map[string]error{
				"one": object.ConditionWriters{}.Add("p", []abi.Controller{first, c.second}),
				"two": func() error {
					writers := object.ConditionWriters{}
					if err := writers.Add("p", []abi.Controller{first}); err != nil {
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
