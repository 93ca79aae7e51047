package effect

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
)

// digest stands for a JSON value: the same for two texts exactly when their
// values are the same. The order of members and white space do not count,
// numbers are compared as they are written.
type digest [16]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// sumStrings returns a digest of a list of strings that hold no zero byte.
func sumStrings(s ...string) digest { return sumBytes([]byte(strings.Join(s, "\x00"))) }

func sumBytes(b []byte) (d digest) {
	full := sha256.Sum256(b)
	copy(d[:], full[:])
	return d
}

// sum returns the digest of a JSON text; no value at all counts as null.
func sum(text []byte) (digest, error) { return sumWithout(text, omit{}) }

// omit names the members of an object that do not count.
type omit struct {
	top      []string
	metadata []string
}

// volatile is what changes in an object without anybody having changed what
// it wants: the rest is its body.
var volatile = omit{top: []string{"status"}, metadata: []string{"resourceVersion", "generation", "managedFields"}}

// sumBody returns the digest of an object's body.
func sumBody(object []byte) (digest, error) { return sumWithout(object, volatile) }

func sumWithout(text []byte, skip omit) (digest, error) {
	if len(text) == 0 {
		return sumStrings("null"), nil
	}
	c := canonical{Reader: rawjson.NewReader(text), out: make([]byte, 0, len(text)+len(text)/8)}
	c.value(skip.top, skip.metadata)
	if err := c.End(); err != nil {
		return digest{}, err
	}
	return sumBytes(c.out), nil
}

// canonical copies a JSON text with the members of each object in the order
// of their names, in one pass.
type canonical struct {
	*rawjson.Reader
	out     []byte
	members []member // of the objects that are being read, the innermost last
	scratch []byte
}

// member is where one member of an object lies in the output.
type member struct {
	name     string
	from, to int
}

// value copies the next value without the members that skip names, and
// without those of its member metadata that metadata names.
func (c *canonical) value(skip, metadata []string) {
	switch c.Kind() {
	case '{':
		c.object(skip, metadata)
	case '[':
		c.out = append(c.out, '[')
		c.Array(func(int) {
			c.value(nil, nil)
			c.out = append(c.out, ',')
		})
		c.out = append(c.out, ']')
	case '"':
		c.out = rawjson.AppendString(c.out, c.String())
	default:
		c.out = append(c.out, c.Raw()...)
	}
}

func (c *canonical) object(skip, metadata []string) {
	c.out = append(c.out, '{')
	start, first := len(c.out), len(c.members)
	c.Object(func(name string) {
		if slices.Contains(skip, name) {
			return
		}
		from := len(c.out)
		c.out = append(rawjson.AppendString(c.out, name), ':')
		if name == "metadata" {
			c.value(metadata, nil)
		} else {
			c.value(nil, nil)
		}
		c.out = append(c.out, ',')
		c.members = append(c.members, member{name, from, len(c.out)})
	})
	c.sort(start, c.members[first:])
	c.members = c.members[:first]
	c.out = append(c.out, '}')
}

func (c *canonical) sort(start int, members []member) {
	byName := func(a, b member) int { return strings.Compare(a.name, b.name) }
	if slices.IsSortedFunc(members, byName) {
		return
	}
	slices.SortStableFunc(members, byName)
	c.scratch = append(c.scratch[:0], c.out[start:]...)
	c.out = c.out[:start]
	for _, m := range members {
		c.out = append(c.out, c.scratch[m.from-start:m.to-start]...)
	}
}
