package functionindexes

import (
	"fmt"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	contract "github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/object"
)

// keys is the field with the keys of an object of an index.
var keys = mustParse("entries[*].key")

func mustParse(path string) fieldpath.Path {
	p, err := fieldpath.ParsePath(path)
	if err != nil {
		panic(err)
	}
	return p
}

// having returns what the objects of an index of a plugin are that have a key.
func having(plugin string, x contract.Index, key string) cache.Reading {
	return cache.Reading{
		Kind:   cache.DerivedKind(x.Kind, plugin+"/"+x.Name),
		Fields: fieldpath.Selector{{Path: keys, Value: strings.Clone(key)}}, // which is kept longer than a message of the guest
	}
}

// entriesOf returns the object of an index for what the function has given to another one. Its
// resourceVersion follows from the entries: the same ones are no change.
func entriesOf(kind abi.Kind, of *object.Object, result *contract.Result) (*object.Object, error) {
	entries := rawjson.NewWriter(nil)
	entries.Array(func() {
		for _, e := range result.Entries {
			entries.Object(func() {
				entries.Name("key").String(e.Key)
				if e.Value != nil {
					entries.Name("value").Raw(e.Value)
				}
			})
		}
	})
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("apiVersion").String(kind.APIVersion)
		w.Name("kind").String(kind.Kind)
		w.Name("metadata").Object(func() {
			w.Name("name").String(of.Name)
			if of.Namespace != "" {
				w.Name("namespace").String(of.Namespace)
			}
			w.Name("uid").String(string(of.UID))
			w.Name("resourceVersion").String(object.HashOf(string(entries.Bytes())).String())
		})
		w.Name("entries").Raw(entries.Bytes())
	})
	return object.Parse(w.Bytes(), kind)
}

// lookup returns the item of an object of an index for a key that it has.
func lookup(o *object.Object, key string) (item contract.Item, err error) {
	item.Namespace, item.Name = o.Namespace, o.Name
	entries, _ := rawjson.Lookup(o.Raw, "entries")
	r := rawjson.NewReader(entries)
	r.Array(func(int) {
		entry := ""
		var value []byte
		r.Object(func(field string) {
			switch field {
			case "key":
				entry = r.String()
			case "value":
				value = r.Raw()
			}
		})
		if entry == key {
			item.Value = value
		}
	})
	if err := r.End(); err != nil {
		return item, fmt.Errorf("read the entries of %s: %w", o.Key(), err)
	}
	return item, nil
}
