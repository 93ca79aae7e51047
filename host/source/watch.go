package source

import (
	"errors"
	"io/fs"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
	"github.com/hashicorp/go-hclog"
)

// watch reports that something has happened in a directory or to it. Where the
// system has no notifications it reports nothing.
type watch struct {
	path    string
	open    func() (*fsnotify.Watcher, error)
	logger  hclog.Logger
	changed chan struct{} // capacity 1: receives after any number of changes

	watcher     *fsnotify.Watcher // of resolved; nil if there is none
	resolved    resolvedPath
	forwarding  sync.WaitGroup // the goroutine that reads watcher's events
	unavailable bool           // that there are no notifications was logged
}

func newWatch(path string, open func() (*fsnotify.Watcher, error), logger hclog.Logger) *watch {
	return &watch{path: path, open: open, logger: logger, changed: make(chan struct{}, 1)}
}

func (w *watch) close() {
	if w.watcher != nil {
		_ = w.watcher.Close() // nothing is lost with a watcher that does not close
		w.forwarding.Wait()
		w.watcher = nil
	}
}

// follow watches the directory to which the path leads now. It may have been
// removed and created again, or a link may have been changed. What happens
// after follow has returned is reported.
func (w *watch) follow() {
	err := w.watchResolved()
	switch {
	case err != nil && !w.unavailable:
		w.logger.Warn("no file notifications, the periodic scan finds changes"+remedy(err), "path", w.path, "error", err)
	case err == nil && w.unavailable:
		w.logger.Info("file notifications work again", "path", w.path)
	}
	w.unavailable = err != nil
}

func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return ": raise the number of open files, or fs.inotify.max_user_instances"
	case errors.Is(err, syscall.ENOSPC):
		return ": raise fs.inotify.max_user_watches"
	}
	return ""
}

// watchResolved repeats the resolution after the watches were added, because a
// change before that is not reported. A path that changes all the time is left
// to the next scan.
func (w *watch) watchResolved() (err error) {
	for range attempts {
		now := resolvePath(w.path)
		if w.watcher == nil || !now.equal(w.resolved) {
			if err = w.reopen(now); err != nil {
				return err
			}
		}
		if err = w.add(); resolvePath(w.path).equal(now) {
			break
		}
	}
	return err
}

// reopen replaces the watcher. Events that the old one has not delivered do
// not matter, because a scan follows.
func (w *watch) reopen(resolved resolvedPath) error {
	w.close()
	watcher, err := w.open()
	if err != nil {
		return err
	}
	w.watcher, w.resolved = watcher, resolved
	w.forwarding.Go(func() { w.forward(watcher, resolved) })
	return nil
}

// add returns why the target is not watched. Changes of the other directories
// are found by the periodic scan if they cannot be watched. A directory is
// also added when it is watched already: the kernel drops the watch of one
// that was moved away and back.
func (w *watch) add() (failed error) {
	for dir := range w.resolved.directories {
		err := w.watcher.Add(dir)
		if err != nil {
			w.logger.Debug("directory is not watched, the periodic scan finds its changes", "path", dir, "error", err)
		}
		if dir == w.resolved.target && !errors.Is(err, fs.ErrNotExist) { // the scan reports a missing one
			failed = err
		}
	}
	return failed
}

func (w *watch) forward(watcher *fsnotify.Watcher, resolved resolvedPath) {
	for {
		select {
		case event, ok := <-watcher.Events:
			if !ok {
				return
			}
			if !resolved.concerns(event.Name) {
				continue
			}
		case err, ok := <-watcher.Errors:
			if !ok {
				return
			}
			w.logger.Warn("file notifications were lost, scanning the directory", "path", w.path, "error", err)
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}
