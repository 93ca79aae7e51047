package codec

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"github.com/thole-dev/thole/abi/rawjson"
)

// AppendString appends a string. Bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte { return rawjson.AppendString(dst, s) }

// AppendBool appends true or false.
func AppendBool(dst []byte, b bool) []byte { return strconv.AppendBool(dst, b) }

// AppendInt appends an integer.
func AppendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// AppendUint appends a natural number or 0.
func AppendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }

// AppendNull appends null.
func AppendNull(dst []byte) []byte { return append(dst, "null"...) }

// AppendFloat appends a number of 32 or 64 bits as encoding/json does. What
// JSON cannot say is an error.
func AppendFloat(dst []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, &Error{Message: "JSON has no number for " + strconv.FormatFloat(f, 'g', -1, bits)}
	}
	abs := math.Abs(f)
	if abs == 0 || bits == 64 && abs >= 1e-6 && abs < 1e21 || bits == 32 && float32(abs) >= 1e-6 && float32(abs) < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, bits), nil
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, bits)
	// Exponents have no leading zero: 1e-7, not 1e-07.
	if n := len(dst); dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst = append(dst[:n-2], dst[n-1])
	}
	return dst, nil
}

// AppendBytes appends bytes in base 64, or null.
func AppendBytes(dst, b []byte) []byte {
	if b == nil {
		return AppendNull(dst)
	}
	dst = base64.StdEncoding.AppendEncode(append(dst, '"'), b)
	return append(dst, '"')
}

// AppendRaw appends what is JSON already; no bytes at all are null if they are
// nil and an error if not.
func AppendRaw(dst, raw []byte) ([]byte, error) {
	if raw == nil {
		return AppendNull(dst), nil
	}
	if err := rawjson.Valid(raw, 0); err != nil {
		return dst, err
	}
	return append(dst, raw...), nil
}

// AppendMarshaled appends what a MarshalJSON method returned.
func AppendMarshaled(dst, raw []byte, err error) ([]byte, error) {
	if err != nil {
		return dst, err
	}
	if err := rawjson.Valid(raw, 0); err != nil {
		return dst, err
	}
	return append(dst, raw...), nil
}

// AppendText appends what a MarshalText method returned.
func AppendText(dst, text []byte, err error) ([]byte, error) {
	if err != nil {
		return dst, err
	}
	return AppendString(dst, string(text)), nil
}

// AppendTime appends a time in RFC 3339.
func AppendTime(dst []byte, t time.Time) ([]byte, error) {
	out, err := t.AppendText(append(dst, '"'))
	if err != nil {
		return dst, err
	}
	return append(out, '"'), nil
}

// AppendStrings appends an array of strings, or null.
func AppendStrings[L ~[]S, S ~string](dst []byte, list L) []byte {
	if list == nil {
		return AppendNull(dst)
	}
	at := len(dst)
	for _, s := range list {
		dst = AppendString(append(dst, ','), string(s))
	}
	return CloseArray(dst, at)
}

// AppendStringMap appends an object whose members are strings, or null.
func AppendStringMap[M ~map[K]V, K, V ~string](dst []byte, m M) []byte {
	if m == nil {
		return AppendNull(dst)
	}
	at := len(dst)
	var buffer [SmallMap]K
	for _, name := range Keys(m, buffer[:0]) {
		dst = AppendString(AppendName(dst, string(name)), string(m[name]))
	}
	return CloseObject(dst, at)
}

// AppendName appends a comma and the name of a member: what generated code
// begins each member with. [CloseObject] makes the first comma a brace.
func AppendName(dst []byte, name string) []byte {
	return append(AppendString(append(dst, ','), name), ':')
}

// CloseObject ends the object whose members were appended from dst[at] on,
// each with a comma before it.
func CloseObject(dst []byte, at int) []byte { return closed(dst, at, '{', '}') }

// CloseArray ends the array whose elements were appended from dst[at] on, each
// with a comma before it.
func CloseArray(dst []byte, at int) []byte { return closed(dst, at, '[', ']') }

func closed(dst []byte, at int, open, end byte) []byte {
	if len(dst) == at {
		return append(dst, open, end)
	}
	dst[at] = open
	return append(dst, end)
}

// SmallMap is how many keys are sorted without an allocation.
const SmallMap = 16

// Keys appends the keys of a map to list and sorts them.
func Keys[M ~map[K]V, K ~string, V any](m M, list []K) []K {
	for name := range m {
		list = append(list, name)
	}
	sortNames(list)
	return list
}

// sortNames is slices.Sort in a tenth of its size, which every plugin would
// have: a heap sort.
func sortNames[K ~string](list []K) {
	for i := len(list)/2 - 1; i >= 0; i-- {
		sink(list, i)
	}
	for end := len(list) - 1; end > 0; end-- {
		list[0], list[end] = list[end], list[0]
		sink(list[:end], 0)
	}
}

// sink moves an element down until no child of it is larger.
func sink[K ~string](heap []K, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child] < heap[child+1] {
			child++
		}
		if heap[i] >= heap[child] {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
