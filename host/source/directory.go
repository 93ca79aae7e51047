package source

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/hashicorp/go-hclog"
)

// Config configures a [Directory]. Path and Logger are required.
type Config struct {
	// Path is the directory. Each <name>.wasm in it is a plugin, and
	// <name>.yaml is the policy of that plugin.
	Path string
	// StableFor is how long the files of a plugin must be unchanged before
	// they are read, and missing before the plugin is gone. The default is
	// 100 ms: the period of Linux CPU quotas, for which a process that copies
	// a file may be stopped at a time.
	StableFor time.Duration
	// Period is the time between scans without a notification. The default is
	// 10 s.
	Period time.Duration
	// MaxFile is the largest module that is read, in bytes; default [MaxFile].
	MaxFile int64
	Logger  hclog.Logger
}

// Directory watches a directory of plugins.
type Directory struct {
	Config
	system     system
	plugins    map[string]*pluginFiles // by name
	orphans    map[string]bool         // files that reportOrphans has logged
	unreadable bool                    // the last scan could not read the directory
}

// system holds what tests replace: the clock, the opening of a plugin's file,
// and the creation of file notifications.
type system struct {
	now    func() time.Time
	open   func(path string) (*os.File, error)
	notify func() (*fsnotify.Watcher, error)
}

// NewDirectory returns a directory that is not watched yet. It fails if
// config.Path is not a directory.
func NewDirectory(config Config) (*Directory, error) {
	path, err := filepath.Abs(config.Path)
	if err != nil {
		return nil, fmt.Errorf("plugin directory %q: %w", config.Path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("plugin directory: %w; create it or name another one with --plugins", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("plugin directory %s: not a directory; name the directory that holds it with --plugins", path)
	}
	config.Path = path
	config.StableFor = cmp.Or(config.StableFor, 100*time.Millisecond)
	config.MaxFile = cmp.Or(config.MaxFile, MaxFile)
	config.Period = cmp.Or(config.Period, 10*time.Second)
	return &Directory{
		Config:  config,
		system:  system{now: time.Now, open: openFile, notify: fsnotify.NewWatcher},
		plugins: map[string]*pluginFiles{},
	}, nil
}

// Run scans at once and calls yield with the first snapshot and then with
// every one that differs from the one before, until ctx is done. The next scan
// starts after yield has returned.
//
// The first snapshot is delayed for files that are not stable yet, but not for
// longer than [maxDelay]. A host that starts therefore sees all plugins of its
// directory at once.
func (d *Directory) Run(ctx context.Context, yield func(Snapshot)) error {
	watch := newWatch(d.Path, d.system.notify, d.Logger)
	defer watch.close()
	schedule := newSchedule(d.Period, d.system.now())
	timer := time.NewTimer(0)
	defer timer.Stop()
	for last := (*Snapshot)(nil); ; timer.Reset(schedule.next().Sub(d.system.now())) {
		select {
		case <-ctx.Done():
			return nil
		case <-watch.changed:
			schedule.notified = true
			continue
		case <-timer.C:
		}
		// The watches are in place before the scan reads, so that a change is
		// either seen by this scan or leads to another one.
		watch.follow()
		begin := d.system.now()
		snapshot, due, err := d.scan()
		d.report(err)
		schedule.scanned(begin, d.system.now(), due)
		if err != nil || last == nil && schedule.delaysFirst(d.system.now()) {
			continue
		}
		if last == nil || !snapshot.equal(*last) {
			yield(snapshot)
		}
		last = &snapshot
	}
}

// report logs when the directory becomes unreadable and when it is readable
// again, once each.
func (d *Directory) report(err error) {
	switch {
	case err != nil && !d.unreadable:
		d.Logger.Error("cannot read the plugin directory, keeping the running plugins: create it, or let the user that the host runs as read it", "path", d.Path, "error", err)
	case err == nil && d.unreadable:
		d.Logger.Info("the plugin directory is readable again", "path", d.Path)
	}
	d.unreadable = err != nil
}
