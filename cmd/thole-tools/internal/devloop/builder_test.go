package devloop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/cmd/thole-tools/internal/crdgen"
	"github.com/thole-dev/thole/sdk/generate"
)

// bench is a running builder, with a compiler that copies main.go.
type bench struct {
	t      *testing.T
	dir    string // of the plugin
	events chan buildEvent
	// If hold is not nil, the compiler sends to compiling and then receives from
	// hold before it does anything.
	hold, compiling chan struct{}
}

func newBench(t *testing.T, hold chan struct{}) *bench {
	t.Helper()
	b := &bench{t: t, dir: filepath.Join(project(t), "plugin"), events: make(chan buildEvent), hold: hold, compiling: make(chan struct{}, 100)}
	w := newBuilder(b.dir, filepath.Dir(b.dir), filepath.Join(t.TempDir(), "build"), b, b)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx, b.events)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return b
}

func (b *bench) tags() string { return tinygo.tags() }

func (b *bench) compile(ctx context.Context, dir, out string) error {
	if b.hold != nil {
		b.compiling <- struct{}{}
		select {
		case <-b.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "main.go"))
	if err != nil {
		return err
	}
	if strings.Contains(string(text), "mistake") {
		return errors.New("# example.com/mine/plugin\nmain.go:7:8: mistake\n../shared/shared.go:1: another")
	}
	return os.WriteFile(out, text, 0o600)
}

func (b *bench) inspect(context.Context, *build) error { return nil }

func (b *bench) next() buildEvent {
	b.t.Helper()
	select {
	case e := <-b.events:
		return e
	case <-time.After(limit):
		b.t.Fatalf("no event within %s", limit)
		return buildEvent{}
	}
}

// expectBuild expects a build because of a change, and returns how it ended.
func (b *bench) expectBuild(changed ...string) *build {
	b.t.Helper()
	b.expectStarted(changed...)
	return b.expectEnded()
}

func (b *bench) expectStarted(changed ...string) {
	b.t.Helper()
	e := b.next()
	if e.started == nil {
		b.t.Fatalf("event %+v, want the start of a build", e)
	}
	var got []string
	for _, path := range e.started.changed {
		rel, err := filepath.Rel(b.dir, path)
		if err != nil {
			b.t.Fatal(err)
		}
		got = append(got, filepath.ToSlash(rel))
	}
	if !slices.Equal(got, changed) {
		b.t.Fatalf("changed are %q, want %q", got, changed)
	}
}

func (b *bench) expectEnded() *build {
	b.t.Helper()
	e := b.next()
	if e.ended == nil {
		b.t.Fatalf("event %+v, want the end of a build", e)
	}
	return e.ended
}

func (b *bench) expectBuilt(built *build, text string) {
	b.t.Helper()
	if built.err != nil || !strings.Contains(readText(b.t, built.file), text) {
		b.t.Fatalf("the build holds no %q: %v", text, built.err)
	}
}

func TestChangesOfSourcesAreBuilt(t *testing.T) {
	b := newBench(t, nil)
	b.expectBuilt(b.expectEnded(), "println(hello)")

	tree(t, b.dir, "main.go", readText(t, filepath.Join(b.dir, "main.go"))+"// second\n")
	b.expectBuilt(b.expectBuild("main.go"), "second")

	for _, file := range []string{"new.go", "texts/hello.txt", "../shared/shared.go", "../lib/deep/deep.go", "../go.sum"} {
		name := filepath.Base(filepath.Dir(filepath.Join(b.dir, file)))
		if file == "new.go" {
			name = "main"
		}
		tree(t, b.dir, file, "package "+name+"\n") // once: between two saves a build may begin
		b.expectBuild(file)
	}
	if err := os.Remove(filepath.Join(b.dir, "new.go")); err != nil {
		t.Fatal(err)
	}
	b.expectBuild("new.go")
}

func TestChangesOfOtherFilesAreNotBuilt(t *testing.T) {
	b := newBench(t, nil)
	b.expectEnded()
	// The last is a source: had one of the others counted, it would be reported
	// first, or with it.
	tree(t, b.dir, "main_test.go", "package main // changed\n", ".#main.go", "", "main.go.swp~", "", "../other/other.go", "package other // changed\n")
	tree(t, b.dir, "../shared/shared.go", "package shared // changed\n")
	b.expectBuild("../shared/shared.go")
}

func TestBuildAfterAMistakeAndItsCorrection(t *testing.T) {
	b := newBench(t, nil)
	b.expectEnded()
	right := readText(t, filepath.Join(b.dir, "main.go"))
	tree(t, b.dir, "main.go", right+"// mistake\n")
	if built := b.expectBuild("main.go"); built.err == nil || built.err.Error() != "# example.com/mine/plugin\nplugin/main.go:7:8: mistake\nshared/shared.go:1: another" {
		t.Errorf("error: %v", built.err)
	}
	tree(t, b.dir, "main.go", right+"// corrected\n")
	b.expectBuilt(b.expectBuild("main.go"), "corrected")
}

func TestChangeCancelsTheRunningBuild(t *testing.T) {
	hold := make(chan struct{})
	b := newBench(t, hold)
	<-b.compiling // and it does not end
	tree(t, b.dir, "../shared/shared.go", "package shared // first\n")
	b.expectStarted("../shared/shared.go")
	<-b.compiling
	tree(t, b.dir, "../shared/shared.go", "package shared // the second time\n")
	b.expectStarted("../shared/shared.go")
	close(hold)
	if built := b.expectEnded(); built.err != nil {
		t.Error(built.err)
	}
}

func TestChangesOfManifestsAreReportedWithoutABuild(t *testing.T) {
	hold := make(chan struct{}, 1)
	b := newBench(t, hold)
	<-b.compiling
	// The running build goes on.
	tree(t, b.dir, "policy.yaml", "dryRun: true\n")
	if e := b.next(); !slices.Equal(e.manifests, []string{"policy.yaml"}) {
		t.Fatalf("event %+v", e)
	}
	close(hold)
	b.expectEnded()
	if err := os.Remove(filepath.Join(b.dir, "policy.yaml")); err != nil {
		t.Fatal(err)
	}
	if e := b.next(); !slices.Equal(e.manifests, []string{"policy.yaml"}) {
		t.Fatalf("event %+v", e)
	}
}

// A generated file is kept up to date wherever in the module it is, and none is added to a
// module without one.
func TestGeneratedFilesOfImportedPackagesAreUpdated(t *testing.T) {
	dir := t.TempDir()
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	const api = "package v1\n\ntype Spec struct {\n\tText string `json:\"text\"`\n}\n"
	tree(t, dir,
		"go.mod", "module example.com/mine\n\ngo 1.26.0\n\nrequire github.com/thole-dev/thole v0.0.0\n\nreplace github.com/thole-dev/thole => "+root+"\n",
		"go.sum", readText(t, filepath.Join(root, "go.sum")),
		"plugin/main.go", `package main

import (
	"github.com/thole-dev/thole/sdk"

	v1 "example.com/mine/api/v1"
)

func init() {
	sdk.Register(sdk.Controller[v1.Spec, struct{}]{
		Name:      "mine",
		For:       sdk.Kind{APIVersion: "example.com/v1", Kind: "Mine"},
		Reconcile: func(*sdk.Request[v1.Spec, struct{}]) (sdk.Action, error) { return sdk.AwaitChange(), nil },
	})
}

func main() {}
`,
		"api/v1/types.go", api)
	b := newBuilder(filepath.Join(dir, "plugin"), dir, t.TempDir(), tinygo, nil)
	t.Cleanup(func() { b.watcher.run(t.Context(), func() {}) }) // which closes it
	update := func() {
		t.Helper()
		b.updateSources(t.Context())
		if err := b.generate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ours, imported := filepath.Join(dir, "plugin", generate.FileName), filepath.Join(dir, "api/v1", generate.FileName)
	if update(); exists(ours) || exists(imported) {
		t.Error("a file is generated that nobody asked for")
	}
	tree(t, dir, "api/v1/"+generate.FileName, "package v1\n")
	if update(); !strings.Contains(readText(t, imported), `"text"`) {
		t.Errorf("the codec is\n%s", readText(t, imported))
	}
	tree(t, dir, "api/v1/types.go", strings.Replace(api, "}\n", "\tMore int `json:\"more\"`\n}\n", 1))
	if update(); !strings.Contains(readText(t, imported), `"more"`) {
		t.Errorf("the codec is\n%s", readText(t, imported))
	}
}

// A crd.yaml that `thole generate crd` has written is updated by each build, and no other one is. The
// module of the package has no SDK, so that this fails.
func TestOnlyAGeneratedCRDIsGenerated(t *testing.T) {
	b := newBench(t, nil)
	b.expectEnded()
	main := readText(t, filepath.Join(b.dir, "main.go"))
	for i, crd := range []string{crdgen.Header, "# mine\n"} {
		tree(t, b.dir, "crd.yaml", crd)
		if e := b.next(); !slices.Equal(e.manifests, []string{"crd.yaml"}) {
			t.Fatalf("event %+v", e)
		}
		tree(t, b.dir, "main.go", main+strings.Repeat("// again\n", i+1))
		built := b.expectBuild("main.go")
		if tried := built.err != nil; tried != (crd == crdgen.Header) {
			t.Errorf("with %q: %v", crd, built.err)
		}
		if got := readText(t, filepath.Join(b.dir, "crd.yaml")); got != crd {
			t.Errorf("crd.yaml is %q", got)
		}
	}
}

func TestBuildTakesTheTimeOfARecentSave(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct{ last, want time.Time }{
		"just now":        {now.Add(-time.Second), now.Add(-time.Second)},
		"moved here":      {now.Add(-time.Hour), now},
		"another's clock": {now.Add(time.Hour), now},
		"removed":         {time.Time{}, now},
	} {
		if got := newBuild([]string{"x"}, c.last, now).saved; !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestModuleInspectorNamesThePlugin uses guests of the conformance kit. What name
// the manifest of one states is not assumed here.
func TestModuleInspectorNamesThePlugin(t *testing.T) {
	good, ok := tck.CaseOf("echo")
	if !ok {
		t.Fatal("the kit has no guest echo")
	}
	refused, ok := tck.CaseOf("unknown-import")
	if !ok {
		t.Fatal("the kit has no guest unknown-import")
	}
	inspected := func(i *moduleInspector, wasm []byte) *build {
		b := &build{file: filepath.Join(t.TempDir(), "new.wasm")}
		if err := os.WriteFile(b.file, wasm, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := i.inspect(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(b.file); err != nil || filepath.Base(b.file) != b.name+".wasm" {
			t.Errorf("the file of %q is %s: %v", b.name, b.file, err)
		}
		return b
	}
	i := &moduleInspector{known: "folder"}
	i.host.CacheDir = t.TempDir()
	b := inspected(i, good.Wasm())
	if b.name == "folder" || b.refused != "" || len(b.digest) != 64 {
		t.Errorf("a good module: %+v", b)
	}
	own := b.name
	if b := inspected(i, refused.Wasm()); b.name != own || b.refused == "" {
		t.Errorf("a refused module takes the place of the good one: %+v", b)
	}
	if b := inspected(i, []byte("no module")); b.name != own || b.refused == "" {
		t.Errorf("a file that is not a module: %+v", b)
	}
	i.wanted = "another"
	if b := inspected(i, good.Wasm()); b.name != "another" || !strings.Contains(b.refused, own) {
		t.Errorf("a module by another name: %+v", b)
	}
}
