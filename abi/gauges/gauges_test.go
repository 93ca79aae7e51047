package gauges

import (
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi"
)

// site returns a controller with indexes of its primaries, and one of another kind.
func site(primary abi.Kind) *abi.Controller {
	return &abi.Controller{Name: "site", For: primary.All(), Indexes: []abi.Index{
		{Name: "phase", Kind: primary, Field: "status.phase"},
		{Name: "zone", Kind: primary, Field: "metadata.labels.zone"},
		{Name: "node", Kind: abi.Kind{APIVersion: "v1", Kind: "Pod"}, Field: "spec.nodeName"},
	}}
}

func TestASectionIsWhatWasEncoded(t *testing.T) {
	all := []Gauge{{Index: "phase"}, {Index: "zone"}}
	text := Encode(all)
	if want := `[{"index":"phase"},{"index":"zone"}]`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if got, err := Decode(text); err != nil || !slices.Equal(got, all) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSectionsAreChecked(t *testing.T) {
	lab, secret := abi.Kind{APIVersion: "example.com/v1", Kind: "Lab"}, abi.Kind{APIVersion: "v1", Kind: "Secret"}
	for name, c := range map[string]struct {
		primary       abi.Kind
		section, want string
	}{
		"by fields":               {lab, `[{"index":"phase"},{"index":"zone"}]`, ""},
		"the metadata of Secrets": {secret, `[{"index":"zone"}]`, ""},
		"none":                    {lab, `[]`, ""},
		"no array":                {lab, `{"index":"phase"}`, `expected an array, found an object (offset 0)`},
		"another member":          {lab, `[{"index":"phase","field":"a"}]`, `[0]: unknown field "field" (offset 26)`},
		"no name":                 {lab, `[{}]`, `[0].index: "" is not an index of the controller`},
		"no index":                {lab, `[{"index":"phases"}]`, `[0].index: "phases" is not an index of the controller`},
		"twice":                   {lab, `[{"index":"phase"},{"index":"phase"}]`, `[1].index: "phase" is given twice`},
		"of another kind":         {lab, `[{"index":"node"}]`, `[0].index: "node" is an index of "v1 Pod", must be of the primary kind "example.com/v1 Lab"`},
		"the content of Secrets":  {secret, `[{"index":"phase"}]`, `[0].index: "phase" would publish the content of v1 Secret in metrics: name one by a field of the metadata`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := Check(site(c.primary), []byte(c.section)); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%s: %q, want %q", c.section, got, c.want)
			}
		})
	}
}
