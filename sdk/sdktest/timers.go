package sdktest

import (
	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/timers"
	"github.com/thole-dev/thole/host/with/timers/schedule"
)

// This file has the timers of the controller: abi/timers/SPEC.md. When they are due is computed
// by the functions of the host, without jitter.

// beginTimers returns the names of the timers that are due in a run.
func (w *World) beginTimers(o *object, k *key) []string {
	all, _ := contract.Decode(w.controller.Section(contract.Name)) // was checked
	if len(all) == 0 || k.gone || o.meta.Deleting() {
		k.timers = nil
		return nil
	}
	if k.timers == nil {
		timers := schedule.New(o.meta.CreationTimestamp.Time(), w.started, w.now)
		k.timers = &timers
	}
	return k.timers.Begin(all, w.started, w.now, 0)
}

// endTimers sets when the next timer is due after the run.
func (r *Run) endTimers(k *key) {
	if k.timers != nil {
		r.NextTimer = k.timers.End(&r.decision, r.world.now, 0)
	}
}

// sections returns the parts of capabilities in the request.
func (r *Run) sections() []abi.Section {
	if len(r.Timers) == 0 {
		return nil
	}
	return []abi.Section{{Name: contract.Name, Value: contract.EncodeDue(r.Timers)}}
}

// reasons returns why the run happens. The world does not know, except for timers and signals.
func (r *Run) reasons(k *key) []abi.Reason {
	all := []abi.Reason{abi.ReasonPrimary}
	if len(r.Timers) > 0 {
		all = append(all, abi.ReasonTimer)
	}
	if k.signalled {
		all = append(all, abi.ReasonSignal)
	}
	return all
}
