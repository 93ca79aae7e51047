package source

import (
	"bytes"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"
)

// file follows one file: what it held when it was settled last, and what it
// has looked like since.
type file struct {
	path string
	kind kind

	settled bool    // once at least: content and look are set
	content content // then
	look    look    // then
	blurred bool    // content is so fresh that a later change may look the same
	fresh   bool    // content is news to the entry

	latest    look      // as it was seen last
	since     time.Time // latest was seen first; zero: the file was never looked at
	unsettled time.Time // since when it is not settled; zero: it is
	told      bool      // that it is not settled
}

// content is what a settled file holds; zero if there is no file.
type content struct {
	present bool
	data    []byte // of a policy
	digest  string // of a module
	err     error  // why it cannot be read
}

// watcher is how a directory looks at its files.
type watcher struct {
	system system
	quiet  time.Duration
	settle time.Duration
	logger hclog.Logger
	buffer []byte // of the file that was read last
}

// update takes over what the file holds if it is settled, and otherwise
// returns when to look again.
func (f *file) update(w *watcher, seen look) (due time.Time) {
	now := w.system.now()
	if seen != f.latest || f.since.IsZero() {
		f.latest, f.since = seen, now
	}
	if f.settled && seen == f.look && f.content.err == nil && !f.blurred {
		f.unsettled, f.told = time.Time{}, false
		return time.Time{}
	}
	content, blurred, err := f.read(w, seen, now)
	if errors.Is(err, errUnsettled) {
		return f.wait(w, now, err)
	}
	f.settled, f.fresh = true, true
	f.content, f.look, f.blurred = content, seen, blurred
	f.unsettled, f.told = time.Time{}, false
	return time.Time{}
}

// read returns what a settled file holds, or [errUnsettled].
func (f *file) read(w *watcher, seen look, now time.Time) (c content, blurred bool, err error) {
	still := func(local bool) bool { return !now.Before(f.stillAt(w, local)) }
	switch {
	case seen.state == absent && !f.settled:
		return content{}, false, nil
	case seen.state != regular && !still(false):
		return content{}, false, errUnsettled
	case seen.state == absent:
		return content{}, false, nil
	case seen.state == faulty:
		return content{present: true, err: seen.fault}, false, nil
	}
	data, local, failed := f.readSettled(w, seen, still)
	w.buffer = data[:0]
	if errors.Is(failed, errUnsettled) {
		return content{}, false, failed
	}
	return f.kind.content(data, failed), now.Sub(seen.changedAt()) < stampsLag(local), nil
}

func (k kind) content(data []byte, failed error) content {
	switch {
	case failed != nil:
		return content{present: true, err: failed}
	case k.kept:
		return content{present: true, data: bytes.Clone(data)}
	default:
		return content{present: true, digest: digest(data)}
	}
}

// stillAt is when the file will have looked the same for long enough. Where
// this machine's clock stamps it, the stamp tells since when.
func (f *file) stillAt(w *watcher, local bool) time.Time {
	since := f.since
	if changed := f.latest.changedAt(); local && changed.Before(since) {
		since = changed
	}
	return since.Add(w.settle)
}

// slow is how long a file may be unsettled before people are told.
const slow = 10 * time.Second

// wait returns when to look again at a file that is not settled: the longer it
// takes, the less often.
func (f *file) wait(w *watcher, now time.Time, why error) (due time.Time) {
	if f.unsettled.IsZero() {
		f.unsettled = now
	}
	waited := now.Sub(f.unsettled)
	if waited >= slow && !f.told {
		f.told = true
		w.logger.Warn("a file is not read while it is written, what it held before stays: close it, or write another one and rename it to this name",
			"file", f.path, "reason", reason(why), "since", f.unsettled.UTC().Format(time.RFC3339))
	}
	due = now.Add(max(w.quiet, min(waited/2, patience)))
	if still := f.stillAt(w, false); !errors.Is(why, errWritten) && due.Before(still) {
		return still
	}
	return due
}

func reason(why error) string {
	if errors.Is(why, errWritten) {
		return "some process has it open for writing"
	}
	return "it keeps changing"
}
