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

// AppendFloat appends a number of 32 or 64 bits as encoding/json does. Infinities
// and NaN have no JSON form and are an error.
func AppendFloat(dst []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, rawjson.NewError("", "JSON has no number for "+strconv.FormatFloat(f, 'g', -1, bits))
	}
	abs := math.Abs(f)
	if abs == 0 || bits == 64 && abs >= 1e-6 && abs < 1e21 || bits == 32 && float32(abs) >= 1e-6 && float32(abs) < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, bits), nil
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, bits)
	// encoding/json writes exponents without a leading zero: 1e-7, not 1e-07.
	if n := len(dst); dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst = append(dst[:n-2], dst[n-1])
	}
	return dst, nil
}

// AppendBytes appends bytes in base64, or null if they are nil.
func AppendBytes(dst, b []byte) []byte {
	if b == nil {
		return AppendNull(dst)
	}
	dst = base64.StdEncoding.AppendEncode(append(dst, '"'), b)
	return append(dst, '"')
}

// AppendRaw appends a value that is JSON already, or null if it is nil. Empty
// bytes that are not nil are an error.
func AppendRaw(dst, raw []byte) ([]byte, error) {
	if raw == nil {
		return AppendNull(dst), nil
	}
	return AppendMarshaled(dst, raw, nil)
}

// AppendMarshaled appends the value that a MarshalJSON method returned.
func AppendMarshaled(dst, raw []byte, err error) ([]byte, error) {
	if err != nil {
		return dst, err
	}
	if err := rawjson.Valid(raw, 0); err != nil {
		return dst, err
	}
	return append(dst, raw...), nil
}

// AppendText appends the text that a MarshalText method returned.
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

// AppendStrings appends an array of strings, or null if it is nil.
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

// AppendStringMap appends an object whose members are strings, or null if it is
// nil.
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

// AppendName appends a comma and the name of a member. Generated code begins
// every member with them; [CloseObject] replaces the first comma by a brace.
func AppendName(dst []byte, name string) []byte {
	return append(AppendString(append(dst, ','), name), ':')
}

// CloseObject ends the object whose members were appended from dst[at] on, each
// after a comma.
func CloseObject(dst []byte, at int) []byte { return enclose(dst, at, '{', '}') }

// CloseArray ends the array whose elements were appended from dst[at] on, each
// after a comma.
func CloseArray(dst []byte, at int) []byte { return enclose(dst, at, '[', ']') }

// enclose replaces the comma at dst[at] by the opening byte and appends the closing one.
func enclose(dst []byte, at int, open, end byte) []byte {
	if len(dst) == at {
		return append(dst, open, end)
	}
	dst[at] = open
	return append(dst, end)
}

// SmallMap is the number of keys that are sorted without an allocation.
const SmallMap = 16

// Keys appends the keys of a map to list and sorts them.
func Keys[M ~map[K]V, K ~string, V any](m M, list []K) []K {
	for name := range m {
		list = append(list, name)
	}
	sortNames(list)
	return list
}

// sortNames is a heap sort. It has a tenth of the size of slices.Sort, which
// would be a part of every plugin.
func sortNames[K ~string](list []K) {
	for i := len(list)/2 - 1; i >= 0; i-- {
		siftDown(list, i)
	}
	for end := len(list) - 1; end > 0; end-- {
		list[0], list[end] = list[end], list[0]
		siftDown(list[:end], 0)
	}
}

// siftDown moves an element down until neither of its children is larger.
func siftDown[K ~string](heap []K, i int) {
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

// Within returns err for the object that has the value as the member of that
// name. It returns nil if err is nil.
func Within(name string, err error) error { return rawjson.Within(name, err) }

// WithinKey is [Within] for a key of a map, which can be any text.
func WithinKey(name string, err error) error {
	return rawjson.Within("["+rawjson.Quote(name)+"]", err)
}

// WithinElement is [Within] for an element of an array.
func WithinElement(index int, err error) error {
	return rawjson.Within("["+strconv.Itoa(index)+"]", err)
}

// Fits is nothing to run. A generated file calls it, in a function that nobody calls, with the
// fields that a struct had, so that it does not compile when they have changed.
func Fits[Fields any](Fields) {}
