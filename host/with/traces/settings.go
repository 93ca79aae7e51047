package traces

import (
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Settings is how runs are traced: each is a span, with a span for each of its HTTP requests. The
// names of the fields are those of Kubernetes components (KEP-647).
type Settings struct {
	// Endpoint is the URL of a collector that takes OTLP over HTTP, in JSON, such as
	// http://127.0.0.1:4318/v1/traces; without it nothing is traced.
	Endpoint string `json:"endpoint,omitempty"`
	// SamplingRatePerMillion is how many of a million runs are traced; default all.
	SamplingRatePerMillion int `json:"samplingRatePerMillion,omitempty"`
}

const million = 1_000_000

// Problems implements [config.HostSection].
func (s *Settings) Problems(at *field.Path) (problems []error) {
	u, err := url.Parse(s.Endpoint)
	if s.Endpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		problems = append(problems, field.Invalid(at.Child("endpoint"), s.Endpoint, "must be a URL of the scheme http or https, such as http://127.0.0.1:4318/v1/traces"))
	}
	if rate := s.SamplingRatePerMillion; rate < 1 || rate > million {
		problems = append(problems, field.Invalid(at.Child("samplingRatePerMillion"), rate, fmt.Sprintf("must be between 1 and %d", million)))
	}
	return problems
}
