package config

import (
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Tracing is how runs are traced: each is a span, with a span for each of its HTTP requests. The
// names of the fields are those of Kubernetes components (KEP-647).
type Tracing struct {
	// Endpoint is the URL of a collector that takes OTLP over HTTP, in JSON, such as
	// http://127.0.0.1:4318/v1/traces; without it nothing is traced.
	Endpoint string `json:"endpoint,omitempty"`
	// SamplingRatePerMillion is how many of a million runs are traced; default all.
	SamplingRatePerMillion int `json:"samplingRatePerMillion,omitempty"`
}

func (t *Tracing) numbers() []number {
	return []number{numberOf("tracing.samplingRatePerMillion", &t.SamplingRatePerMillion, 1_000_000, 1, 1_000_000)}
}

// problem returns what is wrong with the endpoint.
func (t *Tracing) problem() error {
	u, err := url.Parse(t.Endpoint)
	if t.Endpoint == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		return nil
	}
	return field.Invalid(field.NewPath("tracing", "endpoint"), t.Endpoint, "must be a URL of the scheme http or https, such as http://127.0.0.1:4318/v1/traces")
}
