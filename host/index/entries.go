package index

import (
	"fmt"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// Kind returns the kind of the objects that an index of a plugin makes. It is none that a
// manifest could name.
func Kind(plugin, name string) abi.Kind {
	return abi.Kind{APIVersion: "index.thole.dev/v1", Kind: plugin + "/" + name}
}

// NameOf returns the name of the index of a plugin that has objects of a kind. ok is false for
// any other kind.
func NameOf(plugin string, kind abi.Kind) (name string, ok bool) {
	name, ok = strings.CutPrefix(kind.Kind, plugin+"/")
	return name, ok && kind == Kind(plugin, name)
}

// keys is the field with the keys of an object of an index.
var keys = mustParse("entries[*].key")

func mustParse(path string) fieldpath.Path {
	p, err := fieldpath.ParsePath(path)
	if err != nil {
		panic(err)
	}
	return p
}

// Having returns the selector of the objects of an index that have a key.
func Having(key string) fieldpath.Selector {
	return fieldpath.Selector{{Path: keys, Value: key}}
}

// entriesOf returns the object of an index for what the function has given to another one. Its
// resourceVersion follows from the entries: the same ones are no change.
func entriesOf(kind abi.Kind, of *object.Object, result *abi.IndexResult) (*object.Object, error) {
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

// Lookup returns the item of an object of an index for a key that it has.
func Lookup(o *object.Object, key string) (item abi.IndexItem, err error) {
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
