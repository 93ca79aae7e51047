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
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	case <-time.After(10 * time.Second):
		t.Fatal("no snapshot in 10 s")
		return nil
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func describe(s Snapshot) string {
	var out []string
	for _, p := range s {
		out = append(out, p.Name+"="+string(p.Wasm))
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
	write(t, dir, ".b.tmp", "2")
	if err := os.Rename(filepath.Join(dir, ".b.tmp"), filepath.Join(dir, "b.wasm")); err != nil {
		t.Fatal(err)
	}
	if got := describe(next(t, snapshots)); got != "a=1 b=2" {
		t.Errorf("after a rename: %s", got)
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
	link(t, "..2", filepath.Join(dir, "..data_tmp"))
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
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
	if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	link(t, "nowhere", filepath.Join(dir, "a.yaml"))
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
				if line := <-logs; !strings.Contains(line, "cannot read the plugin directory") {
					t.Errorf("round %d: told %s", round, line)
				}
				makeDirectory(t, dir)
				if line := <-logs; !strings.Contains(line, "can be read again") {
					t.Errorf("round %d: told %s", round, line)
				}
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
