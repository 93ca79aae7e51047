package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// soakDirectory is a plugin directory with random operations on its files, as
// people and programs perform them, and a model of what a host must run after them.
type soakDirectory struct {
	directory
	t          *testing.T
	random     *rand.Rand
	modules    soakModules
	plugins    []*soakPlugin // operate leaves the first one alone
	pause      time.Duration // bound of the pauses in the middle of an operation
	version    int           // the newest of any plugin
	begin      time.Time
	operations []string // so far, for people
}

// soakPlugin is the model of one plugin.
type soakPlugin struct {
	index       int
	present     bool   // the file exists
	loadable    bool   // the file is a correct module
	version     string // of the file, if it is loadable
	note        string // in the policy
	policyValid bool

	// keepsRunning states that a correct revision has run since the plugin was last
	// removed. It keeps running when the file becomes bad.
	keepsRunning bool
	versions     map[string]bool // that may run: valid at some time since the last checkpoint
	notes        map[string]bool // that may be in force, likewise
}

func newSoakDirectory(t *testing.T, random *rand.Rand, plugins int, pause time.Duration) *soakDirectory {
	t.Helper()
	d := &soakDirectory{
		directory: directory{t, filepath.Join(t.TempDir(), "plugins")},
		t:         t, random: random, modules: newSoakModules(t), pause: pause, begin: time.Now(),
	}
	must(t, os.Mkdir(d.path, 0o755))
	for i := range plugins {
		p := &soakPlugin{index: i, policyValid: true, versions: map[string]bool{}, notes: map[string]bool{}}
		d.plugins = append(d.plugins, p)
		d.replace(p, d.modules.plain)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("operations on the directory:\n%s", strings.Join(d.operations, "\n"))
		}
	})
	return d
}

// record records an operation on a plugin, after which the present files may run.
func (d *soakDirectory) record(p *soakPlugin, format string, args ...any) {
	d.logf("%s: %s", p.name(), fmt.Sprintf(format, args...))
	p.allowPresent()
}

// logf adds a line to the operations.
func (d *soakDirectory) logf(format string, args ...any) {
	d.operations = append(d.operations, fmt.Sprintf("%8.3fs %s", time.Since(d.begin).Seconds(), fmt.Sprintf(format, args...)))
}

func (p *soakPlugin) name() string { return soakName(p.index) }

// allowPresent adds the present files to those that may run. A valid policy may be
// in force even if the module beside it is bad: then for the previous revision.
func (p *soakPlugin) allowPresent() {
	if p.present && p.policyValid {
		p.notes[p.note] = true
	}
	if p.valid() {
		p.versions[p.version] = true
	}
}

// valid reports whether the host must run the present files.
func (p *soakPlugin) valid() bool { return p.present && p.loadable && p.policyValid }

// settle records that a checkpoint has found a version running under a note; version
// is "" if none runs.
func (p *soakPlugin) settle(version, note string) {
	clear(p.versions)
	clear(p.notes)
	if p.keepsRunning = version != ""; p.keepsRunning {
		p.versions[version], p.notes[note] = true, true
	}
}

// operate performs a random operation on a random plugin.
func (d *soakDirectory) operate() {
	p := d.plugins[1+d.random.IntN(len(d.plugins)-1)]
	operations := []struct {
		weight int
		do     func(*soakPlugin)
	}{
		{20, func(p *soakPlugin) { d.replace(p, d.variant()) }},
		{15, d.corrupt},
		{15, d.overwriteInPlace},
		{8, d.remove},
		{8, d.renameTemporarily},
		{12, d.swapSymlinks},
		{10, d.writePolicy},
		{8, d.writeInvalidPolicy},
		{4, d.removePolicy},
		{4, d.createEditorFiles},
		{4, d.touch},
		{2, d.moveDirectoryTemporarily},
	}
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	n := d.random.IntN(total)
	for _, o := range operations {
		if n -= o.weight; n < 0 {
			o.do(p)
			return
		}
	}
}

// restore gives a plugin a plain module and no policy.
func (d *soakDirectory) restore(p *soakPlugin) {
	d.removePolicy(p)
	d.replace(p, d.modules.plain)
}

func (d *soakDirectory) variant() []byte {
	if d.random.IntN(4) == 0 {
		return d.modules.wide
	}
	return d.modules.plain
}

// next returns a variant as the next version of a plugin.
func (d *soakDirectory) next(p *soakPlugin, variant []byte) (wasm []byte, version string) {
	d.version++
	return soakModule(variant, p.index, d.version), soakVersion(d.version)
}

func (d *soakDirectory) file(p *soakPlugin) string { return filepath.Join(d.path, p.name()+".wasm") }

func (d *soakDirectory) policyFile(p *soakPlugin) string {
	return filepath.Join(d.path, p.name()+".yaml")
}

// randomPause waits for a random time, so that the host may or may not observe a
// state between two steps of an operation.
func (d *soakDirectory) randomPause() time.Duration {
	pause := time.Duration(d.random.Int64N(int64(d.pause)))
	<-time.After(pause)
	return pause.Round(time.Millisecond)
}
