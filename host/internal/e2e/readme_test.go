package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

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
	code := block(t, string(readme), "```go\npackage main")
	crd := block(t, string(readme), "```yaml\napiVersion: apiextensions.k8s.io")
	sample := block(t, string(readme), "```yaml\napiVersion: example.thole.dev")
	source := t.TempDir()
	write(t, source, "main.go", code)
	write(t, source, "go.mod", fmt.Sprintf("module greeting\n\ngo 1.26\n\nrequire github.com/thole-dev/thole v0.0.0\n\nreplace github.com/thole-dev/thole => %s\n", root))

	// Those of the repository, or a database in the network is asked for them.
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	done(t, err)
	write(t, source, "go.sum", string(sums))
	tidy := exec.Command("go", "mod", "tidy")
	tidy.Dir = source
	if out, err := tidy.CombinedOutput(); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}

	greetings := schema.GroupVersionResource{Group: "example.thole.dev", Version: "v1", Resource: "greetings"}
	installCRDText(t, crd)
	ns, d := namespace(t), newDirectory(t)
	d.install("greeting", wasmbuild.Build(t, wasmbuild.TinyGo, source))
	p := thole(t, d, ns, "")
	p.ready("greeting", 1)
	first := &unstructured.Unstructured{}
	done(t, yaml.Unmarshal([]byte(sample), &first.Object))
	first.SetNamespace(ns)
	_, err = objects.Resource(greetings).Namespace(ns).Create(t.Context(), first, metav1.CreateOptions{})
	done(t, err)
	await.Until(t, "the ConfigMap greets", func() bool {
		return field(get(t, configMaps, ns, "first"), "data", "greeting") == "Hello, world" && ready(get(t, greetings, ns, "first"))
	})
	p.expectNoErrors()
}

// block returns the code that begins like this, up to its end.
func block(t *testing.T, text, begin string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, begin)
	code, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("the README shows nothing that begins with %q", begin)
	}
	_, first, _ := strings.Cut(begin, "\n")
	return first + code
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
