package main

import (
	"maps"
	"slices"
	"time"
)

// notes are what a source remembers from one run to the next. They only save
// work and time: a restart of the host loses them.
type notes struct {
	// Failed are the namespaces in which a write failed, the last one last.
	Failed []string `json:"failed,omitempty"`
	// Replaced are those whose copy was deleted because it was altered.
	Replaced map[string]replacement `json:"replaced,omitempty"`
}

// replacement is when a copy was deleted, and how long the next one of the
// namespace must live: seconds, since 1970 and as such.
type replacement struct {
	At    int64 `json:"at"`
	Pause int64 `json:"pause"`
}

const (
	// mostNotes bounds each list, so that both fit into a memo of 4 KiB.
	mostNotes = 20
	// A copy that is altered again and again is replaced after minPause, then
	// after twice the time, up to maxPause. Peace for calm pauses ends that.
	minPause = 10
	maxPause = 24 * 60 * 60
	calm     = 10
)

// readNotes returns what the last run left, and what became of it.
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
		if failure.Reason != fieldConflict { // which is made good by replacing
			n.Failed = append(without(n.Failed, failure.Ref.Namespace), failure.Ref.Namespace)
		}
	}
	n.Failed = n.Failed[max(0, len(n.Failed)-mostNotes):]
	return n, nil
}

// replace returns how long the copy in a namespace must be let be; 0 if it may
// be replaced now, which it then notes.
func (n *notes) replace(namespace string, now int64) (wait time.Duration) {
	last, again := n.Replaced[namespace]
	switch {
	case !again && len(n.Replaced) >= mostNotes:
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

// expiry is when a replacement says nothing any more about the next one.
func (r replacement) expiry() int64 { return r.At + calm*r.Pause }

func (n *notes) expire(now int64) {
	maps.DeleteFunc(n.Replaced, func(_ string, r replacement) bool { return r.expiry() <= now })
}

func (n *notes) nextExpiry(now int64) time.Duration {
	var next time.Duration
	for _, r := range n.Replaced {
		if wait := time.Duration(r.expiry()-now) * time.Second; next == 0 || wait < next {
			next = wait
		}
	}
	return next
}

// forget drops failures where nothing is to be written any more.
func (n *notes) forget(writes []write) {
	n.Failed = slices.DeleteFunc(n.Failed, func(namespace string) bool {
		return !slices.ContainsFunc(writes, func(w write) bool { return w.namespace == namespace })
	})
}

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
