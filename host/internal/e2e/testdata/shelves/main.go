// Command shelves is a plugin that counts the ConfigMaps whose data names the shelf that
// a Stamp has as its text. It reads them by an index, two at a time, and nothing but
// that field.
//
// A Stamp whose text is "key SHELF" or "key NAMESPACE/SHELF" looks them up by an index whose
// keys a function gives, and writes the numbers that its runs have found, each change once.
// The configuration names the field of the data instead of shelf, and how long the function
// computes.
package main

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Text string `json:"text"`
}

// status has the number of runs, and what the last one found.
type status struct {
	Version string `json:"version"`
}

// book is a ConfigMap. Its size is not read.
type book struct {
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data"`
}

var kind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

var byShelf = sdk.IndexBy("by-shelf", kind, func(x *sdk.Indexing) error {
	var b book
	var config struct {
		Field string `json:"field"`
		Work  int    `json:"work"`
	}
	if err := cmp.Or(x.Config(&config), x.Object(&b)); err != nil {
		return err
	}
	for range config.Work {
		worked = worked*1_664_525 + 1_013_904_223
	}
	if shelf := b.Data[cmp.Or(config.Field, "shelf")]; shelf != "" {
		x.Add(shelf, nil)
	}
	return nil
})

// worked makes the compiler keep the work.
var worked uint32

func init() {
	sdk.Plugin("shelves", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:    "stamp",
		For:     sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Reads:   []sdk.Kind{kind},
		Indexes: []sdk.Index{{Name: "shelf", Kind: kind, Field: "data.shelf"}, byShelf},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			if key, ok := strings.CutPrefix(r.Spec.Text, "key "); ok {
				return sdk.AwaitChange(), lookUp(r, key)
			}
			var names []string
			books := sdk.Query{Kind: kind, FieldSelector: "data.shelf=" + r.Spec.Text}
			for b, err := range sdk.Pages[book](r.Run, books, 2, sdk.Fields("/data/shelf")) {
				if err != nil {
					return sdk.Action{}, err
				}
				names = append(names, b.Metadata.Name+" "+b.Data["shelf"]+b.Data["size"])
			}
			runs, _, _ := strings.Cut(r.Status.Version, ": ")
			n, _ := strconv.Atoi(runs)
			r.Status.Version = strconv.Itoa(n+1) + ": " + strings.Join(names, ",")
			return sdk.AwaitChange(), nil
		},
	})
}

func lookUp(r *sdk.Request[spec, status], key string) error {
	ns, shelf, ok := strings.Cut(key, "/")
	if !ok {
		ns, shelf = "", key
	}
	books, err := r.Lookup(sdk.IndexQuery{Index: byShelf.Name, Namespace: ns, Key: shelf})
	found := strconv.Itoa(len(books))
	switch {
	case errors.Is(err, sdk.ErrDenied):
		found = "denied"
	case err != nil:
		return err
	}
	if before := strings.Fields(r.Status.Version); len(before) == 0 || before[len(before)-1] != found {
		r.Status.Version = strings.TrimSpace(r.Status.Version + " " + found)
	}
	return nil
}

func main() {}
