package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func writeText(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const upstream = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: c}}]
current-context: a
`

func TestWrongUse(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	up := writeText(t, "kubeconfig", upstream)
	rules := writeText(t, "rules", "get pods lost\nget pods frob")
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"":                   {2, "--kubeconfig is required"},
		"--kubeconfig " + up: {2, "--kubeconfig-out is required"},
		"x":                  {2, `unexpected argument "x"`},
		"--frob":             {2, "unknown flag: --frob"},
		"--kubeconfig none --kubeconfig-out " + out:                                  {1, "read kubeconfig none: no such file"},
		"--kubeconfig " + up + " --kubeconfig-out " + out + "/x":                     {1, "write kubeconfig " + out + "/x: "},
		"--kubeconfig " + up + " --kubeconfig-out " + out + " --listen 0.0.0.0:0":    {2, `--listen: "0.0.0.0:0" is not a loopback address`},
		"--kubeconfig " + up + " --kubeconfig-out " + out + " --control x":           {2, `--control: "x" is not an address`},
		"--kubeconfig " + up + " --kubeconfig-out " + out + " --control localhost:0": {2, `--control: "localhost:0" is not a loopback address`},
		"--kubeconfig " + up + " --kubeconfig-out " + out + " --rules none":          {1, "read rules: open none"},
		"--kubeconfig " + up + " --kubeconfig-out " + out + " --rules " + rules:      {1, `line 2: unknown fault "frob"`},
	} {
		var stdout, stderr bytes.Buffer
		code := execute(t.Context(), strings.Fields(args), strings.NewReader(""), &stdout, &stderr)
		if code != want.code || !strings.Contains(stderr.String(), want.text) || stdout.Len() > 0 {
			t.Errorf("%s: %d, %s%s; want %d, %s", args, code, &stdout, &stderr, want.code, want.text)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a kubeconfig was written although nothing serves")
	}
}

func TestProxyStopsWhenItIsAskedTo(t *testing.T) {
	stdin, closeStdin := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		flag string
		stop func()
	}{"by its context": {"", cancel}, "with stdin": {"--stop-with-stdin", func() { closeStdin.Close() }}} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			args := append([]string{"--kubeconfig", writeText(t, "kubeconfig", upstream), "--kubeconfig-out", out}, strings.Fields(c.flag)...)
			ctx := ctx
			if c.flag != "" {
				ctx = t.Context()
			}
			reader, writer := io.Pipe()
			code := make(chan int)
			go func() { code <- execute(ctx, args, stdin, writer, io.Discard) }()
			line := make([]byte, 100)
			n, err := reader.Read(line)
			if err != nil || !strings.HasPrefix(string(line[:n]), "ready http://127.0.0.1:") || line[n-1] != '\n' {
				t.Fatalf("%q, %v", line[:n], err)
			}
			if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			c.stop()
			if got := <-code; got != 0 {
				t.Errorf("exit code %d", got)
			}
		})
	}
}
