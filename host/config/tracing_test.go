package config

import "testing"

func TestTracingIsChecked(t *testing.T) {
	expectRead(t, map[string]string{
		"tracing: {endpoint: 'https://collector:4318/v1/traces', samplingRatePerMillion: 1}": "",
		"tracing: {endpoint: 'localhost:4317'}":                                              "tracing.endpoint: Invalid value",
		"tracing: {endpoint: 'grpc://localhost:4317'}":                                       "tracing.endpoint: Invalid value",
		"tracing: {endpoint: 'http://:4318/v1/traces'}":                                      "tracing.endpoint: Invalid value",
		"tracing: {endpoint: 'http://a:b@host/v1/traces'}":                                   "tracing.endpoint: Invalid value",
		`tracing: {endpoint: "http://host/\x7f"}`:                                            "tracing.endpoint: Invalid value",
		"tracing: {samplingRatePerMillion: 1000001}":                                         "tracing.samplingRatePerMillion: Invalid value: 1000001: must be between 1 and 1000000",
		"tracing: {sampler: x}":                                                              `unknown field "tracing.sampler"`,
	})
	if rate := (Config{}).WithDefaults().Tracing.SamplingRatePerMillion; rate != 1_000_000 {
		t.Errorf("by default %d of a million runs are traced", rate)
	}
}
