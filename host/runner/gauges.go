package runner

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/objects"
)

// This file counts the primaries of controllers by the values of their gauges (abi/SPEC.md, "Gauge").

// Gauge is the number of the primaries of a controller by the values of a field.
type Gauge struct {
	Plugin, Controller string
	Field              string // the name of the gauge in the manifest
	ByValue            map[string]int
}

const (
	// otherValue is the value of a gauge that has the objects whose own value it does not have.
	otherValue = "other"
	// maxGaugeValues is how many other values a gauge has besides "", and maxGaugeValue the length of one.
	maxGaugeValues = 32
	maxGaugeValue  = 63
	// gaugePause is how many times as long as it has taken to count nothing is counted again: with an index
	// that is a moment.
	gaugePause = 20
)

// Gauges returns the gauges of the plugins that this replica leads.
func (r *Runner) Gauges() (all []Gauge) {
	for _, c := range r.led() {
		m := &c.Revision().Controller
		for _, g := range m.Gauges {
			all = append(all, Gauge{Plugin: c.Plugin, Controller: m.Name, Field: g.Name, ByValue: c.gauges.count(g, c.primaries.Load(), c.id)})
		}
	}
	return all
}

// led returns the controllers that run of the plugins which this replica leads.
func (r *Runner) led() (all []*controller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.controllers {
		if p := r.plugins[c.Plugin]; p != nil && p.leads() {
			all = append(all, c)
		}
	}
	return all
}

// gauges are what was counted last for the gauges of a controller.
type gauges struct {
	mu     sync.Mutex
	counts map[string]gaugeCount // by field path
}

type gaugeCount struct {
	of      *cache.Informer
	byValue map[string]int // is replaced, never changed
	until   time.Time      // it is not counted again before
}

// count returns the number of primaries by the values of a gauge.
func (all *gauges) count(g abi.Gauge, primaries *cache.Informer, controller string) map[string]int {
	all.mu.Lock()
	defer all.mu.Unlock()
	began := time.Now()
	if kept := all.counts[g.Field]; kept.of == primaries && began.Before(kept.until) {
		return kept.byValue
	}
	field, err := fieldpath.ParsePath(g.Field)
	if err != nil {
		return nil // the manifest was checked
	}
	byValue := boundValues(primaries.CountBy(cache.Owner{Controller: controller}, field))
	if all.counts == nil {
		all.counts = map[string]gaugeCount{}
	}
	ended := time.Now()
	all.counts[g.Field] = gaugeCount{primaries, byValue, ended.Add(gaugePause * ended.Sub(began))}
	return byValue
}

// boundValues makes the values of a metric of those that objects have.
func boundValues(counts objects.Counts) map[string]int {
	bounded := map[string]int{"": counts.Without}
	other := counts.Other
	var values []string
	for value, n := range counts.ByValue {
		switch {
		case value == "":
			bounded[""] += n
		case value == otherValue, !isPrintable(value):
			other += n
		default:
			values = append(values, value)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(counts.ByValue[b]-counts.ByValue[a], cmp.Compare(a, b)) })
	for i, value := range values {
		if i < maxGaugeValues {
			bounded[value] = counts.ByValue[value]
		} else {
			other += counts.ByValue[value]
		}
	}
	if other > 0 {
		bounded[otherValue] = other
	}
	return bounded
}

// isPrintable reports whether a value can be that of a label.
func isPrintable(value string) bool {
	if len(value) > maxGaugeValue || !utf8.ValidString(value) {
		return false
	}
	for _, r := range value {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// prune forgets the gauges that a revision does not have.
func (all *gauges) prune(m *abi.Controller) {
	all.mu.Lock()
	defer all.mu.Unlock()
	maps.DeleteFunc(all.counts, func(field string, _ gaugeCount) bool {
		return !slices.ContainsFunc(m.Gauges, func(g abi.Gauge) bool { return g.Field == field })
	})
}
