package webhooks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/telemetry"
)

// metrics are those of reviews and conversions. It implements [Metrics].
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	refused  *prometheus.CounterVec
}

func newMetrics(m *telemetry.Metrics) metrics {
	return metrics{
		requests: m.Counter("thole_webhook_requests_total",
			"Requests of the API server for reviews (validate, mutate) and conversions (convert), by result. Of those that failed the failure policy is the answer.", "plugin", "review", "result"),
		duration: m.Histogram("thole_webhook_request_duration_seconds",
			"Duration of such a request, with all waits.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 30}, "plugin", "review"),
		refused: m.Counter("thole_webhook_refused_requests_total",
			"Requests that are no review of a plugin that is known, or come from somebody who may not ask.", "reason"),
	}
}

// serving creates the series of the reasons for which requests are refused.
func (m metrics) serving() {
	for _, reason := range Reasons() {
		m.refused.WithLabelValues(reason)
	}
}

// started creates the series of what a plugin reviews and converts.
func (m metrics) started(plugin string, all offers) {
	for _, of := range all {
		for _, review := range contract.Exports() {
			if !of.Calls(review) {
				continue
			}
			m.duration.WithLabelValues(plugin, review)
			for _, result := range Results(review) {
				m.requests.WithLabelValues(plugin, review, result)
			}
		}
	}
}

// Served implements [Metrics].
func (m metrics) Served(plugin, review, result string, seconds float64) {
	m.requests.WithLabelValues(plugin, review, result).Inc()
	m.duration.WithLabelValues(plugin, review).Observe(seconds)
}

// Refused implements [Metrics].
func (m metrics) Refused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// expiry is a [prometheus.Collector] of when the certificate expires.
type expiry struct {
	expires *prometheus.Desc
	at      func() time.Time // zero: there is none
}

func newExpiry(at func() time.Time) expiry {
	return expiry{gauge("thole_webhook_certificate_expiration_timestamp_seconds", "When the certificate expires with which reviews are served, in Unix time. None if no reviews are served."), at}
}

func gauge(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }

// Describe implements [prometheus.Collector].
func (e expiry) Describe(ch chan<- *prometheus.Desc) { ch <- e.expires }

// Collect implements [prometheus.Collector].
func (e expiry) Collect(ch chan<- prometheus.Metric) {
	if at := e.at(); !at.IsZero() {
		ch <- prometheus.MustNewConstMetric(e.expires, prometheus.GaugeValue, float64(at.Unix()))
	}
}
