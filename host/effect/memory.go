package effect

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// This file holds what is recorded of each primary, so that nothing is written
// twice. Its last part computes the digests of JSON values that the records
// consist of.

// memory holds the records of all primaries. It is bounded by the intents of
// each primary's last run, and is lost when the host restarts.
type memory struct {
	mu    sync.Mutex
	byUID map[types.UID][]*records // one for each controller of the primary
}

// records is what is recorded of one primary and one controller. Only one
// goroutine uses it, because a key never runs twice at once.
type records struct {
	controller string

	applied   map[objectID]applyRecord
	absent    map[objectID]bool // objects that were found absent, or deleted
	patch     patchRecord       // the last patch of the primary
	status    patchRecord       // the last patch of its status
	events    map[digest]bool   // the guest's Events of the last run
	hostEvent digest            // the host's Event about the last run; zero for none
}

// objectID stands for the name of an object, whatever version of its kind an
// intent is written in. It is a digest because records must not hold strings
// of a result or a reply, which would keep all of it in memory.
type objectID digest

func objectIDOf(kind abi.Kind, key object.Key) objectID {
	return objectID(sumStrings(kind.Group(), kind.Kind, key.Namespace, key.Name))
}

// applyRecord is the last apply of an object: the intent, and the object's body
// that the server made of it. As long as both are the same, an apply would
// change nothing.
type applyRecord struct {
	intent digest
	body   digest
	// resourceVersion is the latest at which the object was seen with body.
	resourceVersion string
}

// patchRecord is the last merge patch of a primary, and the value that it led
// to. The same patch of the same value would lead to that value again.
type patchRecord struct {
	patch, result digest
	epoch         int // of a patch of status: see prunedFields.epoch
}

// of returns the records of a target. If there are none, it returns nil, or
// new ones if create is set.
func (m *memory) of(t Target, create bool) *records {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.byUID[t.Object.UID] {
		if r.controller == t.Controller.Name {
			return r
		}
	}
	if !create {
		return nil
	}
	if m.byUID == nil {
		m.byUID = map[types.UID][]*records{}
	}
	r := &records{controller: strings.Clone(t.Controller.Name)}
	uid := types.UID(strings.Clone(string(t.Object.UID)))
	m.byUID[uid] = append(m.byUID[uid], r)
	return r
}

func (m *memory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byUID, uid)
}

// keep drops the records of objects that the last run did not name.
func (r *records) keep(named map[objectID]bool) {
	maps.DeleteFunc(r.applied, func(id objectID, _ applyRecord) bool { return !named[id] })
	maps.DeleteFunc(r.absent, func(id objectID, _ bool) bool { return !named[id] })
}

// setApplied records that an object exists as an intent wants it. The maps are
// made when they are needed: most primaries have no children, and there is one
// of these records for each primary.
func (r *records) setApplied(id objectID, a applyRecord) {
	if r.applied == nil {
		r.applied = map[objectID]applyRecord{}
	}
	a.resourceVersion = strings.Clone(a.resourceVersion)
	r.applied[id] = a
	delete(r.absent, id)
}

// setAbsent records that an object does not exist, or is being deleted.
func (r *records) setAbsent(id objectID) {
	if r.absent == nil {
		r.absent = map[objectID]bool{}
	}
	r.absent[id] = true
	delete(r.applied, id)
}

// digest identifies a JSON value: two texts have the same digest exactly when
// their values are the same. The order of members and white space do not
// matter; numbers are compared as they are written.
type digest [16]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// sumStrings returns a digest of a list of strings without zero bytes.
func sumStrings(s ...string) digest { return sumBytes([]byte(strings.Join(s, "\x00"))) }

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
