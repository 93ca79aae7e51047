package objects

import (
	"time"

	"github.com/thole-dev/thole/host/object"
)

const (
	// worthPacking is about how much memory a set takes at least that packs objects. The
	// dictionary of a kind and what reads it take 60 KiB.
	worthPacking = 1 << 20
	// sliceTime is about how long a sweep works without a pause.
	sliceTime = time.Millisecond
	// checkEvery is how many objects are looked at between two looks at the clock.
	checkEvery = 64
)

// Sweep goes through the objects of a set in slices, and packs those that were not read
// in the time of the last sweeps.
type Sweep struct {
	slice   time.Duration // how long it works without a pause
	codec   *codec
	every   int // every how many objects one is a sample; 0 for none
	after   object.Key
	visited int
	samples []*object.Object
	saved   int // bytes, of all objects that are packed
	freed   int // bytes, of those that the sweep has packed
}

// Freed returns about how many bytes the sweep has freed.
func (w *Sweep) Freed() int { return w.freed }

// BeginSweep begins a sweep, or returns nil if the set is too small for it to pay. The
// caller calls [Sweep.Next] until it returns false, and then [Set.EndSweep].
func (s *Set) BeginSweep() *Sweep {
	if s.saved == 0 && s.bytes+s.Len()*objectBytes < worthPacking {
		return nil
	}
	return s.beginSweep()
}

func (s *Set) beginSweep() *Sweep {
	w := &Sweep{codec: s.codec, slice: sliceTime}
	if s.codec == nil || s.codec.dictionary == nil && s.Len() >= 2*s.judged {
		w.every = max(1, s.Len()/maxSamples)
	}
	return w
}

// Next works for about a millisecond, or for the time that the largest object takes. It
// reports whether there is more to do. The snapshot is the present state of the set.
func (w *Sweep) Next(n *Snapshot) (more bool) {
	shared := n.state.Load()
	if shared == nil {
		return true // it has expired at once
	}
	began, done := time.Now(), 0
	shared.all.AscendGreaterOrEqual(&Entry{key: w.after}, func(e *Entry) bool {
		if e.key == w.after {
			return true
		}
		hasPacked := w.visit(e)
		done++
		more = (hasPacked || done%checkEvery == 0) && time.Since(began) > w.slice
		return !more
	})
	return more
}

func (w *Sweep) visit(e *Entry) (hasPacked bool) {
	if w.every > 0 && w.visited%w.every == 0 && len(w.samples) < maxSamples {
		w.samples = append(w.samples, e.Peek())
	}
	w.visited++
	w.after = e.key
	if o := e.age(); o != nil && w.codec != nil {
		e.pack(w.codec.pack(o))
		w.freed += e.saved()
		hasPacked = true
	}
	w.saved += e.saved()
	return hasPacked
}

// Judge makes a codec of the samples that the sweep has collected, if it has. It is called
// without a lock, because it takes some milliseconds.
func (w *Sweep) Judge() {
	if len(w.samples) == 0 {
		return
	}
	var texts [][]byte
	for _, o := range w.samples {
		texts = append(texts, o.Raw)
	}
	w.codec = newCodec(w.samples[0].Kind, texts)
}

// EndSweep ends a sweep.
func (s *Set) EndSweep(w *Sweep) {
	if w.codec != s.codec {
		s.codec, s.judged = w.codec, s.Len()
	}
	s.saved = w.saved
}
