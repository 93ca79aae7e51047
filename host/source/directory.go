package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/hashicorp/go-hclog"
)

// Config says which directory is watched and how.
type Config struct {
	Path   string        // the directory; each <name>.wasm in it is a plugin
	Quiet  time.Duration // how long nothing may happen before a scan; default 100 ms
	Period time.Duration // between scans without a notification; default 10 s
	Logger hclog.Logger
}

// Directory watches a directory of plugins.
type Directory struct {
	path   string
	quiet  time.Duration
	period time.Duration
	logger hclog.Logger
	files  map[string]seen

	failing bool // the last scan could not read the directory
}

// NewDirectory checks the configuration; it is an error that says what to do
// if the directory is not there.
func NewDirectory(c Config) (*Directory, error) {
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return nil, fmt.Errorf("plugin directory %q: %w", c.Path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("plugin directory: %w; create it or name another one with --plugins", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("plugin directory %s is a file; name the directory that holds it with --plugins", path)
	}
	d := &Directory{path: path, quiet: c.Quiet, period: c.Period, logger: c.Logger}
	if d.quiet == 0 {
		d.quiet = 100 * time.Millisecond
	}
	if d.period == 0 {
		d.period = 10 * time.Second
	}
	return d, nil
}

// Run scans at once and calls yield with the first snapshot and then with
// every one that differs from the one before, until ctx is done. yield must
// return before the next scan is made.
func (d *Directory) Run(ctx context.Context, yield func(Snapshot)) error {
	happened, follow := d.watch(ctx)
	tick := time.NewTicker(d.period)
	defer tick.Stop()
	quiet := time.NewTimer(0) // the first scan
	defer quiet.Stop()
	var last Snapshot
	for first := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-happened:
			quiet.Reset(d.quiet)
			continue
		case <-quiet.C:
		case <-tick.C:
		}
		follow() // before the scan: what happens from here on is told
		snapshot, err := d.Scan()
		d.report(err)
		if err != nil {
			continue // what runs goes on
		}
		if first || !snapshot.same(last) {
			yield(snapshot)
		}
		first, last = false, snapshot
	}
}

// report tells once that the directory is gone or not readable, and once that
// it is back.
func (d *Directory) report(err error) {
	switch {
	case err != nil && !d.failing:
		d.logger.Error("cannot read the plugin directory, the running plugins stay: put it back, it is looked for again", "error", err)
	case err == nil && d.failing:
		d.logger.Info("the plugin directory can be read again", "path", d.path)
	}
	d.failing = err != nil
}

// watch passes on that something happened in the directory, or to it. follow
// makes sure that the directory of this name is the one that is watched: it
// may have been removed and made again. Where the system has no notifications
// the periodic scan is all there is.
func (d *Directory) watch(ctx context.Context) (happened <-chan struct{}, follow func()) {
	tell := make(chan struct{}, 1)
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watcher.Add(d.path)
	}
	if err != nil {
		d.logger.Warn("no file notifications, changes are found by the periodic scan", "period", d.period, "error", err)
		if watcher != nil {
			watcher.Close()
		}
		return tell, func() {}
	}
	// The name of the directory is an entry of its parent.
	if err := watcher.Add(filepath.Dir(d.path)); err != nil {
		d.logger.Debug("a directory that is made again is found by the periodic scan", "period", d.period, "error", err)
	}
	go d.forward(ctx, watcher, tell)
	return tell, func() { _ = watcher.Add(d.path) } // fails while it is not there: the scan tells
}

func (d *Directory) forward(ctx context.Context, watcher *fsnotify.Watcher, happened chan<- struct{}) {
	defer watcher.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-watcher.Events:
			if !ok {
				return
			}
			if event.Name != d.path && filepath.Dir(event.Name) != d.path {
				continue // another entry of the parent
			}
		case err, ok := <-watcher.Errors:
			if !ok {
				return
			}
			d.logger.Warn("file notifications", "error", err) // an overflow among others: scan
		}
		select {
		case happened <- struct{}{}:
		default: // one is pending already
		}
	}
}
