package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Config says which directory is watched and how.
type Config struct {
	Path   string        // the directory; each <name>.wasm in it is a plugin
	Quiet  time.Duration // how long nothing may happen before a scan; default 25 ms
	Settle time.Duration // how long a file must stay as it is where the system cannot tell who writes it, or stay away; default 100 ms
	Period time.Duration // between scans without a notification; default 10 s
	Logger hclog.Logger
}

// patience bounds what could be put off for ever: a scan while notifications
// never stop, the first snapshot while a file is never settled, the next look
// at such a file.
const patience = time.Second

// Directory watches a directory of plugins.
type Directory struct {
	Config
	system  system
	entries map[string]*entry // by the plugin's name
	failing bool              // the last scan could not read the directory
	lone    map[string]bool   // policies without a module; true: that was told
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
	c.Path = path
	return &Directory{Config: c.withDefaults(), system: realSystem, entries: map[string]*entry{}, lone: map[string]bool{}}, nil
}

func (c Config) withDefaults() Config {
	if c.Quiet == 0 {
		c.Quiet = 25 * time.Millisecond
	}
	if c.Settle == 0 {
		c.Settle = 100 * time.Millisecond
	}
	if c.Period == 0 {
		c.Period = 10 * time.Second
	}
	return c
}

// Run scans at once and calls yield with the first snapshot and then with
// every one that differs from the one before, until ctx is done. yield must
// return before the next scan is made.
//
// The first snapshot waits a second at most for files that are not settled:
// whoever starts with it starts with all plugins.
func (d *Directory) Run(ctx context.Context, yield func(Snapshot)) error {
	watch := newWatch(d.Path, d.system.notify, d.Logger)
	defer watch.close()
	plan := newSchedule(d.Config, d.system.now())
	timer := time.NewTimer(0)
	defer timer.Stop()
	for last := (*Snapshot)(nil); ; timer.Reset(plan.next().Sub(d.system.now())) {
		select {
		case <-ctx.Done():
			return nil
		case <-watch.happened:
			plan.notified(d.system.now())
			continue
		case <-timer.C:
		}
		watch.follow() // before the scan: what happens from here on is told
		begin := d.system.now()
		snapshot, due, err := d.scan()
		d.report(err)
		plan.scanned(begin, d.system.now(), due)
		if err != nil || last == nil && plan.waits(d.system.now()) {
			continue // what runs goes on
		}
		if last == nil || !snapshot.same(*last) {
			yield(snapshot)
		}
		last = &snapshot
	}
}

// report tells once that the directory is gone or not readable, and once that
// it is back.
func (d *Directory) report(err error) {
	switch {
	case err != nil && !d.failing:
		d.Logger.Error("cannot read the plugin directory, the running plugins stay: put it back, or let the host read it; it is looked for again", "error", err)
	case err == nil && d.failing:
		d.Logger.Info("the plugin directory can be read again", "path", d.Path)
	}
	d.failing = err != nil
}
