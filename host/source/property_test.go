package source

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is a directory as people and tools work on it, beside what a scan may
// say of it.
type model struct {
	*rapid.T
	dir      string
	d        *Directory
	passed   time.Duration
	leases   bool
	writers  map[string]*os.File
	complete map[string]bool // digests of everything that a file ever held while nobody wrote it
	count    int
}

// TestNoPartialContentIsEverYielded: whatever is done to the files, a plugin's
// module and policy are ones that were whole at some time, and in the end they
// are those of the directory.
func TestNoPartialContentIsEverYielded(t *testing.T) {
	needLeases(newScene(t))
	rapid.Check(t, func(t *rapid.T) { property(t, true) })
}

// TestWithoutLeasesSteadyWritersAreNotReadHalfWay: where the system does not
// tell who writes, it holds for writers that do not pause for the settle time.
func TestWithoutLeasesSteadyWritersAreNotReadHalfWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { property(t, false) })
}

func property(t *rapid.T, leases bool) {
	dir, err := os.MkdirTemp("", "source")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	m := &model{T: t, dir: dir, leases: leases, writers: map[string]*os.File{}, complete: map[string]bool{}}
	defer m.closeAll()
	if m.d, err = NewDirectory(Config{Path: dir}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	m.d.system.now = func() time.Time { return start.Add(m.passed) }
	m.d.Logger = quiet
	if !leases {
		m.d.system.claim = func(*os.File) claim { return unclaimed(unknown, false) }
	}
	t.Repeat(map[string]func(*rapid.T){
		"begin a copy":     m.begin,
		"go on with it":    m.goOn,
		"end it":           m.end,
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

// text is never the beginning of another one.
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
		t.Skip("is being written")
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		t.Skip(err) // a dangling link to a directory that is gone
	}
	m.writers[path] = f
	m.put(f)
}

func (m *model) writing(t *rapid.T) string {
	if len(m.writers) == 0 {
		t.Skip("nobody writes")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.writers))).Draw(t, "writer")
}

func (m *model) put(f *os.File) {
	if _, err := f.WriteString(m.text()); err != nil {
		m.Fatal(err)
	}
}

func (m *model) goOn(t *rapid.T) { m.put(m.writers[m.writing(t)]) }

func (m *model) end(t *rapid.T) { m.close(m.writing(t)) }

// close ends a copy: what the file holds now is whole, unless it has another
// writer by another name.
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
		m.complete[digest(data)] = true
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
	m.complete[digest([]byte(text))] = true
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
	if m.leases || len(m.writers) == 0 {
		m.passed += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
		return
	}
	m.passed += m.d.Settle / 2
	for _, w := range m.writers {
		m.put(w)
	}
}

// restart forgets everything that the directory has seen.
func (m *model) restart(*rapid.T) { m.d.entries = map[string]*entry{} }

// scan runs after each step.
func (m *model) scan(t *rapid.T) {
	snapshot, _, err := m.d.scan()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range snapshot {
		if p.Digest != "" && !m.complete[p.Digest] {
			t.Fatalf("%s is a module that was never whole", p.Name)
		}
		if p.Policy != nil && !m.complete[digest(p.Policy)] {
			t.Fatalf("%s has a policy that was never whole: %s", p.Name, p.Policy)
		}
	}
}

// expectAll compares the snapshot with the directory when nobody writes.
func (m *model) expectAll() {
	var snapshot Snapshot
	for due, first := (time.Time{}), true; first || !due.IsZero(); first = false {
		m.passed += max(0, due.Sub(m.d.system.now()))
		m.scan(m.T)
		var err error
		if snapshot, due, err = m.d.scan(); err != nil {
			m.Fatal(err)
		}
	}
	got := map[string]string{}
	for _, p := range snapshot {
		got[p.Name] = fmt.Sprintf("%s %s %v", p.Digest, p.Policy, p.Err != nil)
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

func (m *model) plugin(name string) (string, bool) {
	path := filepath.Join(m.dir, name)
	if _, err := os.Lstat(path + extension); err != nil {
		return "", false
	}
	wasm, err := os.ReadFile(path + extension)
	if err != nil {
		return "  true", true
	}
	policy, err := os.ReadFile(path + policyExtension)
	_, listed := os.Lstat(path + policyExtension)
	broken := err != nil && listed == nil
	return strings.Join([]string{digest(wasm), string(policy), fmt.Sprint(broken)}, " "), true
}
