package source

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/logtest"
)

func TestMain(m *testing.M) { await.Main(m, func() error { return goleak.Find() }) }

// start runs a directory and returns the channel of its snapshots.
func start(t *testing.T, c Config) <-chan Snapshot {
	t.Helper()
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	d, err := NewDirectory(c)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, d)
}

// run is [start] for a directory that exists already.
func run(t *testing.T, d *Directory) <-chan Snapshot {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	snapshots, done := make(chan Snapshot, 64), make(chan error, 1)
	go func() { done <- d.Run(ctx, func(s Snapshot) { snapshots <- s }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return snapshots
}

func next(t *testing.T, snapshots <-chan Snapshot) Snapshot {
	t.Helper()
	select {
	case s := <-snapshots:
		return s
	case <-time.After(await.Limit):
		t.Fatalf("no snapshot in %s", await.Limit)
		return nil
	}
}

// expectYield waits for a snapshot. Other ones may come before it: a scan may
// fall between two actions of a test.
func expectYield(t *testing.T, snapshots <-chan Snapshot, want string) {
	t.Helper()
	for got := ""; ; {
		select {
		case s := <-snapshots:
			if got = describe(s); got == want {
				return
			}
		case <-time.After(await.Limit):
			t.Fatalf("the last snapshot is %q, want %q", got, want)
		}
	}
}

// write creates or replaces a file by a rename.
func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	partial := filepath.Join(filepath.Dir(path), ".partial")
	if err := os.WriteFile(partial, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(partial, path); err != nil {
		t.Fatal(err)
	}
}

func describe(s Snapshot) string {
	var out []string
	for _, p := range s {
		out = append(out, p.Name+"="+contentOf(p))
	}
	return strings.Join(out, " ")
}

func contentOf(p Plugin) string {
	if p.Err != nil {
		return p.Err.Error()
	}
	wasm, err := p.Read()
	if err != nil {
		return err.Error()
	}
	return string(wasm)
}

// fixture is a directory that the test scans itself, by a clock that only the
// test advances.
type fixture struct {
	*testing.T
	dir  string
	d    *Directory
	due  time.Time // result of the last scan
	logs *logtest.Log

	start  time.Time
	passed time.Duration
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, dir: t.TempDir(), logs: logtest.New(hclog.Info), start: time.Now()}
	d, err := NewDirectory(Config{Path: f.dir, Logger: f.logs.Logger})
	if err != nil {
		t.Fatal(err)
	}
	d.system.now = func() time.Time { return f.start.Add(f.passed) }
	f.d = d
	return f
}

func (f *fixture) scan() Snapshot {
	f.Helper()
	snapshot, due, err := f.d.scan()
	if err != nil {
		f.Fatal(err)
	}
	f.due = due
	return snapshot
}

// settle scans until all files are stable.
func (f *fixture) settle() Snapshot {
	f.Helper()
	snapshot := f.scan()
	for range 100 {
		if f.due.IsZero() {
			return snapshot
		}
		f.passed += max(0, f.due.Sub(f.d.system.now()))
		snapshot = f.scan()
	}
	f.Fatal("files never became stable")
	return nil
}

func (f *fixture) write(name, content string) {
	f.Helper()
	write(f.T, f.dir, name, content)
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) remove(name string) {
	f.Helper()
	if err := os.Remove(f.path(name)); err != nil {
		f.Fatal(err)
	}
}

// open opens a file for writing as cp does: what it held is gone.
func (f *fixture) open(name string) *os.File {
	f.Helper()
	file, err := os.Create(f.path(name))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { file.Close() })
	return file
}

func (f *fixture) append(file *os.File, content string) {
	f.Helper()
	if _, err := file.WriteString(content); err != nil {
		f.Fatal(err)
	}
}

// expect compares a snapshot with what it should hold, "" for an empty one.
func (f *fixture) expect(got Snapshot, want string) {
	f.Helper()
	if text := describe(got); text != want {
		f.Errorf("snapshot is %q, want %q", text, want)
	}
}

func (f *fixture) expectSame(got, want Snapshot) {
	f.Helper()
	if !got.equal(want) {
		f.Errorf("snapshot is %v, want %v as before", got, want)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// replaceByLink replaces what is at the path by a symbolic link, atomically.
func replaceByLink(t *testing.T, target, path string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(path), "..next")
	link(t, target, next)
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func makeDirectory(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

var discard = hclog.NewNullLogger()
