package wasm

import (
	"errors"
	"fmt"
)

// ErrTruncated is the error of a reader whose bytes end inside of a value.
var ErrTruncated = errors.New("truncated: the bytes end early")

// Reader decodes bytes that may be hostile. Its error is sticky: after the
// first failure every read returns zero and [Reader.Len] is zero, so that a
// caller checks [Reader.Err] once for each structure. No method allocates more
// than a small multiple of the bytes that are left.
type Reader struct {
	data []byte // what has not been read yet
	read int    // bytes read before data
	err  error
}

// NewReader returns a reader of the given bytes, which it does not copy.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// Err returns the first failure, or nil.
func (r *Reader) Err() error { return r.err }

// Len returns the number of bytes that are left; 0 after a failure.
func (r *Reader) Len() int { return len(r.data) }

// Offset returns the number of bytes that have been read.
func (r *Reader) Offset() int { return r.read }

// Rest returns the bytes that are left without reading them.
func (r *Reader) Rest() []byte { return r.data }

// Fail makes err the reader's error unless it has one already. A nil error
// changes nothing.
func (r *Reader) Fail(err error) {
	if r.err == nil && err != nil {
		r.err, r.data = err, nil
	}
}

// Failf is [Reader.Fail] with a formatted error.
func (r *Reader) Failf(format string, args ...any) { r.Fail(fmt.Errorf(format, args...)) }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.data) == 0 {
		r.Fail(ErrTruncated)
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	r.read++
	return b
}

// Bytes reads n bytes. They are a slice of the reader's, not a copy.
func (r *Reader) Bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.data)) {
		r.Fail(ErrTruncated)
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	r.read += int(n)
	return b
}

// Sub reads n bytes and returns a reader of them, with the same error.
func (r *Reader) Sub(n uint32) *Reader { return &Reader{data: r.Bytes(n), err: r.err} }

// U32 reads an unsigned LEB128 number of at most 32 bits (5.2.2).
func (r *Reader) U32() uint32 {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := r.Byte()
		if shift == 28 && b > 0x0f {
			break
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.Failf("malformed: a number does not fit 32 bits")
	return 0
}

// signed reads a signed LEB128 number of at most size bytes. Bits beyond the
// 64th are dropped.
func (r *Reader) signed(size int) int64 {
	var v int64
	for i := range size {
		b := r.Byte()
		v |= int64(b&0x7f) << (7 * i)
		if b < 0x80 {
			unused := max(0, 64-7*(i+1))
			return v << unused >> unused
		}
	}
	r.Failf("malformed: a number is longer than %d bytes", size)
	return 0
}

// Count reads the length of a vector whose elements take at least size bytes
// each. A length that the bytes left cannot hold, or above most, is an error
// that names the elements: a few bytes cannot claim a million of them.
func (r *Reader) Count(elements string, size, most int) int {
	n := uint64(r.U32())
	switch {
	case r.err != nil:
		return 0
	case n*uint64(size) > uint64(len(r.data)):
		r.Failf("malformed: %d %s do not fit the %d bytes left", n, elements, len(r.data))
		return 0
	case n > uint64(most):
		r.Failf("too large: %d %s, the limit is %d", n, elements, most)
		return 0
	}
	return int(n)
}

// Name reads a vector of bytes as a string, which need not be UTF-8.
func (r *Reader) Name() string { return string(r.Bytes(r.U32())) }

// ValueType reads one value type.
func (r *Reader) ValueType() ValueType {
	t := ValueType(r.Byte())
	r.checkValueType(t)
	return t
}

func (r *Reader) checkValueType(t ValueType) {
	if r.err == nil && !t.valid() {
		r.Failf("malformed: value type %#x is not in WebAssembly 2.0", byte(t))
	}
}

// valueTypes reads a vector of value types.
func (r *Reader) valueTypes() []byte {
	types := r.Bytes(uint32(r.Count("parameters or results", 1, len(r.data))))
	for _, t := range types {
		r.checkValueType(ValueType(t))
	}
	return types
}

// FuncType reads a signature (5.3.6).
func (r *Reader) FuncType() FuncType {
	if form := r.Byte(); r.err == nil && form != functionForm {
		r.Failf("malformed: type %#x is not a function", form)
	}
	return FuncType{Params: string(r.valueTypes()), Results: string(r.valueTypes())}
}

// functionForm begins a signature in the type section.
const functionForm = 0x60

// Limits reads the limits of a memory or table. Shared and 64-bit memories are
// newer than WebAssembly 2.0 and an error.
func (r *Reader) Limits() (l Limits) {
	flags := r.Byte()
	if r.err == nil && flags > 1 {
		r.Failf("malformed: limits %#x (shared or 64-bit memory) are not in WebAssembly 2.0", flags)
	}
	l.Min = r.U32()
	if l.HasMax = flags == 1; l.HasMax {
		l.Max = r.U32()
	}
	return l
}

// Table reads the type of a table (5.3.9).
func (r *Reader) Table() Table {
	t := Table{Type: ValueType(r.Byte())}
	if r.err == nil && !t.Type.Reference() {
		r.Failf("malformed: tables of type %#x are not in WebAssembly 2.0", byte(t.Type))
	}
	t.Limits = r.Limits()
	return t
}

// Global reads the type of a global (5.3.10).
func (r *Reader) Global() Global {
	g := Global{Type: r.ValueType()}
	mutability := r.Byte()
	if mutability > 1 {
		r.Failf("malformed: mutability %d of a global", mutability)
	}
	g.Mutable = mutability == 1
	return g
}
