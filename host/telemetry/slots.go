package telemetry

import "github.com/prometheus/client_golang/prometheus"

// SlotStats are the execution slots of the host now.
type SlotStats struct {
	Slots   int // that there are
	InUse   int // of them
	Waiting int // guest calls, to begin or to go on
}

// ObserveSlots makes the registry ask for the slots at each scrape.
func (m *Metrics) ObserveSlots(slots func() SlotStats) {
	observe := func(name, help string, value func(SlotStats) int) {
		m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value(slots())) }))
	}
	observe("thole_sandbox_slots", "Guest calls that may run at once.", func(s SlotStats) int { return s.Slots })
	observe("thole_sandbox_slots_in_use", "Guest calls that run now.", func(s SlotStats) int { return s.InUse })
	observe("thole_sandbox_slot_waiting_calls", "Guest calls that wait for an execution slot, to begin or to go on.", func(s SlotStats) int { return s.Waiting })
}
