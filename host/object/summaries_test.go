package object_test

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestFurtherTargetHasOneWriter(t *testing.T) {
	widget := abi.Kind{APIVersion: "example.com/v1", Kind: "Widget"}
	summaries := func(target string) []abi.Summary { return []abi.Summary{{Target: target, Summarized: []string{"A"}}} }
	first := abi.Controller{Name: "a", For: widget.All(), Conditions: abi.Conditions{Summaries: summaries("Fetched")}}
	for name, c := range map[string]struct {
		second  abi.Conditions
		refused bool
	}{
		"another further target":  {abi.Conditions{Target: "Synced", Summaries: summaries("Stored")}, false},
		"the same further target": {abi.Conditions{Target: "Synced", Summaries: summaries("Fetched")}, true},
		"it is the only target":   {abi.Conditions{Target: "Fetched"}, true},
		"it is owned":             {abi.Conditions{Target: "Synced", Owned: []string{"Fetched"}}, true},
		"it is summarized":        {abi.Conditions{Target: "Synced", Summarized: []string{"Fetched"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			second := abi.Controller{Name: "b", For: widget.All(), Conditions: c.second}
			for _, both := range [][]abi.Controller{{first, second}, {second, first}} {
				if err := (object.ConditionWriters{}).Add("p", both); (err != nil) != c.refused {
					t.Errorf("%s before %s: %v", both[0].Name, both[1].Name, err)
				}
			}
		})
	}
}
