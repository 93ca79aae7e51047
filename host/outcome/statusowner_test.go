package outcome_test

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// The guest's status has nothing of the host's, however the run ends.
func TestNothingIsDecidedOfAStatusThatIsTheGuests(t *testing.T) {
	owned := &abi.Controller{StatusOwner: abi.StatusOwnerGuest}
	for _, in := range []outcome.Input{
		returns(given("Ready=True/Theirs"), 0, "success"),
		returns(given("Ready=True/Theirs"), 0, "requeue"),
		returns(given("Reconciling=True/Progressing"), 0, "empty"),
		fails(returns(given(), 1, ""), "CloneFailed", "refused"),
		fails(returns(given(), 2, ""), "CloneFailed", "refused"),
	} {
		host := outcome.Decide(in)
		in.Controller = owned
		guest := outcome.Decide(in)
		if len(guest.Set)+len(guest.Remove) > 0 || guest.ObservedGeneration != nil {
			t.Errorf("%s: %s, observed %v", host.Metric, show(guest), guest.ObservedGeneration)
		}
		if len(host.Set)+len(host.Remove) == 0 || guest.Metric != host.Metric || guest.GuestStatus != host.GuestStatus || (guest.Event == nil) != (host.Event == nil) {
			t.Errorf("%s: the rest of the decision is another: %+v, %+v", host.Metric, guest, host)
		}
	}
}
