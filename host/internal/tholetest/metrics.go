package tholetest

import (
	"fmt"
	"strconv"
	"strings"
)

// Metrics are metrics in the text format of Prometheus.
type Metrics string

// Sum returns the sum of the series of a metric that have all the labels, given as
// names and values in turn; 0 if there is none.
func (m Metrics) Sum(name string, labels ...string) (sum float64) {
	m.each(name, labels, func(value float64) { sum += value })
	return sum
}

// Count returns the number of series of a metric that have all the labels.
func (m Metrics) Count(name string, labels ...string) (n int) {
	m.each(name, labels, func(float64) { n++ })
	return n
}

func (m Metrics) each(name string, labels []string, yield func(value float64)) {
	for line := range strings.Lines(string(m)) {
		line = strings.TrimSpace(line)
		space := strings.LastIndexByte(line, ' ')
		if space < 0 {
			continue
		}
		series, text := line[:space], line[space+1:]
		if family, _, _ := strings.Cut(series, "{"); family != name || !hasLabels(series, labels) {
			continue
		}
		value, _ := strconv.ParseFloat(text, 64)
		yield(value)
	}
}

func hasLabels(series string, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		if !strings.Contains(series, fmt.Sprintf("%s=%q", labels[i], labels[i+1])) {
			return false
		}
	}
	return true
}
