package gauges

import (
	"cmp"
	"slices"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache/objects"
	"github.com/thole-dev/thole/host/runner"
)

const (
	// otherValue is the value of a gauge that has the objects whose own value it does not have.
	otherValue = "other"
	// maxValues is how many other values a gauge has besides "", and maxValue the length of one.
	maxValues = 32
	maxValue  = 63
	// pause is how many times as long as it has taken to count nothing is counted again: with an index that is
	// a moment.
	pause = 20
)

// controller counts the primaries of a controller.
type controller struct {
	plugin string
	handle runner.Handle

	mu     sync.Mutex // is held while objects are counted
	name   string
	counts []*count // of the running revision; none after the controller has ended
}

// use counts by the gauges of a revision from now on.
func (c *controller) use(m *abi.Controller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.name, c.counts = m.Name, nil
	for _, x := range indexes(m) {
		field, _ := fieldpath.ParsePath(x.Field) // was checked
		c.counts = append(c.counts, &count{name: x.Name, field: field})
	}
}

// collect collects the metric of all gauges while this replica leads the plugin.
func (c *controller) collect(ch chan<- prometheus.Metric, metric *prometheus.Desc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.counts) == 0 || !c.handle.MayWrite() {
		return
	}
	for _, n := range c.counts {
		n.update(c.handle)
		for value, objects := range n.byValue {
			ch <- prometheus.MustNewConstMetric(metric, prometheus.GaugeValue, float64(objects), c.plugin, c.name, n.name, value)
		}
	}
}

// count is what was counted last for a gauge.
type count struct {
	name    string
	field   fieldpath.Path
	byValue map[string]int
	until   time.Time // it is not counted again before
}

// update counts the primaries again, unless that was done a moment ago.
func (n *count) update(h runner.Handle) {
	began := time.Now()
	if began.Before(n.until) {
		return
	}
	n.byValue = boundValues(h.CountBy(n.field))
	ended := time.Now()
	n.until = ended.Add(pause * ended.Sub(began))
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
		if i < maxValues {
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
	if len(value) > maxValue || !utf8.ValidString(value) {
		return false
	}
	for _, r := range value {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
