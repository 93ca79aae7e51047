package runner

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/election"
	"github.com/thole-dev/thole/host/events"
)

// A policy gives the plugin a Lease of its own while it runs, and takes it away again. What
// runs by one Lease must not go on by another one, which another replica may lead.
func TestAPluginThatChangesItsLeaseStartsAnew(t *testing.T) {
	_, url := startRefusingServer(t)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: url})
	if err != nil {
		t.Fatal(err)
	}
	leases, err := election.New(election.Config{
		Client: client, Namespace: "ns", Name: "thole", Identity: "a", Shards: 1,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second, Logger: hclog.NewNullLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, url, "")
	start := func(number int, own bool) (*controller, *effect.Performer) {
		t.Helper()
		err := r.Start(t.Context(), &Revision{
			Revision: events.Revision{Plugin: "p", Number: number, Digest: "d"}, Policy: config.Policy{OwnLease: own, Limits: config.Config{}.WithDefaults().Limits},
			Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: widgets.All()}}},
		}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return r.plugins["p"].controllers["c"], r.plugins["p"].effects.Load()
	}
	if c, p := start(1, false); c.Lease != nil || p.Lease != nil {
		t.Errorf("the only replica has the Lease %v", c.Lease)
	}
	r.Stop("p", false)
	r.LeadOf = leases.Of
	controller, performer := start(1, false)
	for number, own := range []bool{true, false, false} {
		want, err := leases.Of("p", own)
		if err != nil {
			t.Fatal(err)
		}
		before, former := controller, performer
		controller, performer = start(number+2, own)
		if err := performer.Lease.Check(); !errors.Is(err, election.ErrNotLeading) {
			t.Errorf("a replica that does not lead may write: %v", err)
		}
		if changes := number < 2; controller.Lease != want || (controller != before) != changes || (performer != former) != changes {
			t.Errorf("ownLease %v: a new controller %v, a new performer %v, by %v", own, controller != before, performer != former, controller.Lease)
		}
	}
}
