package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/cmd/internal/commandtest"
)

func TestMain(m *testing.M) {
	commandtest.Main(m, rootCommand)
}

// TestScripts runs what people type, and shows what they get.
func TestScripts(t *testing.T) {
	commandtest.RunScripts(t, nil)
}

func TestExitCodes(t *testing.T) {
	commandtest.ExpectExitCodes(t, rootCommand, map[string]int{
		"--help":                             0,
		"run --help":                         0,
		"":                                   2,
		"walk":                               2,
		"run --nonsense":                     2,
		"run extra":                          2,
		"run":                                2,
		"run --plugins d --config none.yaml": 2,
		"run --plugins d --log-format xml":   2,
		"run --plugins d --kubeconfig none":  1,
	})
}

// TestCredentialsThatAreNotAccepted: client-go's text asks for some, and does
// not say of whom.
func TestCredentialsThatAreNotAccepted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "clusters: [{name: c, cluster: {server: '" + server.URL + "'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	code := command.Execute(t.Context(), rootCommand(), []string{"finalizers", "demo", "--kubeconfig", file}, io.Discard, &said)
	if code != 1 || !strings.HasSuffix(said.String(), "; renew the credentials in the kubeconfig, or the token of the service account\n") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
}

// Whoever collects the log of a host must find there why it has ended.
func TestTheErrorThatEndsAHostIsALineOfItsLog(t *testing.T) {
	for format, want := range map[string]string{
		"json": `"@level":"error","@message":"the host has ended with an error","@module":"thole",`,
		"text": "thole: ",
	} {
		var said strings.Builder
		code := command.Execute(t.Context(), rootCommand(), []string{"run", "--plugins", "d", "--kubeconfig", "none\"x", "--log-format", format}, io.Discard, &said)
		if text := said.String(); code != 1 || !strings.Contains(text, want) || !strings.Contains(text, "none") || strings.Count(text, "\n") != 1 ||
			json.Valid([]byte(text)) != (format == "json") {
			t.Errorf("%s: exit code %d: %s", format, code, text)
		}
	}
}

func TestErrorsDoNotSteerTerminals(t *testing.T) {
	for _, args := range [][]string{{"config", "a\x1b[2Jb"}, {"run", "--nonsense\x1b[2J"}} {
		var said strings.Builder
		if code := command.Execute(t.Context(), rootCommand(), args, io.Discard, &said); code == 0 || strings.ContainsRune(said.String(), '\x1b') {
			t.Errorf("%q: exit code %d: %q", args, code, said.String())
		}
	}
}
