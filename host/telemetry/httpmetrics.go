package telemetry

import "time"

func (m *Metrics) addHTTPMetrics() {
	m.httpRequests = m.Counter("thole_http_requests_total",
		"HTTP requests of plugins, by the host of the policy's entry (empty if none allows the request) and the status of the answer, or why there is none.", "plugin", "host", "code")
	m.httpTime = m.Histogram("thole_http_request_duration_seconds",
		"Duration of an HTTP request of a plugin, with its redirects and the time that it waited for the plugin's limits.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "plugin", "host")
}

// HTTP returns what observes the HTTP requests of a plugin, and creates its series: for the hosts
// of its policy an answer and the codes of calls without one.
func (m *Metrics) HTTP(plugin string, hosts, codes []string) func(host, code string, took time.Duration) {
	for _, host := range append([]string{""}, hosts...) {
		m.httpTime.WithLabelValues(plugin, host)
		for _, code := range append([]string{"200"}, codes...) {
			if host != "" {
				m.httpRequests.WithLabelValues(plugin, host, code)
			}
		}
	}
	return func(host, code string, took time.Duration) {
		m.httpRequests.WithLabelValues(plugin, host, code).Inc()
		m.httpTime.WithLabelValues(plugin, host).Observe(took.Seconds())
	}
}
