package sandbox

import (
	"slices"
	"strings"
	"testing"
)

func TestImportHintByModule(t *testing.T) {
	for symbol, want := range map[string]string{
		"thole/v1.outptu":                    `did you mean "thole/v1.output"?`,
		"wasi_snapshot_preview1.fd_wriet":    `did you mean "wasi_snapshot_preview1.fd_write"?`,
		"thole/v1.http_request":              "newer host",
		"thole/v1.something_quite_different": "newer host",
		"thole/v2.get":                       "another version",
		"env.abort":                          "target wasip1",
	} {
		module, _, _ := strings.Cut(symbol, ".")
		if got := importHint(symbol, module, Functions()); !strings.Contains(got, want) {
			t.Errorf("importHint(%q) = %q, want %q", symbol, got, want)
		}
	}
}

func TestFunctionsAreSortedAndComplete(t *testing.T) {
	all := Functions()
	for _, name := range []string{"thole/v1.get", "thole/v1.output", "wasi_snapshot_preview1.fd_write"} {
		if !slices.Contains(all, name) {
			t.Errorf("%s is missing in %q", name, all)
		}
	}
	if len(all) != len(contract{}.functions()) || !slices.IsSorted(all) {
		t.Errorf("%d functions, want %d in order", len(all), len(contract{}.functions()))
	}
}
