package devloop

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Bounds of how a change is noticed. A notification means: look again. The
// periodic look is for file systems without notifications, and for what is
// missed.
const (
	quiet  = 50 * time.Millisecond // an editor writes a file in several steps
	period = 2 * time.Second
)

// watcher tells that something has happened in some directories.
type watcher struct {
	files   *fsnotify.Watcher // nil where the system has none: the periodic look is all there is
	watched map[string]bool
}

func newWatcher() *watcher {
	files, err := fsnotify.NewWatcher()
	if err != nil {
		files = nil
	}
	return &watcher{files: files, watched: map[string]bool{}}
}

// follow watches these directories and no others. One that is not there, or
// cannot be watched, is left to the periodic look.
func (w *watcher) follow(dirs map[string]bool) {
	if w.files == nil {
		return
	}
	for dir := range w.watched {
		if !dirs[dir] {
			_ = w.files.Remove(dir) // fails if it is gone
			delete(w.watched, dir)
		}
	}
	for dir := range dirs {
		// Again each time: a directory of this name may have been made anew.
		if w.files.Add(dir) == nil {
			w.watched[dir] = true
		}
	}
}

// run calls happened, which must not wait, until ctx is done.
func (w *watcher) run(ctx context.Context, happened func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	var events chan fsnotify.Event
	var errs chan error
	if w.files != nil {
		events, errs = w.files.Events, w.files.Errors
		defer w.files.Close()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
		case _, ok := <-errs: // an overflow among others: look
			if !ok {
				errs = nil
			}
		case <-tick.C:
		}
		happened()
	}
}
