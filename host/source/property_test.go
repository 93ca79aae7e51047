package source

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is a directory on which people and tools work, and what a snapshot of
// it may hold.
type model struct {
	*rapid.T
	dir      string
	d        *Directory
	passed   time.Duration
	writers  map[string]*os.File
	complete map[string]bool // digests of all contents that a file had while nobody wrote to it
	count    int
}

// TestSnapshotsNeverHoldPartialFiles: whatever is done to the files, a plugin's
// module and policy were complete at some time, provided that writers do not
// pause for StableFor. In the end they are those of the directory.
func TestSnapshotsNeverHoldPartialFiles(t *testing.T) { rapid.Check(t, partialFiles) }

func partialFiles(t *rapid.T) {
	dir, err := os.MkdirTemp("", "source")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	m := &model{T: t, dir: dir, writers: map[string]*os.File{}, complete: map[string]bool{}}
	defer m.closeAll()
	if m.d, err = NewDirectory(Config{Path: dir, Logger: discard}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	m.d.system.now = func() time.Time { return start.Add(m.passed) }
	t.Repeat(map[string]func(*rapid.T){
		"begin a copy":     m.begin,
		"continue a copy":  m.resume,
		"end a copy":       m.end,
		"replace":          m.replace,
		"remove":           m.remove,
		"rename":           m.rename,
		"link":             m.link,
		"restore its date": m.date,
		"time passes":      m.pass,
		"restart":          m.restart,
		"":                 m.scan,
	})
	m.closeAll()
	m.expectAll()
}

func (m *model) file(t *rapid.T) string {
	return filepath.Join(m.dir, rapid.SampledFrom([]string{"a.wasm", "a.yaml", "b.wasm", "b.yaml", "c.wasm", "other"}).Draw(t, "file"))
}

// text returns a text that is not the beginning of another one.
func (m *model) text() string {
	m.count++
	return fmt.Sprintf("%04d", m.count)
}

func (m *model) begin(t *rapid.T) {
	path := m.file(t)
	flags := os.O_CREATE | os.O_RDWR
	if rapid.Bool().Draw(t, "truncate") {
		flags |= os.O_TRUNC
	}
	if m.writers[path] != nil {
		t.Skip("the file is being written")
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		t.Skip(err) // a dangling link to a directory that is gone
	}
	m.writers[path] = f
	m.write(f)
}

func (m *model) writing(t *rapid.T) string {
	if len(m.writers) == 0 {
		t.Skip("no file is being written")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.writers))).Draw(t, "writer")
}

func (m *model) write(f *os.File) {
	if _, err := f.WriteString(m.text()); err != nil {
		m.Fatal(err)
	}
}

func (m *model) resume(t *rapid.T) { m.write(m.writers[m.writing(t)]) }

func (m *model) end(t *rapid.T) { m.close(m.writing(t)) }

// close ends a copy: the file is complete now, unless it has another writer
// under another name.
func (m *model) close(path string) {
	f := m.writers[path]
	delete(m.writers, path)
	info, err := f.Stat()
	if err != nil {
		m.Fatal(err)
	}
	data := make([]byte, info.Size())
	if _, err := f.ReadAt(data, 0); err != nil { // it may have no name any more
		m.Fatal(err)
	}
	f.Close()
	if !m.isWritten(info) {
		m.complete[digestOf(data)] = true
	}
}

func (m *model) isWritten(info os.FileInfo) bool {
	for _, w := range m.writers {
		if at, err := w.Stat(); err == nil && os.SameFile(info, at) {
			return true
		}
	}
	return false
}

func (m *model) closeAll() {
	for _, path := range slices.Sorted(maps.Keys(m.writers)) {
		m.close(path)
	}
}

func (m *model) replace(t *rapid.T) {
	path, text := m.file(t), m.text()
	next := filepath.Join(m.dir, ".next")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m.complete[digestOf([]byte(text))] = true
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func (m *model) remove(t *rapid.T) {
	if err := os.Remove(m.file(t)); err != nil {
		t.Skip(err)
	}
}

func (m *model) rename(t *rapid.T) {
	if err := os.Rename(m.file(t), m.file(t)); err != nil {
		t.Skip(err)
	}
}

func (m *model) link(t *rapid.T) {
	if err := os.Symlink(filepath.Base(m.file(t)), m.file(t)); err != nil {
		t.Skip(err)
	}
}

// date makes a file look as old as another one, as cp -p and rsync do.
func (m *model) date(t *rapid.T) {
	if err := os.Chtimes(m.file(t), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Skip(err)
	}
}

func (m *model) pass(t *rapid.T) {
	if len(m.writers) == 0 {
		m.passed += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
		return
	}
	m.passed += m.d.StableFor / 2
	for _, w := range m.writers {
		m.write(w)
	}
}

// restart forgets everything that was read.
func (m *model) restart(*rapid.T) { m.d.plugins = map[string]*pluginFiles{} }

// scan runs after each step.
func (m *model) scan(t *rapid.T) {
	snapshot, _, err := m.d.scan()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range snapshot {
		if p.Digest != "" && !m.complete[p.Digest] {
			t.Fatalf("the module of %s was never complete", p.Name)
		}
		if p.Policy != nil && !m.complete[digestOf(p.Policy)] {
			t.Fatalf("the policy of %s was never complete: %s", p.Name, p.Policy)
		}
	}
}

// expectAll compares the snapshot with the directory when no file is written.
func (m *model) expectAll() {
	m.settle()
	m.passed += coarsestTimestamp // changes with the same timestamp are found now
	snapshot := m.settle()
	got := map[string]string{}
	for _, p := range snapshot {
		got[p.Name] = fmt.Sprintf("%s %s %v %v", p.Digest, p.Policy, p.Err != nil, p.PolicyUnknown)
	}
	want := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		if plugin, ok := m.plugin(name); ok {
			want[name] = plugin
		}
	}
	if !maps.Equal(got, want) {
		m.Fatalf("got %v\nwant %v", got, want)
	}
}

func (m *model) settle() Snapshot {
	for {
		m.scan(m.T)
		snapshot, due, err := m.d.scan()
		if err != nil {
			m.Fatal(err)
		}
		if due.IsZero() {
			return snapshot
		}
		m.passed += max(0, due.Sub(m.d.system.now()))
	}
}

func (m *model) plugin(name string) (string, bool) {
	path := filepath.Join(m.dir, name)
	if _, err := os.Lstat(path + moduleExtension); err != nil {
		return "", false
	}
	var digest string
	wasm, moduleErr := os.ReadFile(path + moduleExtension)
	if moduleErr == nil {
		digest = digestOf(wasm)
	}
	policy, err := os.ReadFile(path + policyExtension)
	_, listed := os.Lstat(path + policyExtension)
	broken := err != nil && listed == nil
	return fmt.Sprintf("%s %s %v %v", digest, policy, moduleErr != nil || broken, broken), true
}
