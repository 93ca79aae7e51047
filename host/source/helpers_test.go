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
)

func TestMain(m *testing.M) { await.Main(m, func() error { return goleak.Find() }) }

// follow runs a directory and returns the channel of its snapshots.
func follow(t *testing.T, c Config) <-chan Snapshot {
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

// run is [follow] for a directory that was made already.
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

// expectYield waits for a snapshot. Earlier ones may differ: where a test does
// several things one after the other, a scan may come in between.
func expectYield(t *testing.T, snapshots <-chan Snapshot, want string) {
	t.Helper()
	for got := ""; ; {
		select {
		case s := <-snapshots:
			if got = describe(s); got == want {
				return
			}
		case <-time.After(await.Limit):
			t.Fatalf("want %s, the last snapshot is %s", want, got)
		}
	}
}

// write makes or replaces a file at once.
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

// scene is a directory that is scanned when the test says so, by a clock that
// the test moves.
type scene struct {
	*testing.T
	dir  string
	d    *Directory
	due  time.Time // as the last scan returned it
	logs chan string

	start  time.Time
	passed time.Duration // by the scene's clock, which stands still by itself
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, dir: t.TempDir(), logs: make(chan string, 100), start: time.Now()}
	s.d = s.directory()
	return s
}

// directory is one that has seen nothing yet, as after a restart.
func (s *scene) directory() *Directory {
	s.Helper()
	d, err := NewDirectory(Config{Path: s.dir, Logger: hclog.New(&hclog.LoggerOptions{Output: lineWriter(s.logs)})})
	if err != nil {
		s.Fatal(err)
	}
	d.system.now = func() time.Time { return s.start.Add(s.passed) }
	return d
}

// withoutLeases stands the scene on a system that does not tell who writes.
func (s *scene) withoutLeases(local bool) *scene {
	s.d.system.claim = func(*os.File) claim { return unclaimed(unknown, local) }
	return s
}

func (s *scene) scan() Snapshot {
	s.Helper()
	snapshot, due, err := s.d.scan()
	if err != nil {
		s.Fatal(err)
	}
	s.due = due
	return snapshot
}

// settle scans until every file is settled.
func (s *scene) settle() Snapshot {
	s.Helper()
	snapshot := s.scan()
	for range 100 {
		if s.due.IsZero() {
			return snapshot
		}
		s.passed += max(0, s.due.Sub(s.d.system.now()))
		snapshot = s.scan()
	}
	s.Fatal("files that never settle")
	return nil
}

func (s *scene) write(name, content string) {
	s.Helper()
	write(s.T, s.dir, name, content)
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s *scene) remove(name string) {
	s.Helper()
	if err := os.Remove(s.path(name)); err != nil {
		s.Fatal(err)
	}
}

// open opens a file for writing as cp does.
func (s *scene) open(name string) *os.File {
	s.Helper()
	f, err := os.Create(s.path(name))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { f.Close() })
	return f
}

func (s *scene) put(f *os.File, content string) {
	s.Helper()
	if _, err := f.WriteString(content); err != nil {
		s.Fatal(err)
	}
}

// expect compares a snapshot with what it should hold, "" for an empty one.
func (s *scene) expect(got Snapshot, want string) {
	s.Helper()
	if text := describe(got); text != want {
		s.Errorf("got  %s\nwant %s", text, want)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// replaceByLink puts a link in the place of what is there, at once.
func replaceByLink(t *testing.T, target, path string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(path), "..next")
	link(t, target, next)
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func expectTold(t *testing.T, logs <-chan string, want string) {
	t.Helper()
	select {
	case line := <-logs:
		if !strings.Contains(line, want) {
			t.Errorf("told %s and not %s", line, want)
		}
	case <-time.After(await.Limit):
		t.Fatalf("not told: %s", want)
	}
}

func makeDirectory(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

// lineWriter sends what is logged, a line with each write.
type lineWriter chan string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

var quiet = hclog.NewNullLogger()
