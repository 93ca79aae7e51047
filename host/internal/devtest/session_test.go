//go:build linux

package devtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

// TestASessionAtATerminal edits a plugin as an author does: the first build, a
// mistake, its correction with a new field, a plugin that is refused, another
// sample, Ctrl-C.
func TestASessionAtATerminal(t *testing.T) {
	w := newWork(t)
	term := inTerminal(t, w.thole("dev", "hello"))
	term.shows("default/world: success")
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
	term.shows("default/world: success")
	w.expectStatus("hello, world", "goodbye, moon")

	term.interrupt()
	expectGolden(t, "session.golden", mask(term.ends(0)))
	w.expectNothingLeft()
}

// TestOutputThatIsNoTerminal: plain lines, and the end of the reader is the
// end of the session.
func TestOutputThatIsNoTerminal(t *testing.T) {
	w := newWork(t)
	cmd := w.thole("dev", "hello")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	pipe := &terminal{t: t, cmd: cmd, screen: reader}
	pipe.shows("ready in")
	if text := pipe.shown.String(); strings.Contains(text, "\x1b") {
		t.Errorf("escapes without a terminal: %q", text)
	}
	reader.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("it did not end well: %v", err)
	}
	w.expectNothingLeft()
}

// TestAGivenCluster: nothing is applied to it that the author has not asked
// for, and the plugin waits for its CRD.
func TestAGivenCluster(t *testing.T) {
	w, cluster := newWork(t), devcluster.Start(t)
	client, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})

	term := inTerminal(t, w.command("dev", "--kubeconfig", cluster.Kubeconfig, "hello"))
	term.shows("waits")
	term.interrupt()
	term.ends(0)
	if _, err := crds.Get(t.Context(), "hellos.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the CRD was applied unasked: %v", err)
	}

	term = inTerminal(t, w.command("dev", "--kubeconfig", cluster.Kubeconfig, "--apply", "hello"))
	term.shows("Hello default/world")
	term.interrupt()
	if text := term.ends(0); !strings.Contains(text, "what the plugin has made stays in the cluster") {
		t.Errorf("it is not said what is left:\n%s", text)
	}
	if _, err := client.Resource(hellos).Namespace("default").Get(t.Context(), "world", metav1.GetOptions{}); err != nil {
		t.Errorf("the sample was not applied: %v", err)
	}
	w.expectNothingLeft()
}

// work is an author's folder.
type work struct {
	t   *testing.T
	dir string // holds the module hello
	tmp string // what TMPDIR is
}

func newWork(t *testing.T) *work {
	t.Helper()
	w := &work{t: t, dir: t.TempDir(), tmp: t.TempDir()}
	if err := os.CopyFS(filepath.Join(w.dir, "hello"), os.DirFS("testdata/hello")); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	mod := fmt.Sprintf("module example.com/hello\n\ngo 1.26.0\n\nrequire %[1]s v0.0.0\n\nreplace %[1]s => %s\n", "github.com/thole-dev/thole", root)
	w.write("hello/go.mod", mod)
	w.write("hello/go.sum", string(sums))
	w.write("hello/main.go", w.read("hello/main.go.txt"))
	w.write("hello/zz_generated.thole.go", "package main\n") // stale
	w.write("host.yaml", fmt.Sprintf("cacheDir: %q\n", filepath.Join(w.dir, "cache")))
	return w
}

// thole is the program on a control plane of its own.
func (w *work) thole(args ...string) *exec.Cmd {
	w.t.Helper()
	control, err := devcluster.Binary()
	if err != nil {
		w.t.Fatal(err)
	}
	return w.command(append(args, "--devcluster", control)...)
}

// command is the program in the author's folder.
func (w *work) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, append(args, "--config", "host.yaml")...)
	if tinygo := ourTinyGo(); tinygo != "" {
		cmd.Args = append(cmd.Args, "--tinygo", tinygo)
	}
	cmd.Dir = w.dir
	// A go command that made a directory there would leave it when it is killed.
	gotmp := filepath.Join(w.tmp, "not-there")
	cmd.Env = append(os.Environ(), "TMPDIR="+w.tmp, "GOTMPDIR="+gotmp, "TERM=xterm", "NO_COLOR=")
	return cmd
}

// ourTinyGo is the one that `make tools` has built; "" if that of the PATH was
// good enough.
func ourTinyGo() string {
	path, err := filepath.Abs("../../../.tools/tinygo/bin/tinygo")
	if err != nil {
		return ""
	}
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

func (w *work) read(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// write replaces a file by a rename, as editors do.
func (w *work) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	partial := filepath.Join(filepath.Dir(path), ".partial~")
	if err := os.WriteFile(partial, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(partial, path); err != nil {
		w.t.Fatal(err)
	}
}

// edit replaces texts in a file of the plugin: old and new, old and new.
func (w *work) edit(name string, replacements ...string) {
	w.t.Helper()
	text := w.read("hello/" + name)
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(text, replacements[i]) {
			w.t.Fatalf("%s: no %q to replace", name, replacements[i])
		}
	}
	w.write("hello/"+name, strings.NewReplacer(replacements...).Replace(text))
}

var hellos = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "hellos"}

// expectStatus asks the control plane as kubectl would, by the kubeconfig that
// the session shows.
func (w *work) expectStatus(greeting, farewell string) {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.tmp, "thole-dev-*", "kubeconfig"))
	if err != nil || len(found) != 1 {
		w.t.Fatalf("kubeconfigs: %q, %v", found, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", found[0])
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	o, err := client.Resource(hellos).Namespace("default").Get(w.t.Context(), "world", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for field, want := range map[string]string{"greeting": greeting, "farewell": farewell} {
		if got, _, _ := unstructured.NestedString(o.Object, "status", field); got != want {
			w.t.Errorf("status.%s is %q, want %q", field, got, want)
		}
	}
}

// expectNothingLeft fails if a file or a process of the session is left.
func (w *work) expectNothingLeft() {
	w.t.Helper()
	entries, err := os.ReadDir(w.tmp)
	if err != nil || len(entries) > 0 {
		w.t.Errorf("left: %v, %v", entries, err)
	}
	await.Until(w.t, "the processes of the session are gone", func() bool { return len(w.processes()) == 0 })
}

// processes are those that run with the session's TMPDIR.
func (w *work) processes() (paths []string) {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, path := range environments {
		environment, err := os.ReadFile(path) // fails when it has ended
		if err == nil && bytes.Contains(environment, []byte("TMPDIR="+w.tmp+"\x00")) {
			paths = append(paths, path)
		}
	}
	return paths
}

// masks take out what is another with each session.
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
	// One run more is the host's right: at a swap an object may be told of
	// twice.
	{regexp.MustCompile(`(?m)^.*  reconcile  .*, nothing to write, .*\n`), ""},
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
		t.Errorf("shown is not what %s holds; -update writes it:\n%s", path, got)
	}
}
