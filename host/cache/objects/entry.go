package objects

import (
	"bytes"
	"sync"

	"github.com/thole-dev/thole/host/object"
)

const (
	// packAfter is how many sweeps an object is not read until it is packed.
	packAfter = 4
	// longAgo is the number of sweeps of an object that nobody has read since it was packed.
	longAgo = 255
)

// Entry is an object of a set at one resourceVersion. It is safe for concurrent use.
//
// An object that was not read for a while is packed: only its text is kept, compressed
// if that pays (pack.go). To read it parses it again. It is kept parsed again if it is
// read in two different intervals between sweeps, so that a run of all keys, which
// reads each object some times within a moment, leaves nothing in memory.
type Entry struct {
	key object.Key

	mu     sync.Mutex
	object *object.Object // nil while it is packed
	packed *packed        // nil while it is not
	// idle is how many sweeps have passed since the object was read, at most longAgo.
	idle uint8
}

func newEntry(o *object.Object) *Entry { return &Entry{key: o.Key(), object: o} }

// Key returns the key of the object.
func (e *Entry) Key() object.Key { return e.key }

// Object reads the object. It returns nil for nil.
func (e *Entry) Object() *object.Object {
	if e == nil {
		return nil
	}
	o, _ := e.read(false)
	return o
}

// Unpacked reads the object and keeps it parsed. It returns nil for nil.
func (e *Entry) Unpacked() *object.Object {
	if e == nil {
		return nil
	}
	o, _ := e.read(true)
	return o
}

// read returns the object, and whether it was packed.
func (e *Entry) read(keep bool) (o *object.Object, wasPacked bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	readBefore := 0 < e.idle && e.idle <= packAfter
	e.idle = 0
	if e.object != nil {
		return e.object, false
	}
	o = e.packed.object()
	if keep || readBefore {
		e.object, e.packed = o, nil
	}
	return o, true
}

// Peek returns the object, which does not count as a read: if it is packed, it stays so.
func (e *Entry) Peek() *object.Object {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.object != nil {
		return e.object
	}
	return e.packed.object()
}

// IsVersionOf reports whether the entry has the UID and the resourceVersion of an object.
func (e *Entry) IsVersionOf(o *object.Object) bool {
	uid, version := e.version()
	return uid == string(o.UID) && version == o.ResourceVersion
}

// HasVersion reports whether the object has a resourceVersion.
func (e *Entry) HasVersion() bool {
	_, version := e.version()
	return version != ""
}

// HasUIDOf reports whether the entry has the UID of an object.
func (e *Entry) HasUIDOf(o *object.Object) bool {
	uid, _ := e.version()
	return uid == string(o.UID)
}

// IsAfter reports whether the entry has the UID of an object, which is not empty, and a
// resourceVersion after that of the object. isBefore compares two resourceVersions.
func (e *Entry) IsAfter(o *object.Object, isBefore func(version, than string) bool) bool {
	uid, version := e.version()
	return uid == string(o.UID) && uid != "" && isBefore(o.ResourceVersion, version)
}

func (e *Entry) version() (uid, resourceVersion string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.object != nil {
		return string(e.object.UID), e.object.ResourceVersion
	}
	return e.packed.uid, e.packed.version
}

// size returns the bytes of the JSON of the object.
func (e *Entry) size() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.object != nil {
		return len(e.object.Raw)
	}
	return e.packed.size
}

// BytesBy is [object.BytesBy] of the object, which is not read for it.
func (e *Entry) BytesBy(prefix string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.object != nil {
		return e.object.BytesBy(prefix)
	}
	return object.BytesBy(e.packed.applied, prefix)
}

// HasTextOf reports whether the entry has the same JSON as an object.
func (e *Entry) HasTextOf(o *object.Object) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.object != nil {
		return bytes.Equal(e.object.Raw, o.Raw)
	}
	return e.packed.hash == hashOf(o.Raw)
}

// age counts a sweep, and returns the object if it is to be packed.
func (e *Entry) age() *object.Object {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.idle < longAgo {
		e.idle++
	}
	if e.object == nil || e.idle < packAfter {
		return nil
	}
	return e.object
}

// pack replaces an object that [Entry.age] has returned, unless it was read since.
func (e *Entry) pack(p *packed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.idle >= packAfter {
		e.object, e.packed, e.idle = nil, p, longAgo
	}
}

// saved is how many bytes of memory it saves that the object is packed.
func (e *Entry) saved() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.packed == nil {
		return 0
	}
	return e.packed.size - len(e.packed.data) + objectBytes - packedBytes
}
