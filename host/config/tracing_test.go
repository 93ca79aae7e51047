package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTracingIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"tracing: {endpoint: 'https://collector:4318/v1/traces', samplingRatePerMillion: 1}": "",
		"tracing: {endpoint: 'localhost:4317'}":                                              "tracing.endpoint: Invalid value",
		"tracing: {endpoint: 'grpc://localhost:4317'}":                                       "tracing.endpoint: Invalid value",
		"tracing: {endpoint: 'http://:4318/v1/traces'}":                                      "tracing.endpoint: Invalid value",
		"tracing: {endpoint: 'http://a:b@host/v1/traces'}":                                   "tracing.endpoint: Invalid value",
		`tracing: {endpoint: "http://host/\x7f"}`:                                            "tracing.endpoint: Invalid value",
		"tracing: {samplingRatePerMillion: 1000001}":                                         "tracing.samplingRatePerMillion: Invalid value: 1000001: must be between 1 and 1000000",
		"tracing: {sampler: x}":                                                              `unknown field "tracing.sampler"`,
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		switch _, err := Read(path); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if rate := (Config{}).WithDefaults().Tracing.SamplingRatePerMillion; rate != 1_000_000 {
		t.Errorf("by default %d of a million runs are traced", rate)
	}
}
