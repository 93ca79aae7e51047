package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// TestTheFirstPluginOfTheREADME does what the README tells a newcomer: the
// plugin that it shows, in a module of its own, run on an object.
func TestTheFirstPluginOfTheREADME(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```go\npackage main")
	code, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("the README shows no plugin")
	}
	source := t.TempDir()
	write(t, source, "main.go", "package main"+code)
	write(t, source, "go.mod", fmt.Sprintf("module greeting\n\ngo 1.26\n\nrequire github.com/thole-dev/thole v0.0.0\n\nreplace github.com/thole-dev/thole => %s\n", root))

	tidy := exec.Command("go", "mod", "tidy")
	tidy.Dir = source
	if out, err := tidy.CombinedOutput(); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}

	greetings := schema.GroupVersionResource{Group: "example.thole.dev", Version: "v1", Resource: "greetings"}
	installCRD(t, "host/internal/e2e/testdata/greeting/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("greeting", wasmbuild.Build(t, wasmbuild.TinyGo, source))
	p := thole(t, d, ns, "")
	p.ready("greeting", 1)
	primary(t, greetings, "Greeting", ns, "first", map[string]any{"name": "world"})
	await.Until(t, "the ConfigMap greets", func() bool {
		return field(get(t, configMaps, ns, "first"), "data", "greeting") == "Hello, world" && ready(get(t, greetings, ns, "first"))
	})
	p.expectNoErrors()
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
