package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
)

// Instrument makes the clients of config count their requests in m. Unlike
// client-go's process-wide hooks it belongs to one host, so that two hosts in
// one process (as in tests) do not mix.
func (m *Metrics) Instrument(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper{next: next, m: m}
	})
}

type roundTripper struct {
	next http.RoundTripper
	m    *Metrics
}

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	response, err := t.next.RoundTrip(r)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
	}
	t.m.requests.WithLabelValues(code, r.Method, r.URL.Host).Inc()
	if r.URL.Query().Get("watch") == "" {
		t.m.requestTime.WithLabelValues(r.Method, r.URL.Host).Observe(time.Since(start).Seconds())
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (t roundTripper) WrappedRoundTripper() http.RoundTripper { return t.next }
