package source

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/fsnotify/fsnotify"
	"github.com/hashicorp/go-hclog"
)

// watch tells that something happened in a directory, or to it. Where the
// system has no notifications the periodic scan is all there is.
type watch struct {
	path     string
	open     func() (*fsnotify.Watcher, error)
	logger   hclog.Logger
	happened chan struct{} // capacity 1

	watcher *fsnotify.Watcher // nil: there is none
	ended   chan struct{}     // closed when nothing is forwarded any more
	added   map[string]os.FileInfo
	way     atomic.Pointer[way]
	failing bool // people know that there are no notifications
}

func newWatch(path string, open func() (*fsnotify.Watcher, error), logger hclog.Logger) *watch {
	return &watch{path: path, open: open, logger: logger, happened: make(chan struct{}, 1), added: map[string]os.FileInfo{}}
}

func (w *watch) close() {
	if w.watcher != nil {
		w.watcher.Close()
		<-w.ended
	}
}

// follow makes sure that the directory of this name is the one that is
// watched: it may have been removed and made again, or a link on the way to
// it may lead to another one now. What happens to it after follow is told.
func (w *watch) follow() {
	err := w.start()
	if err == nil {
		err = w.add()
	}
	switch {
	case err != nil && !w.failing:
		w.logger.Warn("no file notifications, changes are found by the periodic scan"+remedy(err), "path", w.path, "error", err)
	case err == nil && w.failing:
		w.logger.Info("file notifications work", "path", w.path)
	}
	w.failing = err != nil
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

// start opens the watcher; where it could not be, it is tried at every scan.
func (w *watch) start() error {
	if w.watcher != nil {
		return nil
	}
	watcher, err := w.open()
	if err != nil {
		return err
	}
	w.watcher, w.ended = watcher, make(chan struct{})
	go w.forward(watcher)
	return nil
}

// add watches the way as it is now. What changes on it before the watches are
// there nobody tells: it is looked at again, up to a bound. A way that changes
// all the time is the next scan's.
func (w *watch) add() (err error) {
	for range attempts {
		now := wayTo(w.path)
		w.way.Store(&now)
		err = w.addAll(now)
		if w.holds(now) {
			break
		}
	}
	return err
}

// holds says whether the way is still the one that was added.
func (w *watch) holds(way way) bool {
	if !maps.Equal(wayTo(w.path).names, way.names) {
		return false
	}
	for dir, before := range w.added {
		if now, err := os.Stat(dir); err != nil || !os.SameFile(before, now) {
			return false
		}
	}
	return true
}

// addAll returns why the directory itself is not watched. Of the others on the
// way to it the periodic scan finds what is not told.
func (w *watch) addAll(way way) (failed error) {
	for dir := range w.added {
		if !way.directories[dir] {
			w.remove(dir)
		}
	}
	for dir := range way.directories {
		err := w.addOne(dir)
		if dir == way.end && !errors.Is(err, fs.ErrNotExist) { // gone again: the scan tells
			failed = err
		}
	}
	return failed
}

func (w *watch) addOne(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		w.remove(dir)
		return err
	}
	if before := w.added[dir]; before != nil && !os.SameFile(before, info) {
		w.remove(dir) // else the one that had this name is watched for ever
	}
	// Again also if it is watched: a directory that was moved away and back is
	// not any more.
	if err := w.watcher.Add(dir); err != nil {
		w.logger.Debug("a directory is not watched, the periodic scan finds what changes in it", "path", dir, "error", err)
		return err
	}
	w.added[dir] = info
	return nil
}

func (w *watch) remove(dir string) {
	delete(w.added, dir)
	_ = w.watcher.Remove(dir) // is an error if the directory is gone, and its watch with it
}

func (w *watch) forward(watcher *fsnotify.Watcher) {
	defer close(w.ended)
	for {
		select {
		case event, ok := <-watcher.Events:
			if !ok {
				return
			}
			if way := w.way.Load(); way != nil && !way.concerns(event.Name) {
				continue
			}
		case err, ok := <-watcher.Errors:
			if !ok {
				return
			}
			w.logger.Warn("file notifications", "error", err) // an overflow among others: scan
		}
		select {
		case w.happened <- struct{}{}:
		default: // one is pending already
		}
	}
}
