package effect

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// digest identifies a JSON value: two texts have the same digest exactly when
// their values are the same. The order of members and white space do not
// matter; numbers are compared as they are written.
type digest [16]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// sumStrings returns a digest of a list of strings without zero bytes.
func sumStrings(s ...string) digest { return digest(object.HashOf(s...)) }

func sumBytes(b []byte) digest {
	full := sha256.Sum256(b)
	return digest(full[:len(digest{})])
}

// sum returns the digest of a JSON text. No text at all counts as null.
func sum(text []byte) (digest, error) { return sumWithout(text, omit{}) }

// omit names the members of an object that a digest leaves out.
type omit struct {
	top      []string
	metadata []string
}

// notBody are the members of an object that change without a change of what is
// wanted of it. All others are its body.
var notBody = omit{top: []string{"status"}, metadata: []string{"resourceVersion", "generation", "managedFields"}}

// sumBody returns the digest of an object's body.
func sumBody(object []byte) (digest, error) { return sumWithout(object, notBody) }

// sumWithout returns the digest of a JSON text without the members that skip
// names. It is computed for each intent in each run, so the text is neither
// decoded nor copied more than once.
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

// canonical copies a JSON text, in one pass, with the members of each object
// in the order of their names.
type canonical struct {
	*rawjson.Reader
	out     []byte
	members []member // of the objects that are being read, the innermost last
	scratch []byte
}

// member is a member of an object and its place in the output.
type member struct {
	name     string
	from, to int
}

// value copies the next value without the members that skip names, and its
// member metadata without those that metadata names.
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

// object copies an object. Its members are appended to the output as they come,
// and are sorted there afterwards. All nested objects share one stack of
// members, so that an object costs no allocation.
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

// sort puts the members that the output holds from start on in order. The
// server sends most of them in order.
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
