package dispatch

import (
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
)

// A key is in a write loop if runs that nothing but its own writes woke go on
// writing: loopRuns in a row wrote no object that was not written in the row
// before, or one of them wrote content that the row had replaced. From then on own
// writes wake the key later and later, until a run writes nothing. What others
// change wakes it as before.
const (
	loopRuns     = 20
	minLoopPause = 100 * time.Millisecond
	maxLoopPause = 10 * time.Second
)

// writeLoop detects the write loop of one key.
type writeLoop struct {
	runs     int       // in a row, since the last one that wrote another object
	contents []content // by the row, and by the run before it; the latest of an object last
	slowed   int       // runs since the loop was detected; 0: the key is in no loop
}

// copy returns a copy of what is known of a key, which may be nil.
func (l *writeLoop) copy() writeLoop {
	if l == nil {
		return writeLoop{}
	}
	return *l
}

// kept returns what has to be remembered of the key, nil for nothing.
func (l writeLoop) kept() *writeLoop {
	if l.runs+l.slowed+len(l.contents) == 0 {
		return nil
	}
	return &l
}

// content is what a write of one verb made of an object.
type content struct {
	of     object.Hash // the verb and the object
	digest [16]byte
}

func contentOf(w *effect.Write) content {
	return content{object.HashOf(w.Verb, w.Kind.APIVersion, w.Kind.Kind, w.Key.Namespace, w.Key.Name), w.Content}
}

// maxContents bounds what is remembered of a row.
const maxContents = 512

// ended records the end of a run, and reports whether it is the one that makes a
// write loop. own is set if nothing but writes of the key woke the run.
func (l *writeLoop) ended(own bool, writes []effect.Write) (detected bool) {
	if len(writes) == 0 {
		*l = writeLoop{}
		return false
	}
	if !own && l.slowed == 0 {
		*l = writeLoop{}
	}
	another, replaced := l.record(writes)
	switch {
	case !own:
		return false
	case l.slowed > 0:
		l.slowed++
		return false
	case another:
		l.runs = 0
	}
	l.runs++
	if l.runs < loopRuns && !replaced {
		return false
	}
	l.slowed = 1
	return true
}

// record adds what a run wrote. It reports whether that includes an object that the
// row had not written, and whether it includes content that the row had replaced.
func (l *writeLoop) record(writes []effect.Write) (another, replaced bool) {
	for i := range writes {
		c := contentOf(&writes[i])
		latest, known := l.latest(c.of)
		another = another || !known
		replaced = replaced || known && latest != c && slices.Contains(l.contents, c)
		l.contents = append(slices.DeleteFunc(l.contents, func(o content) bool { return o == c }), c)
	}
	if len(l.contents) > maxContents {
		l.contents = slices.Delete(l.contents, 0, len(l.contents)-maxContents)
	}
	return another, replaced
}

// latest returns what the row wrote last of the object.
func (l *writeLoop) latest(of object.Hash) (latest content, known bool) {
	for _, c := range slices.Backward(l.contents) {
		if c.of == of {
			return c, true
		}
	}
	return content{}, false
}

// pause returns how long an own write has to wait until it wakes the key.
func (l *writeLoop) pause() time.Duration {
	if l == nil || l.slowed == 0 {
		return 0
	}
	const doublings = 7 // minLoopPause doubled so often exceeds maxLoopPause
	return min(minLoopPause<<min(l.slowed-1, doublings), maxLoopPause)
}

// writeLoopEvent is the Kubernetes Event of a write loop.
func writeLoopEvent() *abi.Event {
	return &abi.Event{
		Type: abi.EventWarning, Reason: "WriteLoop",
		Message: "the object is reconciled again and again because of nothing but what its own runs write, at most once in 10 s from now on: make the plugin write the same content in every run",
	}
}
