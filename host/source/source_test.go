package source

import (
	"context"
	"fmt"
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

// write makes or replaces a file at once: of a file that is being written a
// scan may see any part, and it would yield that.
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
		wasm, err := p.Read()
		if err != nil {
			wasm = []byte(err.Error())
		}
		out = append(out, p.Name+"="+string(wasm))
	}
	return strings.Join(out, " ")
}

func TestChangesOfTheDirectoryAreYielded(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "b.wasm", "1")
	write(t, dir, "notes.txt", "x")
	write(t, dir, ".hidden.wasm", "x")
	snapshots := follow(t, Config{Path: dir, Quiet: 20 * time.Millisecond, Period: time.Hour})

	if got := describe(next(t, snapshots)); got != "b=1" {
		t.Errorf("at start: %s", got)
	}
	write(t, dir, "a.wasm", "1")
	if got := describe(next(t, snapshots)); got != "a=1 b=1" {
		t.Errorf("after a new file: %s", got)
	}
	write(t, dir, "b.wasm", "2")
	if got := describe(next(t, snapshots)); got != "a=1 b=2" {
		t.Errorf("after a replacement: %s", got)
	}
	if err := os.Remove(filepath.Join(dir, "a.wasm")); err != nil {
		t.Fatal(err)
	}
	if got := describe(next(t, snapshots)); got != "b=2" {
		t.Errorf("after a removal: %s", got)
	}
}

func TestTouchedFilesYieldNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.wasm", "1")
	snapshots := follow(t, Config{Path: dir, Quiet: 10 * time.Millisecond, Period: time.Hour})
	next(t, snapshots)
	write(t, dir, "a.wasm", "1")
	write(t, dir, "b.wasm", "1") // the next snapshot must be about b alone
	if got := describe(next(t, snapshots)); got != "a=1 b=1" {
		t.Errorf("got %s", got)
	}
}

func TestConfigMapVolumesAreFollowed(t *testing.T) {
	// A ConfigMap volume is a link to ..data, a link to a dated directory, and
	// an update swaps ..data.
	dir := t.TempDir()
	for _, version := range []string{"..1", "..2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, dir, version+"/a.wasm", version)
	}
	link(t, "..1", filepath.Join(dir, "..data"))
	link(t, "..data/a.wasm", filepath.Join(dir, "a.wasm"))
	snapshots := follow(t, Config{Path: dir, Quiet: 10 * time.Millisecond, Period: time.Hour})
	if got := describe(next(t, snapshots)); got != "a=..1" {
		t.Errorf("at start: %s", got)
	}
	replaceByLink(t, "..2", filepath.Join(dir, "..data"))
	if got := describe(next(t, snapshots)); got != "a=..2" {
		t.Errorf("after the swap: %s", got)
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

func TestThePeriodicScanFindsWhatNobodyTold(t *testing.T) {
	dir := t.TempDir()
	snapshots := follow(t, Config{Path: dir, Quiet: time.Hour, Period: 20 * time.Millisecond})
	// With an hour of quiet time no notification leads to a scan.
	if got := describe(next(t, snapshots)); got != "" {
		t.Errorf("at start: %s", got)
	}
	write(t, dir, "a.wasm", "1")
	if got := describe(next(t, snapshots)); got != "a=1" {
		t.Errorf("got %s", got)
	}
}

func TestUnreadableFilesAreReportedAndOthersGoOn(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "good.wasm", "1")
	if err := os.Mkdir(filepath.Join(dir, "dir.wasm"), 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, "nowhere", filepath.Join(dir, "link.wasm"))
	big, err := os.Create(filepath.Join(dir, "big.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	if err := big.Truncate(MaxFile + 1); err != nil {
		t.Fatal(err)
	}
	big.Close()

	d, err := NewDirectory(Config{Path: dir, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := d.Scan()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"big": "larger than 16 MiB", "dir": "is a directory", "link": "symbolic link to a file that is not there", "good": ""}
	for _, p := range snapshot {
		text, ok := want[p.Name]
		if !ok || (text == "") != (p.Err == nil) || !strings.Contains(errorText(p.Err), text) {
			t.Errorf("%s: %v", p.Name, p.Err)
		}
		delete(want, p.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestAPolicyBelongsToItsPlugin(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.wasm", "1")
	write(t, dir, "b.yaml", "of no plugin")
	snapshots := follow(t, Config{Path: dir, Quiet: 10 * time.Millisecond, Period: time.Hour})
	if s := next(t, snapshots); len(s) != 1 || s[0].Policy != nil {
		t.Errorf("at start: %+v", s)
	}
	write(t, dir, "a.yaml", "crossNamespace: true")
	if s := next(t, snapshots); string(s[0].Policy) != "crossNamespace: true" {
		t.Errorf("with a policy: %+v", s)
	}
	replaceByLink(t, "nowhere", filepath.Join(dir, "a.yaml"))
	if s := next(t, snapshots); s[0].Err == nil || !strings.Contains(s[0].Err.Error(), "a.yaml") {
		t.Errorf("with an unreadable policy: %+v", s)
	}
}

// TestADirectoryThatComesBackIsFollowed, however it went: plugins may be put
// there by a mount, a link or a deployment tool.
func TestADirectoryThatComesBackIsFollowed(t *testing.T) {
	for name, away := range map[string]func(t *testing.T, dir string){
		"removed": func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		},
		"moved": func(t *testing.T, dir string) {
			if err := os.Rename(dir, dir+".old"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "plugins")
			makeDirectory(t, dir)
			write(t, dir, "a.wasm", "1")
			logs := make(chan string, 100)
			snapshots := follow(t, Config{Path: dir, Quiet: 10 * time.Millisecond, Period: time.Hour, Logger: hclog.New(&hclog.LoggerOptions{Output: lineWriter(logs)})})
			next(t, snapshots)
			for round := range 2 {
				away(t, dir)
				expectTold(t, logs, "cannot read the plugin directory")
				makeDirectory(t, dir)
				expectTold(t, logs, "can be read again")
				if got := describe(next(t, snapshots)); got != "" {
					t.Errorf("round %d: made again: %s", round, got)
				}
				write(t, dir, "a.wasm", "1")
				if got := describe(next(t, snapshots)); got != "a=1" {
					t.Errorf("round %d: filled again: %s", round, got)
				}
				if err := os.RemoveAll(dir + ".old"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestADirectoryThatIsMovedAwayHasAllItsFilesOrNone scans one that comes and
// goes all the time.
func TestADirectoryThatIsMovedAwayHasAllItsFilesOrNone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	makeDirectory(t, dir)
	const many = 50
	for i := range many {
		write(t, dir, fmt.Sprintf("p%d.wasm", i), "1")
	}
	d, err := NewDirectory(Config{Path: dir, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	moves := make(chan error)
	go func() {
		defer close(moves)
		for range 500 {
			moves <- os.Rename(dir, dir+".away")
			moves <- os.Rename(dir+".away", dir)
		}
	}()
	whole := 0
	for err := range moves { // a scan beside each move
		if err != nil {
			t.Fatal(err)
		}
		if snapshot, err := d.Scan(); err == nil {
			whole++
			if len(snapshot) != many {
				t.Fatalf("%d plugins of %d", len(snapshot), many)
			}
		}
	}
	if whole == 0 {
		t.Error("the directory was never there")
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

func TestAMissingDirectoryIsAClearError(t *testing.T) {
	_, err := NewDirectory(Config{Path: filepath.Join(t.TempDir(), "none")})
	if err == nil || !strings.Contains(err.Error(), "--plugins") {
		t.Errorf("got %v", err)
	}
}
