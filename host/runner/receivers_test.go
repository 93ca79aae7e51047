package runner

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/receive"
	"github.com/thole-dev/thole/host/telemetry"
)

func TestReceiversAreThoseOfTheRunningRevisions(t *testing.T) {
	objects, err := cache.New(cache.Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Stop()
	r := New(Config{Cache: objects, Metrics: telemetry.NewMetrics()})
	kind := abi.Kind{APIVersion: "a.b/v1", Kind: "K"}
	resource := object.Resource{Kind: kind, GVR: schema.GroupVersionResource{Group: "a.b", Version: "v1", Resource: "ks"}, Namespaced: true}
	rev := &Revision{
		Revision: events.Revision{Plugin: "p"},
		Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{
			{Name: "z", For: kind.All(), Receives: []abi.Receive{{Type: "t"}}}, {Name: "deaf", For: kind.All()}, {Name: "a", For: kind.All(), Receives: []abi.Receive{{DataSchema: "s"}}},
		}},
		Policy: config.Policy{Limits: config.Limits{EventsPerSecond: 2}},
	}
	p := &plugin{events: receive.NewRate(0)}
	r.plugins["p"] = p
	if all := r.Receivers(); len(all) > 0 || r.KnowsReceivers("p") || r.KnowsReceivers("q") {
		t.Errorf("before a revision runs: %+v", all)
	}
	p.receive(rev, map[abi.Kind]object.Resource{kind: resource})
	running := &controller{id: "p/z"}
	r.controllers["p/z"] = running
	all := r.Receivers()
	if len(all) != 2 || all[0].Name != "a" || all[1].Name != "z" || all[1].Primaries != resource || !all[1].Leads || all[0].Controller != nil || all[1].Controller == nil {
		t.Fatalf("%+v", all)
	}
	running.stopping.Store(true)
	if all := r.Receivers(); all[1].Controller != nil {
		t.Error("a controller that is being stopped takes events")
	}
	now := time.Now()
	if !p.events.AllowN(now, receive.MaxBatch) || p.events.AllowN(now, 1) || !p.events.AllowN(now.Add(time.Second), 2) || p.events.AllowN(now.Add(time.Second), 1) {
		t.Error("the rate is not that of the policy")
	}
	rev.Manifest.Controllers = rev.Manifest.Controllers[1:2]
	p.receive(rev, nil)
	if all := r.Receivers(); len(all) > 0 || !r.KnowsReceivers("p") {
		t.Errorf("the next revision receives nothing: %+v", all)
	}
}
