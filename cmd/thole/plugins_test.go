package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/cmd/internal/commandtest"
)

func TestPluginsExitCodes(t *testing.T) {
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"name": "a", "state": "running"}]`))
	}))
	t.Cleanup(host.Close)
	at := "plugins --address " + host.URL
	commandtest.ExpectExitCodes(t, rootCommand, map[string]int{
		"plugins --help":                       0,
		at:                                     0,
		at + " a":                              0,
		at + " a -o wide":                      0,
		at + " -o json":                        0,
		at + " b":                              1,
		"plugins --address http://127.0.0.1:1": 1,
		at + "/elsewhere -o xml":               2,
		"plugins --address ftp://127.0.0.1":    2,
		"plugins --nonsense":                   2,
	})
	var stdout, stderr strings.Builder
	if code := command.Execute(t.Context(), rootCommand(), strings.Fields(at+" b"), &stdout, &stderr); code != 1 || stdout.Len() > 0 || stderr.String() != "thole: the host has no plugin \"b\"\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout.String(), stderr.String())
	}
}
