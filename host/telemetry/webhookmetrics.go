package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
)

// webhookMetrics are the metrics of reviews and conversions.
type webhookMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	refused  *prometheus.CounterVec
}

func (m *Metrics) addWebhookMetrics() {
	m.webhooks = webhookMetrics{
		requests: m.Counter("thole_webhook_requests_total",
			"Requests of the API server for reviews (validate, mutate) and conversions (convert), by result. Of those that failed the failure policy is the answer.", "plugin", "review", "result"),
		duration: m.Histogram("thole_webhook_request_duration_seconds",
			"Duration of such a request, with all waits.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 30}, "plugin", "review"),
		refused: m.Counter("thole_webhook_refused_requests_total",
			"Requests that are no review of a plugin that is known, or come from somebody who may not ask.", "reason"),
	}
}

// create creates the series of what a plugin reviews and converts. results are those of one
// of validate, mutate and convert.
func (w *webhookMetrics) create(manifest *abi.Manifest, plugin string, results func(review string) []string) {
	for _, c := range manifest.Controllers {
		for _, review := range webhooks.Exports() {
			if !webhooks.Of(&c).Calls(review) {
				continue
			}
			w.duration.WithLabelValues(plugin, review)
			for _, result := range results(review) {
				w.requests.WithLabelValues(plugin, review, result)
			}
		}
	}
}

// WebhookMetrics are the instruments of the server of reviews and conversions.
type WebhookMetrics struct{ of *webhookMetrics }

// Webhooks returns the instruments, and creates the series of the reasons.
func (m *Metrics) Webhooks(reasons []string) WebhookMetrics {
	for _, reason := range reasons {
		m.webhooks.refused.WithLabelValues(reason)
	}
	return WebhookMetrics{&m.webhooks}
}

// Started creates the series of what a plugin reviews and converts.
func (w WebhookMetrics) Started(plugin string, manifest *abi.Manifest, results func(review string) []string) {
	w.of.create(manifest, plugin, results)
}

// Served counts a request that was answered.
func (w WebhookMetrics) Served(plugin, review, result string, seconds float64) {
	w.of.requests.WithLabelValues(plugin, review, result).Inc()
	w.of.duration.WithLabelValues(plugin, review).Observe(seconds)
}

// Total returns how many requests were answered with any of the results.
func (w WebhookMetrics) Total(plugin, review string, results []string) (n int) {
	for _, result := range results {
		var m dto.Metric
		if err := w.of.requests.WithLabelValues(plugin, review, result).Write(&m); err == nil { // always
			n += int(m.GetCounter().GetValue())
		}
	}
	return n
}

// Refused counts a request that was refused.
func (w WebhookMetrics) Refused(reason string) { w.of.refused.WithLabelValues(reason).Inc() }
