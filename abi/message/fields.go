package message

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"github.com/thole-dev/thole/abi/rawjson"
)

// Fields encodes or decodes one message. Each type of a message lists its
// fields once, in a method. To encode, the list runs
// once, and each entry writes its field. To decode, it runs until there are no more
// members in the JSON object: an entry reads the next member if that has its name. If
// the members have the order of the list, as an encoder writes them, it runs once.
type Fields struct {
	w *rawjson.Writer // set while encoding
	r *rawjson.Reader // set while decoding

	// member is the name of the next member; "" once an entry has read it, and noMember
	// while encoding.
	member string
	more   bool // there is a next member, or there may be one after the one that was read
	// rest is set by an entry that takes the members which are in no other one. Only within [Fields.members].
	rest *[]Section
	// names, if set, collects the names of the entries. Nothing is written then.
	names *[]string
}

// noMember is a name that no entry has.
const noMember = "-"

// Reader returns what a message is read from, nil while one is written.
func (f *Fields) Reader() *rawjson.Reader { return f.r }

// Names returns the names of the fields of list.
func Names(list func(*Fields)) (names []string) {
	list(&Fields{w: &rawjson.Writer{}, member: noMember, names: &names})
	return names
}

// Value encodes or decodes an object with the fields of list.
func (f *Fields) Value(list func(*Fields)) {
	switch {
	case f.w != nil:
		f.w.Object(func() { list(f) })
		return
	case f.r.Kind() != '{':
		f.r.Object(nil) // fails, unless it is a null that stands for an absent member
	default:
		f.members(list)
	}
	f.member, f.more = "", true // for the object around this one
}

// members decodes the members of an object.
func (f *Fields) members(list func(*Fields)) {
	for f.next(f.r.FirstMember()); f.more; {
		start := f.r.Pos()
		f.rest = nil
		if list(f); f.r.Pos() == start { // no entry has the name
			if f.rest != nil {
				f.section(f.rest)
			} else {
				f.unknown(list)
			}
			f.member = ""
		}
	}
}

// next sets the next member to the one that the reader has moved to.
func (f *Fields) next(more bool) {
	f.more, f.member = more, noMember
	if more && f.r.Name() != "" {
		f.member = f.r.Name()
	}
}

// unknown makes a strict reader fail because of a member that is not in the list.
func (f *Fields) unknown(list func(*Fields)) {
	if f.r.Strict {
		f.r.Unknown(f.r.Name(), Names(list)...)
	}
}

// Reads reports whether the entry of that name must read its value now.
func (f *Fields) Reads(name string) bool {
	return (f.member == name || f.member == "") && f.take(name)
}

// take is the part of [Fields.Reads] that is not inlined.
func (f *Fields) take(name string) bool {
	if f.member == "" {
		f.next(f.r.NextMember())
		if f.member != name {
			return false
		}
	}
	f.member = ""
	return true
}

// Writes reports whether the entry of that name must write its value now, after
// it has written the name. present is false for a field that is left out.
func (f *Fields) Writes(name string, present bool) bool {
	return f.w != nil && f.writeName(name, present)
}

// writeName is not inlined, because TinyGo would do so for each entry of each
// list, which adds 6 KiB to a plugin.
//
//go:noinline
func (f *Fields) writeName(name string, present bool) bool {
	if f.names != nil {
		*f.names = append(*f.names, name)
		return false
	}
	if present {
		f.w.Name(name)
	}
	return present
}

// Object is a field that is an object with the fields of list.
func (f *Fields) Object(name string, present bool, list func(*Fields)) {
	if f.Reads(name) || f.Writes(name, present) {
		f.Value(list)
	}
}

// Required is a text that is written even if it is empty.
func (f *Fields) Required(name string, s *string) { f.string(name, s, true) }

// Text is a text that is left out if it is empty.
func (f *Fields) Text(name string, s *string) { f.string(name, s, *s != "") }

func (f *Fields) string(name string, s *string, present bool) {
	if f.Reads(name) {
		*s = f.r.String()
	} else if f.Writes(name, present) {
		f.w.String(*s)
	}
}

// Bool is written only if it is true.
func (f *Fields) Bool(name string, b *bool) {
	if f.Reads(name) {
		*b = f.r.Bool()
	} else if f.Writes(name, *b) {
		f.w.Bool(true)
	}
}

// maxDuration keeps every duration of a message within time.Duration, in ms.
const maxDuration = int64(100 * 365 * 24 * time.Hour / time.Millisecond)

// Duration is a number of milliseconds, left out if it is 0.
func (f *Fields) Duration(name string, ms *int64) {
	if f.Reads(name) {
		*ms = f.Natural(maxDuration, "100 years")
	} else if f.Writes(name, *ms != 0) {
		f.w.Int(*ms)
	}
}

// Count is a number that fits into an int on every platform.
func (f *Fields) Count(name string, n *int) {
	if f.Reads(name) {
		*n = int(f.Natural(math.MaxInt32, "2147483647"))
	} else if f.Writes(name, *n != 0) {
		f.w.Int(int64(*n))
	}
}

// Natural reads a number from 0 to limit. A guest takes one out of this range
// for the nearest that is in it.
func (f *Fields) Natural(limit int64, limitText string) int64 {
	n := f.r.Int()
	switch {
	case !f.r.Strict:
	case n < 0:
		f.r.Fail("must not be negative, is " + strconv.FormatInt(n, 10))
	case n > limit:
		f.r.Fail("must be at most " + limitText + ", is " + strconv.FormatInt(n, 10))
	}
	return min(max(n, 0), limit)
}

// Optional is a natural number whose absence is not 0. nil is absent.
func (f *Fields) Optional(name string, n **int64) {
	if f.Reads(name) {
		*n = nil
		if !f.r.Null() {
			seconds := f.Natural(math.MaxInt64, "9223372036854775807")
			*n = &seconds
		}
	} else if f.Writes(name, *n != nil) {
		f.w.Int(**n)
	}
}

// Raw is any value, which stays bytes. A null is the same as no value.
func (f *Fields) Raw(name string, value *[]byte) { f.rawValue(name, value, false) }

// RawObject is a raw value that must be an object.
func (f *Fields) RawObject(name string, value *[]byte) { f.rawValue(name, value, true) }

func (f *Fields) rawValue(name string, value *[]byte, object bool) {
	if f.Reads(name) {
		*value = nil
		switch {
		case f.r.Null():
		case object && f.r.Kind() != '{':
			f.r.Expected("an object")
		default:
			*value = f.r.Raw()
		}
	} else if f.Writes(name, len(*value) > 0) {
		f.w.Raw(*value)
	}
}

// Time is a time of the years 0 to 9999, which are those that RFC 3339 can
// express. It is always written; an empty text is the zero time.
func (f *Fields) Time(name string, t *time.Time) {
	if f.Reads(name) {
		*t = readTime(f.r)
	} else if f.Writes(name, true) {
		var buf [64]byte
		f.w.Raw(append(t.UTC().AppendFormat(append(buf[:0], '"'), time.RFC3339Nano), '"'))
	}
}

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

// Seed is 32 bytes in base64. It is always written; an empty text is all
// zeros.
func (f *Fields) Seed(name string, seed *[32]byte) {
	if f.Reads(name) {
		*seed = readSeed(f.r)
	} else if f.Writes(name, true) {
		var buf [64]byte
		f.w.Raw(append(base64.StdEncoding.AppendEncode(append(buf[:0], '"'), seed[:]), '"'))
	}
}

func readSeed(r *rawjson.Reader) (seed [32]byte) {
	text := r.String()
	if text == "" {
		return seed
	}
	var buf [33]byte // base64 decodes whole groups of three bytes
	if len(text) == base64.StdEncoding.EncodedLen(len(seed)) {
		if n, err := base64.StdEncoding.Decode(buf[:], []byte(text)); err == nil && n == len(seed) {
			return [32]byte(buf[:])
		}
	}
	r.Fail("expected 32 bytes in base64")
	return seed
}

// Pointer is an optional object.
func Pointer[T any](f *Fields, name string, p **T, list func(*T, *Fields)) {
	if f.Reads(name) {
		*p = nil
		if f.r.Null() {
			return
		}
		*p = new(T)
	} else if !f.Writes(name, *p != nil) {
		return
	}
	f.Value(func(f *Fields) { list(*p, f) })
}

// Objects is an array of objects with the fields of list.
func Objects[T any](f *Fields, name string, limit int, values *[]T, list func(*T, *Fields)) {
	f.entries(name, limit, len(*values), func(i int, f *Fields) {
		switch {
		case f != nil:
			list(&(*values)[i], f)
		case i == 0:
			*values = nil // of a field given twice the last one counts
		default:
			*values = append(*values, make([]T, 1)...) // less code than *new(T), under TinyGo
		}
	})
}

// entries is the part of [Objects] that is the same for all types, of
// which a plugin has many. entry lists the fields of an entry; without f it makes place:
// it is called with 0 before entries are read, and with the number of entries before each
// of them.
func (f *Fields) entries(name string, limit, n int, entry func(i int, f *Fields)) {
	if f.Reads(name) {
		entry(0, nil)
	} else if !f.Writes(name, n > 0) {
		return
	}
	f.array(limit, n, func(i int) {
		if f.r != nil {
			entry(i+1, nil)
		}
		f.Value(func(f *Fields) { entry(i, f) })
	})
}

// Raws is an array of values of any kind, which stay bytes.
func (f *Fields) Raws(name string, limit int, values *[][]byte) {
	if f.Reads(name) {
		*values = nil
	} else if !f.Writes(name, len(*values) > 0) {
		return
	}
	f.array(limit, len(*values), func(i int) {
		if f.w != nil {
			f.w.Raw((*values)[i])
		} else {
			*values = append(*values, f.r.Raw())
		}
	})
}

// Texts is an array of strings.
func Texts[S ~string](f *Fields, name string, limit int, values *[]S) {
	if f.Reads(name) {
		*values = nil
	} else if !f.Writes(name, len(*values) > 0) {
		return
	}
	f.array(limit, len(*values), func(i int) {
		if f.w != nil {
			f.w.String(string((*values)[i]))
		} else {
			*values = append(*values, S(f.r.String()))
		}
	})
}

// array writes an array of n entries, or reads one of at most limit entries. It
// fails at the first entry beyond the limit, before memory is allocated for the
// rest.
func (f *Fields) array(limit, n int, entry func(i int)) {
	if f.w != nil {
		f.w.Array(func() {
			for i := range n {
				entry(i)
			}
		})
		return
	}
	f.r.Array(func(i int) {
		if i == limit {
			f.r.Fail("more than " + strconv.Itoa(limit) + " entries")
			return
		}
		entry(i)
	})
}
