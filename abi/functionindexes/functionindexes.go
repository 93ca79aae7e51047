// Package functionindexes is what hosts and guests share of the capability by which objects are found by keys that a
// function of the guest gives to them. SPEC.md specifies it.
package functionindexes

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Name is the name of the capability: of its section in a controller of a manifest.
const Name = "functionIndexes"

const (
	// Export is the function of the guest that gives keys to an object: (len i32) -> i32.
	Export = "index"
	// Import is the function of the host that reads what has a key: (ptr, len i32) -> i64, a capability call.
	Import = "index_get"
)

// Limits of indexes. Sizes are in bytes.
const (
	Max        = 64      // of a controller
	MaxOfKind  = 8       // of one kind, in all controllers of a plugin together
	MaxEntries = 64      // that a function gives to one object
	MaxKey     = 1 << 10 // of a key
	MaxValue   = 4 << 10 // of the value beside it
)

// Index is an index whose keys the guest gives, by [Export].
type Index struct {
	Name string // a DNS label, distinct among all indexes of the controller
	abi.Kind
}

// Encode returns the section of a controller with these indexes.
func Encode(all []Index) []byte { return message.EncodeArray(all, (*Index).fields) }

// Decode decodes the section of a controller. Every error is a [*rawjson.Error].
func Decode(section []byte) ([]Index, error) {
	return message.DecodeArray(section, Max, (*Index).fields)
}

// Of returns the indexes of a controller of a checked manifest.
func Of(c *abi.Controller) []Index {
	section := c.Section(Name)
	if section == nil {
		return nil
	}
	all, _ := Decode(section) // was checked
	return all
}

// All returns what the manifest has of all indexes of a controller. Those of this capability have no field.
func All(c *abi.Controller) []abi.Index {
	all := slices.Clone(c.Indexes)
	for _, x := range Of(c) {
		all = append(all, abi.Index{Name: x.Name, Kind: x.Kind})
	}
	return all
}

// OfManifest returns the indexes of a checked manifest, each once.
func OfManifest(m *abi.Manifest) (all []Index) {
	for i := range m.Controllers {
		for _, x := range Of(&m.Controllers[i]) {
			if !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
	}
	return all
}

// Check checks the section of a controller, see [abi.Manifest.CheckSections].
func Check(c *abi.Controller, section []byte) error {
	all, err := Decode(section)
	if err != nil {
		return err
	}
	return cmp.Or(
		message.CheckEach("", all, func(x Index) error { return x.check(c) }),
		message.CheckDistinct("", "name", all, func(x Index) string { return x.Name }),
	)
}

// check returns an error for an index of a kind that is not read: nothing could use it.
func (x Index) check(c *abi.Controller) error {
	if err := abi.CheckName("name", x.Name); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(c.Indexes, func(other abi.Index) bool { return other.Name == x.Name }):
		return rawjson.NewError("name", rawjson.Quote(x.Name)+" is in indexes, too: give one of them another name")
	case !c.MayRead(x.Kind):
		of := rawjson.Quote(x.Kind.String())
		return rawjson.NewError("kind", of+" is not a kind that the controller may read: name it in reads")
	}
	return nil
}

// CheckManifest checks the sections of all controllers together, which share their indexes. Two of one name must be of
// one kind: the guest is given the name.
func CheckManifest(m *abi.Manifest) error {
	kinds, count := map[string]abi.Kind{}, map[abi.Kind]int{}
	return message.CheckEach("controllers", m.Controllers, func(c abi.Controller) error {
		return message.CheckEach(Name, Of(&c), func(x Index) error {
			name, of := rawjson.Quote(x.Name), rawjson.Quote(x.Kind.String())
			switch other, known := kinds[x.Name]; {
			case known && other != x.Kind:
				in := rawjson.Quote(other.String()) + " in another controller"
				return rawjson.NewError("name", name+" is an index of "+in+": give one of them another name")
			case known:
				return nil
			}
			kinds[x.Name] = x.Kind
			if count[x.Kind]++; count[x.Kind] > MaxOfKind {
				most := strconv.Itoa(MaxOfKind)
				return rawjson.NewError("", of+" has more than "+most+" indexes by functions in this plugin")
			}
			return nil
		})
	})
}

func (x *Index) fields(f *message.Fields) {
	f.Required("name", &x.Name)
	f.Required("apiVersion", &x.APIVersion)
	f.Required("kind", &x.Kind.Kind)
}
