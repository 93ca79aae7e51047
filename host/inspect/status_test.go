package inspect

import (
	"reflect"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
)

func TestReportHasWhatTheHostWritesIntoTheStatus(t *testing.T) {
	kind := func(apiVersion, kind string) abi.Followed { return abi.Kind{APIVersion: apiVersion, Kind: kind}.All() }
	metadata := widget.All()
	metadata.MetadataOnly = true
	host := func(observed string, conditions ...string) Status {
		return Status{Controller: "c", Owner: "host", Conditions: conditions, ObservedGeneration: observed}
	}
	const ifSchema = "if the schema has it"
	for name, c := range map[string]struct {
		abi.Controller
		want Status
		row  string
	}{
		"custom":            {abi.Controller{For: widget.All()}, host(ifSchema, "Ready", "Reconciling", "Stalled"), "the host writes Ready, Reconciling, Stalled, observedGeneration if the schema has it"},
		"another target":    {abi.Controller{For: widget.All(), Conditions: abi.Conditions{Target: "Synced", Owned: []string{"Fetched"}}}, host("no", "Synced", "Fetched"), "the host writes Synced, Fetched"},
		"metadata":          {abi.Controller{For: metadata}, host("no"), "the host writes nothing of its own"},
		"the guest's":       {abi.Controller{For: widget.All(), StatusOwner: abi.StatusOwnerGuest}, Status{Controller: "c", Owner: "guest", ObservedGeneration: "no"}, "the plugin writes all of it, the host nothing"},
		"built-in":          {abi.Controller{For: kind("apps/v1", "ReplicaSet")}, host("if the policy allows to patch ReplicaSet/status"), "the host writes observedGeneration if the policy allows to patch ReplicaSet/status"},
		"with conditions":   {abi.Controller{For: kind("v1", "Pod"), Conditions: abi.Conditions{Target: "Scanned"}}, host("no", "Scanned"), "the host writes Scanned"},
		"without the field": {abi.Controller{For: kind("v1", "Namespace")}, host("no"), "the host writes nothing of its own"},
		"without a status":  {abi.Controller{For: kind("v1", "ConfigMap")}, host("no"), "the host writes nothing of its own"},
		"not known":         {abi.Controller{For: kind("apps/v9", "Thing")}, host("if the policy allows to patch Thing/status"), "the host writes observedGeneration if the policy allows to patch Thing/status"},
	} {
		c.Name = "c"
		r := &Report{Load: Load{OK: true}}
		if err := r.addManifest(t.Context(), &abi.Manifest{Name: "p", Controllers: []abi.Controller{c.Controller}}, config.Policy{Limits: config.Config{}.WithDefaults().Limits}, nil); err != nil {
			t.Fatal(err)
		}
		rows := r.controllers[0].rows
		if got := rows[len(rows)-1]; !reflect.DeepEqual(r.Status, []Status{c.want}) || got[0] != "Status" || got[1] != c.row || !r.Load.OK {
			t.Errorf("%s: %+v, %q, %+v", name, r.Status, got, r.Load)
		}
	}
}

func TestConditionsWithoutAPlaceRefuseThePlugin(t *testing.T) {
	for kind, refused := range map[string]bool{"CronJob": true, "Job": false} {
		c := abi.Controller{Name: "c", For: abi.Kind{APIVersion: "batch/v1", Kind: kind}.All(), Conditions: abi.Conditions{Target: "Late"}}
		r := &Report{Load: Load{OK: true}}
		if err := r.addManifest(t.Context(), &abi.Manifest{Name: "p", Controllers: []abi.Controller{c}}, config.Policy{Limits: config.Config{}.WithDefaults().Limits}, nil); err != nil {
			t.Fatal(err)
		}
		if r.Load.OK == refused || refused && (r.Load.Step != stepStart || !strings.Contains(r.Load.Error, `controller "c": conditions, for which batch/v1 CronJob has no place`)) {
			t.Errorf("%s: %+v", kind, r.Load)
		}
	}
}
