package main

import (
	"maps"
	"slices"
	"time"
)

// notes is the memo of a source. It is lost when the host restarts, and only saves work
// and time.
type notes struct {
	// Failed are the namespaces in which a write failed, the most recent one last.
	Failed []string `json:"failed,omitempty"`
	// Replaced are the namespaces whose copy was deleted because it was altered.
	Replaced map[string]replacement `json:"replaced,omitempty"`
}

// replacement is the deletion of an altered copy.
type replacement struct {
	At    int64 `json:"at"`    // Unix time in seconds
	Pause int64 `json:"pause"` // seconds until the next copy may be replaced
}

const (
	// maxNotes limits each list, so that both fit into a memo of 4 KiB.
	maxNotes = 20
	// A copy that is altered repeatedly is replaced after minPause seconds, then after
	// twice the time, up to maxPause. The pause starts again from minPause if the copy
	// was not altered for expiryPauses times the last pause.
	minPause     = 10
	maxPause     = 24 * 60 * 60
	expiryPauses = 10
)

// readNotes returns the notes of the last run, with the writes of that run that failed.
func readNotes(r *request) (n notes, err error) {
	if _, err := r.Memo(&n); err != nil {
		return n, err
	}
	if n.Replaced == nil {
		n.Replaced = map[string]replacement{}
	}
	if r.Previous == nil {
		return n, nil
	}
	for _, failure := range r.Previous.Failures {
		if failure.Reason != fieldConflict { // such a copy is replaced instead
			n.Failed = append(without(n.Failed, failure.Ref.Namespace), failure.Ref.Namespace)
		}
	}
	n.Failed = n.Failed[max(0, len(n.Failed)-maxNotes):]
	return n, nil
}

// replace returns the time for which the copy in a namespace must not be replaced. If it
// may be replaced now, it records the replacement and returns 0.
func (n *notes) replace(namespace string, now int64) (wait time.Duration) {
	last, again := n.Replaced[namespace]
	switch {
	case !again && len(n.Replaced) >= maxNotes:
		return n.nextExpiry(now)
	case !again:
		n.Replaced[namespace] = replacement{At: now, Pause: minPause}
	case now < last.At+last.Pause:
		return time.Duration(last.At+last.Pause-now) * time.Second
	default:
		n.Replaced[namespace] = replacement{At: now, Pause: min(2*last.Pause, maxPause)}
	}
	return 0
}

// expiry returns the time after which a replacement no longer delays the next one.
func (r replacement) expiry() int64 { return r.At + expiryPauses*r.Pause }

// expire removes expired replacements.
func (n *notes) expire(now int64) {
	maps.DeleteFunc(n.Replaced, func(_ string, r replacement) bool { return r.expiry() <= now })
}

// nextExpiry returns the time until the next replacement expires.
func (n *notes) nextExpiry(now int64) time.Duration {
	var next time.Duration
	for _, r := range n.Replaced {
		if wait := time.Duration(r.expiry()-now) * time.Second; next == 0 || wait < next {
			next = wait
		}
	}
	return next
}

// forget removes the failures in namespaces where nothing is written any more.
func (n *notes) forget(writes []write) {
	n.Failed = slices.DeleteFunc(n.Failed, func(namespace string) bool {
		return !slices.ContainsFunc(writes, func(w write) bool { return w.namespace == namespace })
	})
}

// write stores the notes as the memo of the source.
func (n *notes) write(r *request) {
	if len(n.Failed)+len(n.Replaced) == 0 {
		r.SetMemo(nil)
		return
	}
	r.SetMemo(n)
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return n == name })
}
