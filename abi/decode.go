package abi

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi/rawjson"
)

// strict returns a reader of a text that a guest wrote.
func strict(data []byte) (*rawjson.Reader, error) {
	if at := invalidUTF8(data); at >= 0 {
		return nil, &rawjson.Error{Offset: at, Message: "the text is not UTF-8"}
	}
	r := rawjson.NewReader(data)
	r.Strict, r.MaxDepth = true, MaxDepth
	return r, nil
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, -1 if
// there is none.
func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; ; {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
}

// readList reads an array of at most limit entries. It stops at the first one
// too many, before memory is taken for the rest.
func readList[T any](r *rawjson.Reader, limit int, read func(*rawjson.Reader) T) (list []T) {
	r.Array(func(i int) {
		if i == limit {
			r.Fail("more than " + strconv.Itoa(limit) + " entries")
			return
		}
		list = append(list, read(r))
	})
	return list
}

func readString(r *rawjson.Reader) string { return r.String() }

// readRaw reads any value; a null is the same as none.
func readRaw(r *rawjson.Reader) []byte {
	if r.Null() {
		return nil
	}
	return r.Raw()
}

// readObject reads a value that must be an object; it stays bytes. A null is
// the same as none.
func readObject(r *rawjson.Reader) []byte {
	if r.Null() {
		return nil
	}
	if r.Kind() != '{' {
		r.Object(nil) // fails
		return nil
	}
	return r.Raw()
}

// readCount reads a number that fits into an int everywhere.
func readCount(r *rawjson.Reader) int {
	return int(readNatural(r, 1<<31-1, "2147483647"))
}

// maxDuration keeps every duration of a message inside of time.Duration.
const maxDuration = int64(100 * 365 * 24 * time.Hour / time.Millisecond)

func readDuration(r *rawjson.Reader) int64 {
	return readNatural(r, maxDuration, "100 years")
}

func readNatural(r *rawjson.Reader, limit int64, limitText string) int64 {
	switch n := r.Int(); {
	case n < 0:
		r.Fail("must not be negative, is " + strconv.FormatInt(n, 10))
	case n > limit:
		r.Fail("must be at most " + limitText + ", is " + strconv.FormatInt(n, 10))
	default:
		return n
	}
	return 0
}

// readTime reads a time of the years 0 to 9999 in UTC, those that RFC 3339
// can write. An empty one is none.
func readTime(r *rawjson.Reader) time.Time {
	text := r.String()
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if t = t.UTC(); err != nil || t.Year() < 0 || t.Year() > 9999 {
		r.Fail("expected a time in RFC 3339")
		return time.Time{}
	}
	return t
}

func readSeed(r *rawjson.Reader) (seed [32]byte) {
	text := r.String()
	if text == "" {
		return seed
	}
	var buf [33]byte // what the decoder asks room for
	if len(text) == base64.StdEncoding.EncodedLen(len(seed)) {
		if n, err := base64.StdEncoding.Decode(buf[:], []byte(text)); err == nil && n == len(seed) {
			return [32]byte(buf[:])
		}
	}
	r.Fail("expected 32 bytes in base64")
	return seed
}
