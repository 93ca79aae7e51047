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
)

// bench is a workshop at work, with a compiler that copies main.go.
type bench struct {
	t    *testing.T
	dir  string // of the plugin
	news chan news
	// hold keeps the compiler until something is sent, if it is not nil;
	// compiling is told first.
	hold, compiling chan struct{}
}

func newBench(t *testing.T, hold chan struct{}) *bench {
	t.Helper()
	b := &bench{t: t, dir: filepath.Join(project(t), "plugin"), news: make(chan news), hold: hold, compiling: make(chan struct{}, 100)}
	w := newWorkshop(b.dir, filepath.Dir(b.dir), filepath.Join(t.TempDir(), "build"), b, b)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx, b.news)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return b
}

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

func (b *bench) next() news {
	b.t.Helper()
	select {
	case n := <-b.news:
		return n
	case <-time.After(limit):
		b.t.Fatalf("no news within %s", limit)
		return news{}
	}
}

// expectBuild expects a build because of a change, and returns how it ended.
func (b *bench) expectBuild(changed ...string) *build {
	b.t.Helper()
	b.expectBegun(changed...)
	return b.expectEnded()
}

func (b *bench) expectBegun(changed ...string) {
	b.t.Helper()
	n := b.next()
	if n.begun == nil {
		b.t.Fatalf("news %+v, want the begin of a build", n)
	}
	var got []string
	for _, path := range n.begun.changed {
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
	n := b.next()
	if n.ended == nil {
		b.t.Fatalf("news %+v, want the end of a build", n)
	}
	return n.ended
}

func (b *bench) expectBuilt(built *build, text string) {
	b.t.Helper()
	if built.err != nil || !strings.Contains(readText(b.t, built.file), text) {
		b.t.Fatalf("the build holds no %q: %v", text, built.err)
	}
}

func TestWhatABuildFollows(t *testing.T) {
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

func TestWhatABuildDoesNotFollow(t *testing.T) {
	b := newBench(t, nil)
	b.expectEnded()
	// The last is a source: had one of the others counted, it would be told
	// first, or with it.
	tree(t, b.dir, "main_test.go", "package main // changed\n", ".#main.go", "", "main.go.swp~", "", "../other/other.go", "package other // changed\n")
	tree(t, b.dir, "../shared/shared.go", "package shared // changed\n")
	b.expectBuild("../shared/shared.go")
}

func TestAMistakeAndItsCorrection(t *testing.T) {
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

func TestANewSaveGivesABuildUp(t *testing.T) {
	hold := make(chan struct{})
	b := newBench(t, hold)
	<-b.compiling // and does not end
	tree(t, b.dir, "../shared/shared.go", "package shared // first\n")
	b.expectBegun("../shared/shared.go")
	<-b.compiling
	tree(t, b.dir, "../shared/shared.go", "package shared // the second time\n")
	b.expectBegun("../shared/shared.go")
	close(hold)
	if built := b.expectEnded(); built.err != nil {
		t.Error(built.err)
	}
}

func TestFilesBesideAreToldAlone(t *testing.T) {
	hold := make(chan struct{}, 1)
	b := newBench(t, hold)
	<-b.compiling
	// The build under way goes on.
	tree(t, b.dir, "policy.yaml", "dryRun: true\n")
	if n := b.next(); !slices.Equal(n.beside, []string{"policy.yaml"}) {
		t.Fatalf("news %+v", n)
	}
	close(hold)
	b.expectEnded()
	if err := os.Remove(filepath.Join(b.dir, "policy.yaml")); err != nil {
		t.Fatal(err)
	}
	if n := b.next(); !slices.Equal(n.beside, []string{"policy.yaml"}) {
		t.Fatalf("news %+v", n)
	}
}

func TestWhenAFileWasSaved(t *testing.T) {
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
