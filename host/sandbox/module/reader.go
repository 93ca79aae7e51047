package module

import (
	"errors"
	"fmt"
)

// errTruncated says that the bytes end inside of something.
var errTruncated = errors.New("truncated: the bytes end early")

// reader walks bytes with a sticky error: after the first failure every read
// answers zero, so that callers check once per structure.
type reader struct {
	data []byte
	pos  int
	err  error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
		r.pos = len(r.data)
	}
}

func (r *reader) failf(format string, args ...any) { r.fail(fmt.Errorf(format, args...)) }

func (r *reader) left() int { return len(r.data) - r.pos }

func (r *reader) byte() byte {
	if r.left() < 1 {
		r.fail(errTruncated)
		return 0
	}
	b := r.data[r.pos]
	r.pos++
	return b
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(r.left()) {
		r.fail(errTruncated)
		return nil
	}
	b := r.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// u32 reads an unsigned LEB128 number of at most 32 bits.
func (r *reader) u32() uint32 {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		if shift == 28 && b > 0x0f {
			break
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.failf("malformed: a number does not fit 32 bits")
	return 0
}

// s64 reads a signed LEB128 number of at most size bytes. What does not fit
// 64 bits is cut off.
func (r *reader) s64(size int) int64 {
	var v int64
	for i := range size {
		b := r.byte()
		v |= int64(b&0x7f) << (7 * i)
		if b < 0x80 {
			unused := max(0, 64-7*(i+1))
			return v << unused >> unused
		}
	}
	r.failf("malformed: a number is longer than %d bytes", size)
	return 0
}

// count reads the length of a vector whose elements take at least size bytes
// each, so that a few bytes cannot claim a million elements.
func (r *reader) count(what string, size, most int) int {
	n := uint64(r.u32())
	switch {
	case r.err != nil:
		return 0
	case n*uint64(size) > uint64(r.left()):
		r.failf("malformed: %d %s do not fit the %d bytes left", n, what, r.left())
		return 0
	case n > uint64(most):
		r.failf("too large: %d %s, the limit is %d", n, what, most)
		return 0
	}
	return int(n)
}

func (r *reader) name() string { return string(r.bytes(r.u32())) }
