package runner

import (
	"errors"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
)

// leads is a [Lead] of a replica that does not lead.
type leads struct {
	Lead
	leading chan struct{}
}

var errNotLeading = errors.New("it does not lead")

func (l *leads) Leading() <-chan struct{}               { return l.leading }
func (l *leads) Term() (leading, ended <-chan struct{}) { return l.leading, nil }
func (l *leads) Leads() bool                            { return false }
func (l *leads) Check() error                           { return errNotLeading }
func (l *leads) BeginWrite() (end func(), err error)    { return nil, errNotLeading }

// leaders has one [Lead] for plugins with a dry run, and another one for those without.
type leaders struct {
	Leaders
	byDryRun map[bool]*leads
	err      error
}

func (l *leaders) Join(_ string, policy config.Policy) (Lead, error) {
	return l.byDryRun[policy.DryRun], l.err
}

// What runs by one lead must not go on by another one, by which another replica may lead.
func TestAPluginThatGetsAnotherLeadStartsAnew(t *testing.T) {
	_, url := startRefusingServer(t)
	r := newRunner(t, url, "")
	of := func(number int, dryRun bool) *Revision {
		return &Revision{
			Revision: events.Revision{Plugin: "p", Number: number, Digest: "d"},
			Policy:   config.Policy{DryRun: dryRun, Limits: config.Config{}.WithDefaults().Limits},
			Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: widgets.All()}}},
		}
	}
	start := func(rev *Revision) (*controller, *effect.Performer) {
		t.Helper()
		if err := r.Start(t.Context(), rev, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		return r.plugins["p"].controllers["c"], r.plugins["p"].effects.Load()
	}
	if c, p := start(of(1, false)); c.Lease != nil || p.Lease != nil || r.Impairments("p") != (catalog.Impairments{}) {
		t.Errorf("the only replica has the lead %v", c.Lease)
	}
	r.Stop("p", false)
	all := &leaders{byDryRun: map[bool]*leads{false: {leading: make(chan struct{})}, true: {leading: make(chan struct{})}}}
	r.Leaders = all
	controller, performer := start(of(1, false))
	for number, dryRun := range []bool{true, false, false} {
		want := all.byDryRun[dryRun]
		before, former := controller, performer
		controller, performer = start(of(number+2, dryRun))
		if err := performer.Lease.Check(); !errors.Is(err, errNotLeading) {
			t.Errorf("a replica that does not lead may write: %v", err)
		}
		if !r.Impairments("p").NotLeading {
			t.Error("it is taken for the one that leads")
		}
		if changes := number < 2; controller.Lease != want || (controller != before) != changes || (performer != former) != changes {
			t.Errorf("dry run %v: a new controller %v, a new performer %v, by %v", dryRun, controller != before, performer != former, controller.Lease)
		}
	}
	all.err = errors.New("it is not known who leads")
	if err := r.Start(t.Context(), of(5, false), func() error { return nil }); !errors.Is(err, all.err) {
		t.Errorf("%v", err)
	}
}
