package abi

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Index is a field by whose values the host keeps the objects of a kind, so that a list with a field selector does not
// look at all of them.
type Index struct {
	Name  string // a DNS label, distinct within the controller
	Kind  Kind   // one that get and list may read
	Field string // a path such as spec.volumes[*].secret.secretName, see [fieldpath.Path]
}

func (x *Index) fields(f *message.Fields) {
	f.Required("name", &x.Name)
	f.Object("kind", true, x.Kind.fields)
	f.Required("field", &x.Field)
}

// checkIndex returns an error for an index of a kind that is not read: no list could
// use it. Whether the kind has the field is not known here.
func (c Controller) checkIndex(x Index) error {
	err := cmp.Or(
		CheckName("name", x.Name),
		rawjson.Within("kind", x.Kind.check()),
		CheckPath("field", x.Field, "spec.nodeName"),
	)
	switch {
	case err != nil:
		return err
	case !c.MayRead(x.Kind):
		return rawjson.NewError("kind", rawjson.Quote(x.Kind.String())+" is not a kind that the controller may read: name it in reads")
	case !isMetadata(x.Field) && c.readsMetadataOnly(x.Kind):
		return rawjson.NewError("field", rawjson.Quote(x.Field)+" is not in the metadata, of which metadataOnly keeps nothing else")
	}
	return nil
}

// checkIndexes limits the indexes of one kind, which the controllers of a plugin share.
func (m *Manifest) checkIndexes() error {
	fields := map[Kind]map[string]bool{}
	return message.CheckEach("controllers", m.Controllers, func(c Controller) error {
		return message.CheckEach("indexes", c.Indexes, func(x Index) error {
			if fields[x.Kind] == nil {
				fields[x.Kind] = map[string]bool{}
			}
			if fields[x.Kind][x.Field] = true; len(fields[x.Kind]) <= MaxKindIndexes {
				return nil
			}
			most := strconv.Itoa(MaxKindIndexes)
			return rawjson.NewError("", rawjson.Quote(x.Kind.String())+" has more than "+most+" indexes in this plugin")
		})
	})
}

// PrimaryIndex returns the index of that name, by which the primaries are found. The error is a
// [*rawjson.Error].
func (c *Controller) PrimaryIndex(name string) (Index, error) {
	i := slices.IndexFunc(c.Indexes, func(x Index) bool { return x.Name == name })
	switch {
	case i < 0:
		return Index{}, rawjson.NewError("", rawjson.Quote(name)+" is not an index of the controller")
	case c.Indexes[i].Kind != c.For.Kind:
		return Index{}, rawjson.NewError("", rawjson.Quote(name)+" is an index of "+rawjson.Quote(c.Indexes[i].Kind.String())+", must be of the primary kind "+rawjson.Quote(c.For.Kind.String()))
	}
	return c.Indexes[i], nil
}
