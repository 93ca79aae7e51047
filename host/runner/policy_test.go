package runner

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/telemetry"
)

// What is remembered of objects is in the controller, and what was written in the
// records of the performer.
func TestANewPolicyKeepsTheController(t *testing.T) {
	_, url := startRefusingServer(t)
	cluster := &rest.Config{Host: url}
	objects, err := cache.New(cache.Config{REST: cluster})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(objects.Stop)
	r := New(Config{
		Cluster: cluster, Cache: objects, Metrics: telemetry.NewMetrics(), Events: events.Observers(), Logger: hclog.NewNullLogger(),
		Recorder: func(func()) effect.Recorder { return noEvents{} }, HostIdentity: true, Resync: time.Hour,
	})
	t.Cleanup(func() { r.Stop("p", false) })
	number := 0
	start := func(policy config.Policy) *controller {
		t.Helper()
		number++
		err := r.Start(t.Context(), &Revision{
			Revision: events.Revision{Plugin: "p", Number: number, Digest: "d"}, Policy: policy,
			Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: widgets.All(), Concurrency: 4}}},
		}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return r.plugins["p"].controllers["c"]
	}
	policy := config.Policy{}
	policy.Limits.Concurrency = 2
	first := start(policy)
	policy.Limits.Concurrency, policy.Limits.WritesPerSecond, policy.Limits.WriteBurst, policy.CrossNamespace = 8, 3, 4, true
	if second := start(policy); second != first {
		t.Error("a policy with another concurrency has replaced the controller")
	}
	if revision := first.Revision(); revision.Number != 2 || revision.Digest != "d" || !revision.CrossNamespace {
		t.Errorf("it runs %+v", revision)
	}
	if p := r.plugins["p"].effects.Load(); p.QPS != 3 || first.Revision().Effects != p {
		t.Errorf("its writes are limited to %v per second", p.QPS)
	}
	policy.Namespaces = config.Namespaces{"a"}
	start(policy)
	if p := r.plugins["p"].effects.Load(); !slices.Equal(p.Namespaces, policy.Namespaces) || first.Revision().Effects != p {
		t.Errorf("it writes in the namespaces %v", p.Namespaces)
	}
	if first.canSwapTo(abi.Controller{Name: "c", For: gadgets.All()}) {
		t.Error("a controller for another kind would keep the keys of the former one")
	}
}

type noEvents struct{ effect.Recorder }
