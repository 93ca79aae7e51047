package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sighting is a plugin as it looked in one survey.
type sighting struct {
	name           string
	module, policy look
}

// scan reads what is new in the directory. due is when to scan again because
// of files that are not settled, zero if there are none.
//
// The whole directory is looked at before any file is read, and a file is only
// read if it is still the one that was looked at: module and policies of one
// snapshot were there together.
func (d *Directory) scan() (_ Snapshot, due time.Time, err error) {
	sightings, err := d.survey()
	if errors.Is(err, errReplaced) {
		due = d.system.now().Add(d.Settle)
	}
	if err != nil {
		return nil, due, fmt.Errorf("read plugin directory: %w", err)
	}
	d.tellLone()
	w := &watcher{system: d.system, quiet: d.Quiet, settle: d.Settle, logger: d.Logger}
	for _, s := range sightings {
		due = earliest(due, d.entry(s.name).update(w, s))
	}
	return d.snapshot(), due, nil
}

// attempts is how often a directory is looked at that changes meanwhile.
const attempts = 5

var errReplaced = errors.New("it is replaced again and again")

// survey looks at every plugin, and at those that are gone. A directory that
// changes meanwhile is looked at again: half of its files might be of before
// and half of after, or all of them seem to be gone. If it changes all the
// time, what was seen last is taken as long as it is one directory.
func (d *Directory) survey() (sightings []sighting, err error) {
	for range attempts {
		before, err := os.Stat(d.Path)
		if err != nil {
			return nil, err
		}
		found, failed := d.lookAround()
		after, err := os.Stat(d.Path)
		if err != nil || !os.SameFile(before, after) {
			sightings = nil
			continue
		}
		if failed != nil {
			return nil, failed
		}
		sightings = found
		if statsOf(before) == statsOf(after) {
			return sightings, nil
		}
	}
	if sightings == nil {
		return nil, errReplaced
	}
	return sightings, nil
}

func (d *Directory) lookAround() ([]sighting, error) {
	listed, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, err
	}
	files := make(map[string]bool, len(listed))
	for _, f := range listed {
		files[f.Name()] = true
	}
	d.findLone(files)
	names := make(map[string]bool, len(d.entries))
	for name := range d.entries {
		names[name] = true
	}
	for file := range files {
		if name, ok := pluginName(file); ok {
			names[name] = true
		}
	}
	// Not nil: that is no survey.
	sightings := make([]sighting, 0, len(names))
	look := func(file string) (l look) {
		if files[file] { // asking for thousands of policies that are not there takes time
			l = lookAt(filepath.Join(d.Path, file))
		}
		return l
	}
	for name := range names {
		sightings = append(sightings, sighting{name, look(name + extension), look(name + policyExtension)})
	}
	return sightings, nil
}

// snapshot is of every plugin as it was seen last.
func (d *Directory) snapshot() Snapshot {
	var s Snapshot
	for name, e := range d.entries {
		switch {
		case e.gone():
			delete(d.entries, name)
		case e.seen:
			s = append(s, e.plugin)
		}
	}
	slices.SortFunc(s, func(a, b Plugin) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// entry is a plugin's place in the directory.
type entry struct {
	name           string
	module, policy file

	seen   bool // with both settled, once at least
	plugin Plugin
}

func (d *Directory) entry(name string) *entry {
	e := d.entries[name]
	if e == nil {
		path := filepath.Join(d.Path, name)
		e = &entry{
			name:   name,
			module: file{path: path + extension, kind: module},
			policy: file{path: path + policyExtension, kind: policy},
		}
		d.entries[name] = e
	}
	return e
}

// update takes over a plugin whose files are both settled: a module is never
// run under the policy of another one.
func (e *entry) update(w *watcher, s sighting) (due time.Time) {
	due = e.module.update(w, s.module)
	if due.IsZero() && !e.module.content.present {
		return time.Time{}
	}
	due = earliest(due, e.policy.update(w, s.policy))
	if due.IsZero() && (e.module.fresh || e.policy.fresh) {
		e.module.fresh, e.policy.fresh = false, false
		e.seen, e.plugin = true, e.compose()
	}
	return due
}

func (e *entry) gone() bool {
	return e.module.settled && !e.module.content.present && e.module.unsettled.IsZero()
}

// compose makes the plugin of its files. A policy that cannot be read is an
// error of the plugin: without it the plugin might be allowed more, or less,
// than was meant.
func (e *entry) compose() Plugin {
	p := Plugin{Name: printable(e.name), Path: e.module.path}
	if err := e.module.content.err; err != nil {
		p.Err = fmt.Errorf("read plugin %s: %w", p.Path, err)
		return p
	}
	p.Digest = e.module.content.digest
	p.Read = reader(p.Path, p.Digest)
	p.Policy = e.policy.content.data
	if err := e.policy.content.err; err != nil {
		p.Err = fmt.Errorf("read policy %s: %w", e.policy.path, err)
	}
	return p
}
