package object_test

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestAStatusOfTheGuestHasNoOtherWriterOfConditions(t *testing.T) {
	replicaSet := abi.Kind{APIVersion: "apps/v1", Kind: "ReplicaSet"}
	owner := abi.Controller{Name: "a", For: replicaSet.All(), StatusOwner: abi.StatusOwnerGuest}
	const owns, too = ` writes the whole status of apps/v1 ReplicaSet (StatusOwner "guest"), and `, ` writes conditions there, too; only one of them may`
	for name, c := range map[string]struct {
		second abi.Controller
		want   string
	}{
		"no conditions":     {abi.Controller{Name: "b", For: replicaSet.All()}, ""},
		"conditions":        {abi.Controller{Name: "b", For: replicaSet.All(), Conditions: abi.Conditions{Target: "Labelled"}}, `controller "p/a"` + owns + `"q/b"` + too},
		"the whole, too":    {abi.Controller{Name: "b", For: replicaSet.All(), StatusOwner: abi.StatusOwnerGuest}, `controller "q/b"` + owns + `"p/a"` + too},
		"of a similar kind": {abi.Controller{Name: "b", For: abi.Kind{APIVersion: "apps/v1", Kind: "ReplicaSetList"}.All(), StatusOwner: abi.StatusOwnerGuest}, ""},
	} {
		writers := object.ConditionWriters{}
		if err := writers.Add("p", []abi.Controller{owner}); err != nil {
			t.Fatal(err)
		}
		if err := writers.Add("p", []abi.Controller{owner}); err != nil {
			t.Errorf("again: %v", err)
		}
		got := ""
		if err := writers.Add("q", []abi.Controller{c.second}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
