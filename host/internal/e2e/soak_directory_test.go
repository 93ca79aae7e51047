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

// soakDirectory does to a directory of plugins what people and machines do, and
// knows what a host has to make of it.
type soakDirectory struct {
	t       *testing.T
	path    string
	random  *rand.Rand
	modules soakModules
	plugins []*soakPlugin // the first is never touched
	pause   time.Duration // the longest in the middle of an operation
	version int           // the newest of any plugin
	start   time.Time
	done    []string // the operations so far
}

// soakPlugin is one of the plugins.
type soakPlugin struct {
	index   int
	present bool   // its file is there
	sound   bool   // and is a module that can run
	version string // of the file, if it is sound
	note    string // in the policy
	allowed bool   // the policy is valid

	goesOn   bool            // a good generation runs and has not been removed since
	versions map[string]bool // that may run: were valid at some time since the last checkpoint
	notes    map[string]bool // likewise
}

func newSoakDirectory(t *testing.T, random *rand.Rand, plugins int, pause time.Duration) *soakDirectory {
	t.Helper()
	d := &soakDirectory{
		t: t, path: filepath.Join(t.TempDir(), "plugins"), random: random,
		modules: newSoakModules(t), pause: pause, start: time.Now(),
	}
	done(t, os.Mkdir(d.path, 0o755))
	for i := range plugins {
		p := &soakPlugin{index: i, allowed: true, versions: map[string]bool{}, notes: map[string]bool{}}
		d.plugins = append(d.plugins, p)
		d.replace(p, d.modules.plain)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("operations on the directory:\n%s", strings.Join(d.done, "\n"))
		}
	})
	return d
}

// did notes an operation and what may run after it.
func (d *soakDirectory) did(p *soakPlugin, format string, args ...any) {
	d.say("%s: %s", soakName(p.index), fmt.Sprintf(format, args...))
	p.may()
}

func (d *soakDirectory) say(format string, args ...any) {
	d.done = append(d.done, fmt.Sprintf("%8.3fs %s", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...)))
}

// may notes that what lies there now may run. A policy is followed by what runs
// beside a module that cannot.
func (p *soakPlugin) may() {
	if p.present && p.allowed {
		p.notes[p.note] = true
	}
	if p.valid() {
		p.versions[p.version] = true
	}
}

// valid says whether what lies there must run.
func (p *soakPlugin) valid() bool { return p.present && p.sound && p.allowed }

// settled notes that a checkpoint has found that version under that note, ""
// if none runs.
func (p *soakPlugin) settled(version, note string) {
	clear(p.versions)
	clear(p.notes)
	if p.goesOn = version != ""; p.goesOn {
		p.versions[version], p.notes[note] = true, true
	}
}

// operate does something to one of the plugins.
func (d *soakDirectory) operate() {
	p := d.plugins[1+d.random.IntN(len(d.plugins)-1)]
	operations := []struct {
		weight int
		do     func(*soakPlugin)
	}{
		{20, func(p *soakPlugin) { d.replace(p, d.variant()) }},
		{15, d.corrupt},
		{15, d.copyInPlace},
		{8, d.remove},
		{8, d.renameForAMoment},
		{12, d.swapLinks},
		{10, d.policy},
		{8, d.badPolicy},
		{4, d.noPolicy},
		{4, d.litter},
		{4, d.touch},
		{2, d.moveDirectory},
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

// restore makes a plugin run as one with a plain module and no policy.
func (d *soakDirectory) restore(p *soakPlugin) {
	d.noPolicy(p)
	d.replace(p, d.modules.plain)
}

func (d *soakDirectory) variant() []byte {
	if d.random.IntN(4) == 0 {
		return d.modules.wide
	}
	return d.modules.plain
}

// next makes another version of a plugin.
func (d *soakDirectory) next(p *soakPlugin, variant []byte) (wasm []byte, version string) {
	d.version++
	return soakModule(variant, p.index, d.version), soakVersion(d.version)
}

func (d *soakDirectory) file(p *soakPlugin) string {
	return filepath.Join(d.path, soakName(p.index)+".wasm")
}

func (d *soakDirectory) policyFile(p *soakPlugin) string {
	return filepath.Join(d.path, soakName(p.index)+".yaml")
}

// put writes a file as one is told to: by a rename.
func (d *soakDirectory) put(path string, content []byte) {
	d.t.Helper()
	partial := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".partial")
	done(d.t, os.WriteFile(partial, content, 0o644))
	done(d.t, os.Rename(partial, path))
}

// wait lets some time pass, so that the host sees what is half done, or not.
func (d *soakDirectory) wait() time.Duration {
	pause := time.Duration(d.random.Int64N(int64(d.pause)))
	<-time.After(pause)
	return pause.Round(time.Millisecond)
}
