package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// scan reads what has changed in the directory. due is when to scan again for
// files that are not stable, zero if there are none.
//
// All stats are taken before any file is read, and a file is only read if it
// is still the one of which the stat was taken. Modules and policies of one
// snapshot therefore were in the directory together.
func (d *Directory) scan() (_ Snapshot, due time.Time, err error) {
	found, err := d.survey()
	if errors.Is(err, errReplaced) {
		due = d.system.now().Add(d.StableFor)
	}
	if err != nil {
		return nil, due, fmt.Errorf("read plugin directory: %w", err)
	}
	d.reportOrphans(found.files)
	now := d.system.now()
	var buffer bytes.Buffer // of all files, one after the other
	for name, seen := range found.plugins {
		due = earliest(due, d.pluginFiles(name).update(d, seen, now, &buffer))
	}
	return d.snapshot(), due, nil
}

// survey is what one scan finds before it reads files.
type survey struct {
	files   map[string]bool      // by name
	plugins map[string]fileStats // of all plugins, also of those whose files are gone
}

// attempts is how often something that changes meanwhile is looked at.
const attempts = 5

var errReplaced = errors.New("is being replaced again and again")

// survey takes the stats of all plugins. It is repeated if the directory
// changes meanwhile: half of the stats might be from before the change and
// half from after it, or all files might seem to be gone. If the directory
// changes all the time the last result is returned, provided that it is from
// one and the same directory.
func (d *Directory) survey() (result *survey, err error) {
	for range attempts {
		before, err := os.Stat(d.Path)
		if err != nil {
			return nil, err
		}
		found, listErr := d.list()
		after, err := os.Stat(d.Path)
		if err != nil || !os.SameFile(before, after) {
			result = nil
			continue
		}
		if listErr != nil {
			return nil, listErr
		}
		result = found
		if sameInfo(before, after) {
			return result, nil
		}
	}
	if result == nil {
		return nil, errReplaced
	}
	return result, nil
}

func (d *Directory) list() (*survey, error) {
	listed, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s := &survey{files: make(map[string]bool, len(listed)), plugins: make(map[string]fileStats, len(listed))}
	for _, f := range listed {
		s.files[f.Name()] = true
	}
	for file := range s.files {
		if name, ok := PluginName(file); ok {
			s.plugins[name] = stat(root, name, s.files)
		}
	}
	for name := range d.plugins {
		if _, ok := s.plugins[name]; !ok {
			s.plugins[name] = stat(root, name, s.files)
		}
	}
	return s, nil
}

// stat takes the stats of a plugin's files, as far as they are listed: with
// thousands of plugins it takes time to ask for policies that do not exist.
func stat(root *os.Root, name string, listed map[string]bool) (s fileStats) {
	if file := name + moduleExtension; listed[file] {
		s.module = statIn(root, file)
	}
	if file := name + policyExtension; listed[file] {
		s.policy = statIn(root, file)
	}
	return s
}

// snapshot returns every plugin as it was read last, and forgets those that
// are gone.
func (d *Directory) snapshot() Snapshot {
	var s Snapshot
	for name, p := range d.plugins {
		switch {
		case p.gone():
			delete(d.plugins, name)
		case p.plugin != nil:
			s = append(s, *p.plugin)
		}
	}
	slices.SortFunc(s, func(a, b Plugin) int { // two paths may have one printable name
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Path, b.Path))
	})
	return s
}
