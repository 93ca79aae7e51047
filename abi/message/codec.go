package message

import (
	"unicode/utf8"

	"github.com/thole-dev/thole/abi/rawjson"
)

// MaxDepth is how deep arrays and objects are nested in what a guest writes.
const MaxDepth = 64

// Encode returns the text of a message. size is an estimate of its length.
func Encode(size int, list func(*Fields)) []byte {
	w := rawjson.NewWriter(make([]byte, 0, size))
	f := &Fields{w: w, member: noMember}
	f.Value(list)
	return w.Bytes()
}

// EncodeParts is [Encode] for a message whose last member is object, behind one or more fields of list. The text is
// in parts, of which one is the object itself, and not a copy: most of the text. An empty object is left out.
func EncodeParts(size int, list func(*Fields), object []byte) [][]byte {
	const end, member = `}`, `,"object":`
	text := Encode(size, list)
	if len(object) == 0 {
		return [][]byte{text}
	}
	return [][]byte{append(text[:len(text)-len(end)], member...), object, []byte(end)}
}

// DecodeStrict reads a message that a guest has written, with objects and arrays of [MaxDepth] at most. Every error
// is a [*rawjson.Error].
func DecodeStrict(data []byte, list func(*Fields)) error {
	if !utf8.Valid(data) {
		valid := 0
		for c, size := utf8.DecodeRune(data); c != utf8.RuneError || size > 1; c, size = utf8.DecodeRune(data[valid:]) {
			valid += size
		}
		return &rawjson.Error{Offset: valid, Message: "the text is not UTF-8"}
	}
	f := &Fields{r: rawjson.NewReader(data)}
	f.r.Strict, f.r.MaxDepth = true, MaxDepth
	f.Value(list)
	return f.r.End()
}

// Decode reads a message that a host has written: what is not known is ignored.
func Decode(data []byte, list func(*Fields)) error {
	f := &Fields{r: rawjson.NewReader(data)}
	f.Value(list)
	return f.r.End()
}

// Checked returns a message that was decoded, or the first error of decoding
// and checking it.
func Checked[T any](m *T, err error, check func() error) (*T, error) {
	if err == nil && check != nil {
		err = check()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// EncodeArray returns the text of an array of objects with the fields of list: the section of a capability.
func EncodeArray[T any](values []T, list func(*T, *Fields)) []byte {
	f := &Fields{w: &rawjson.Writer{}, member: noMember}
	f.array(len(values), len(values), func(i int) { f.Value(func(f *Fields) { list(&values[i], f) }) })
	return f.w.Bytes()
}

// DecodeArray is [DecodeStrict] for an array of at most so many objects.
func DecodeArray[T any](data []byte, limit int, list func(*T, *Fields)) (values []T, err error) {
	f := &Fields{r: rawjson.NewReader(data)}
	f.r.Strict, f.r.MaxDepth = true, MaxDepth
	f.array(limit, 0, func(i int) {
		values = append(values, *new(T))
		f.Value(func(f *Fields) { list(&values[i], f) })
	})
	return values, f.r.End()
}
