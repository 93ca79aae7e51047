// Command shelves is a plugin that counts the ConfigMaps whose data names the shelf that
// a Stamp has as its text. It reads them by an index, two at a time, and nothing but
// that field.
package main

import (
	"strconv"
	"strings"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/read"
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

func init() {
	sdk.Plugin("shelves", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:    "stamp",
		For:     sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Reads:   []sdk.Kind{kind},
		Indexes: []sdk.Index{{Name: "shelf", Kind: kind, Field: "data.shelf"}},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			var names []string
			books := sdk.Query{Kind: kind, FieldSelector: "data.shelf=" + r.Spec.Text}
			for b, err := range read.Pages[book](r.Run, books, 2, read.Fields("/data/shelf")) {
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

func main() {}
