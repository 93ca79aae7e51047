//go:build linux

package devtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

// work is the directory of an author.
type work struct {
	t   *testing.T
	dir string // has the plugin, a module, in its subdirectory plugin
	tmp string // TMPDIR of the session
}

// newWork copies the source of a plugin.
func newWork(t *testing.T, source string) *work {
	t.Helper()
	w := &work{t: t, dir: t.TempDir(), tmp: t.TempDir()}
	if err := os.CopyFS(filepath.Join(w.dir, "plugin"), os.DirFS(source)); err != nil {
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
	mod := fmt.Sprintf("module example.com/plugin\n\ngo 1.26.0\n\nrequire %[1]s v0.0.0\n\nreplace %[1]s => %s\n", "github.com/thole-dev/thole", root)
	w.write("plugin/go.mod", mod)
	w.write("plugin/go.sum", string(sums))
	if _, err := os.Stat(filepath.Join(w.dir, "plugin/main.go.txt")); err == nil {
		w.write("plugin/main.go", w.read("plugin/main.go.txt"))
		w.write("plugin/zz_generated.thole.go", "package main\n") // stale
	}
	w.write("host.yaml", fmt.Sprintf("cacheDir: %q\n", filepath.Join(w.dir, "cache")))
	return w
}

// thole is a command of thole with a control plane of its own.
func (w *work) thole(args ...string) *exec.Cmd {
	w.t.Helper()
	control, err := devcluster.Binary()
	if err != nil {
		w.t.Fatal(err)
	}
	return w.command(append(args, "--devcluster", control)...)
}

// command is a command of thole in the author's directory.
func (w *work) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, append(args, "--config", "host.yaml")...)
	if tinygo := ourTinyGo(); tinygo != "" && !slices.Contains(args, "--go") {
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
	text := w.read("plugin/" + name)
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(text, replacements[i]) {
			w.t.Fatalf("%s: no %q to replace", name, replacements[i])
		}
	}
	w.write("plugin/"+name, strings.NewReplacer(replacements...).Replace(text))
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

// processes returns the directories in /proc of the processes with the session's
// TMPDIR.
func (w *work) processes() (dirs []string) {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, path := range environments {
		environment, err := os.ReadFile(path) // fails when it has ended
		if err == nil && bytes.Contains(environment, []byte("TMPDIR="+w.tmp+"\x00")) {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	return dirs
}

// controlPlane returns the id of the process that runs the session's control plane.
// Its components are processes of the same program, in no order of their ids.
func (w *work) controlPlane() int {
	w.t.Helper()
	for _, dir := range w.processes() {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // fails when it has ended
		args := strings.Split(string(line), "\x00")
		if filepath.Base(args[0]) != "thole-devcluster" || args[1] == "component" {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			w.t.Fatal(err)
		}
		return id
	}
	w.t.Fatal("no process runs the control plane")
	return 0
}
