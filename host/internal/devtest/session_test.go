//go:build linux

package devtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/thole-dev/thole/host/internal/devcluster"
)

// TestSessionAtATerminal edits a plugin as an author does: the first build, a
// mistake, its correction with a new field, a plugin that is refused, another
// sample, Ctrl-C.
func TestSessionAtATerminal(t *testing.T) {
	w := newWork(t, "testdata/hello")
	term := inTerminal(t, w.thole("dev", "plugin"))
	term.shows("kubectl delete hello world") // the last line about a sample that is Ready
	w.expectStatus("hello, world", "")

	w.edit("main.go", `"hello, "`, `"goodbye, "`, `"0.1.0"`, `"0.2.0"`, "r.Status.Greeting", "r.Status.Farewell")
	term.shows("r.Status.Farewell undefined")
	w.expectStatus("hello, world", "")

	w.edit("main.go", `Greeting string`, "Farewell string `json:\"farewell,omitempty\"`\n\tGreeting string")
	term.shows("reloaded")
	w.expectStatus("hello, world", "goodbye, world")

	w.edit("main.go", `Name: "hello"`, `Name: "Hello!"`)
	term.shows("refused")
	w.edit("sample.yaml", "spec:\n  name: world", "spec:\n  name: moon")
	term.shows("greeted name=moon")
	term.shows("after it was applied") // what else is shown of the run is above
	w.expectStatus("hello, world", "goodbye, moon")

	term.interrupt()
	expectGolden(t, "session.golden", arrange(mask(term.ends(0))))
	w.expectNothingLeft()
}

// TestTheCRDFollowsTheTypes adds a field to the status, which the API server would drop by the
// schema of before.
func TestTheCRDFollowsTheTypes(t *testing.T) {
	t.Parallel()
	w := newWork(t, "testdata/hello")
	if err := os.Remove(filepath.Join(w.dir, "plugin", "crd.yaml")); err != nil {
		t.Fatal(err)
	}
	generate := exec.CommandContext(t.Context(), program, "generate", "crd", "plugin")
	generate.Dir = w.dir
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	term := inTerminal(t, w.thole("dev", "plugin"))
	term.shows("kubectl delete hello world")
	w.edit("main.go", "Greeting string", "Farewell string `json:\"farewell,omitempty\"`\n\tGreeting string",
		"r.Status.Greeting = text", "r.Status.Greeting, r.Status.Farewell = text, \"goodbye\"")
	term.shows("reloaded")
	w.expectStatus("hello, world", "goodbye")
	term.interrupt()
	expectInOrder(t, mask(term.ends(0)), "ready ", "changed    plugin/main.go", "changed    crd.yaml",
		"applied    CustomResourceDefinition hellos.example.com", "built ", "reloaded ")
	w.expectNothingLeft()
}

// TestNothingIsAppliedUnaskedToAnotherCluster: the plugin waits for its CRD there.
func TestNothingIsAppliedUnaskedToAnotherCluster(t *testing.T) {
	w, cluster := newWork(t, "testdata/hello"), devcluster.Start(t)
	client, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})

	term := inTerminal(t, w.command("dev", "--kubeconfig", cluster.Kubeconfig, "plugin"))
	term.shows("waits")
	term.interrupt()
	term.ends(0)
	if _, err := crds.Get(t.Context(), "hellos.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the CRD was applied: %v", err)
	}

	term = inTerminal(t, w.command("dev", "--kubeconfig", cluster.Kubeconfig, "--apply", "plugin"))
	term.shows("Hello default/world")
	term.interrupt()
	if text := term.ends(0); !strings.Contains(text, "what the plugin has made stays in the cluster") {
		t.Errorf("it does not show what is left:\n%s", text)
	}
	if _, err := client.Resource(hellos).Namespace("default").Get(t.Context(), "world", metav1.GetOptions{}); err != nil {
		t.Errorf("the sample was not applied: %v", err)
	}
	w.expectNothingLeft()
}

// masks hide what differs between sessions.
var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\r\n`), "\n"},
	{regexp.MustCompile(`\^C`), ""}, // the terminal's echo
	{regexp.MustCompile("\x1b\\[0m"), "{/}"},
	{regexp.MustCompile("\x1b\\[2m"), "{faint}"},
	{regexp.MustCompile("\x1b\\[31m"), "{red}"},
	{regexp.MustCompile("\x1b\\[32m"), "{green}"},
	{regexp.MustCompile("\x1b\\[33m"), "{yellow}"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "DIGEST"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`KUBECONFIG=\S+`), "KUBECONFIG=PATH"},
	{regexp.MustCompile(`\b\d+ KiB\b`), "SIZE"},
	{regexp.MustCompile(`\b(\d+(\.\d+)? m?s|(\d+h)?(\d+m)?\d+s)\b`), "TOOK"},
}

func mask(text string) string {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.with)
	}
	return text
}

// entry is a line of a session with the output that follows it.
var entry = regexp.MustCompile(`(?m)^(?:\{faint\})?TIME(?:\{/\})?  (\w+) .*\n(?:[^{T\n].*\n)*`)

// arrange moves the entries whose place differs between sessions to the end: the
// changes of objects and what follows from them come from watches of their own. A
// reconcile that writes nothing may happen any number of times and is left out.
func arrange(masked string) string {
	var elsewhere []string
	fixed := entry.ReplaceAllStringFunc(masked, func(text string) string {
		switch entry.FindStringSubmatch(text)[1] {
		case "object", "event", "ready", "try":
			elsewhere = append(elsewhere, text)
			return ""
		case "reconcile":
			if strings.Contains(text, "nothing to write") {
				return ""
			}
		}
		return text
	})
	slices.Sort(elsewhere)
	return fixed + "\n" + strings.Join(elsewhere, "")
}

func expectGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the session differs from %s, which -update writes:\n%s", path, got)
	}
}
