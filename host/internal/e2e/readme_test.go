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

// The plugin that the README shows is built in a module of its own and reconciles
// the object that the README shows.
func TestPluginOfTheREADMEWorks(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	must(t, err)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	must(t, err)
	code := block(t, string(readme), "```go\npackage main")
	crd := block(t, string(readme), "```yaml\napiVersion: apiextensions.k8s.io")
	sample := block(t, string(readme), "```yaml\napiVersion: example.thole.dev")
	source := t.TempDir()
	writeFile(t, source, "main.go", code)
	writeFile(t, source, "go.mod", fmt.Sprintf(`module greeting

go 1.26

require github.com/thole-dev/thole v0.0.0

replace github.com/thole-dev/thole => %s
`, root))

	// Without the checksums of the repository, go would request them over the network.
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	must(t, err)
	writeFile(t, source, "go.sum", string(sums))
	tidy := exec.Command("go", "mod", "tidy")
	tidy.Dir = source
	if out, err := tidy.CombinedOutput(); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}

	greetings := schema.GroupVersionResource{Group: "example.thole.dev", Version: "v1", Resource: "greetings"}
	applyCRD(t, crd)
	ns, d := namespace(t), newDirectory(t)
	d.install("greeting", wasmbuild.Build(t, wasmbuild.TinyGo, source))
	p := start(t, d, ns, "")
	p.awaitRunning("greeting", 1)
	first := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(sample), &first.Object))
	first.SetNamespace(ns)
	_, err = objects.Resource(greetings).Namespace(ns).Create(t.Context(), first, metav1.CreateOptions{})
	must(t, err)
	await.Until(t, "the ConfigMap has the greeting", func() bool {
		return field(get(t, configMaps, ns, "first"), "data", "greeting") == "Hello, world" && ready(get(t, greetings, ns, "first"))
	})
	p.expectNoErrors()
}

// block returns the code block that begins with that text, without its fence.
func block(t *testing.T, text, begin string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, begin)
	code, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("the README has no code block that begins with %q", begin)
	}
	_, first, _ := strings.Cut(begin, "\n")
	return first + code
}
