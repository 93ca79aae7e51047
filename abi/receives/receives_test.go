package receives

import (
	"reflect"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/functionindexes"
)

func TestASectionIsWhatWasEncoded(t *testing.T) {
	all := []Receive{
		{Type: "com.example.visit", DataSchema: "https://example.com/visit"},
		{Type: "com.example.probe", Resolve: &Resolve{Index: "by-host", From: "data.host"}},
	}
	text := Encode(all)
	if want := `[{"type":"com.example.visit","dataSchema":"https://example.com/visit"},{"type":"com.example.probe","resolve":{"index":"by-host","from":"data.host"}}]`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if got, err := Decode(text); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSectionsAreChecked(t *testing.T) {
	site, pod := abi.Kind{APIVersion: "example.com/v1", Kind: "Site"}, abi.Kind{APIVersion: "v1", Kind: "Pod"}
	c := &abi.Controller{For: site.All(), Indexes: []abi.Index{{Name: "host", Kind: site, Field: "spec.host"}, {Name: "node", Kind: pod, Field: "spec.nodeName"}}}
	c.Sections = []abi.Section{{Name: functionindexes.Name, Value: functionindexes.Encode([]functionindexes.Index{{Name: "keys", Kind: site}, {Name: "pods", Kind: pod}})}}
	resolve := func(index, from string) string {
		return `[{"type":"t","resolve":{"index":"` + index + `","from":"` + from + `"}}]`
	}
	for name, test := range map[string]struct{ section, want string }{
		"none":                   {`[]`, ""},
		"by type":                {`[{"type":"t"},{"type":"t","dataSchema":"s"}]`, ""},
		"by schema":              {`[{"dataSchema":"s"}]`, ""},
		"by a field":             {resolve("host", "data.ids[*]"), ""},
		"by keys":                {resolve("keys", "subject"), ""},
		"no array":               {`{}`, `expected an array, found an object (offset 0)`},
		"another member":         {`[{"types":"t"}]`, `[0]: unknown field "types", did you mean "type"? (offset 10)`},
		"of no sort":             {`[{"resolve":{"index":"host","from":"subject"}}]`, `[0]: has neither type nor dataSchema: name the events by at least one of them`},
		"twice":                  {`[{"type":"t"},{"type":"t"}]`, `[1]: "t " is given twice`},
		"a long type":            {`[{"type":"` + strings.Repeat("t", 257) + `"}]`, `[0].type: 257 bytes, the limit is 256`},
		"a long schema":          {`[{"dataSchema":"` + strings.Repeat("s", 257) + `"}]`, `[0].dataSchema: 257 bytes, the limit is 256`},
		"too many":               {`[` + strings.Repeat(`{},`, 64) + `{}]`, `[64]: more than 64 entries (offset 193)`},
		"no index":               {resolve("hosts", "subject"), `[0].resolve.index: "hosts" is not an index of the controller`},
		"an index of other kind": {resolve("node", "subject"), `[0].resolve.index: "node" is an index of "v1 Pod", must be of the primary kind "example.com/v1 Site"`},
		"keys of other objects":  {resolve("pods", "subject"), `[0].resolve.index: "pods" is an index of "v1 Pod", must be of the primary kind "example.com/v1 Site"`},
		"from nowhere":           {resolve("host", ""), `[0].resolve.from: is required, such as data.containerId`},
		"from no path":           {resolve("host", "data."), `[0].resolve.from: "data." is no field path, such as spec.nodeName or spec.volumes[*].secret.secretName`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := Check(c, []byte(test.section)); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%s: %q, want %q", test.section, got, test.want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode([]Receive{{Type: "t", DataSchema: "s", Resolve: &Resolve{Index: "a", From: "b"}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if all, err := Decode(data); err == nil {
			if again, err := Decode(Encode(all)); err != nil || len(all) > 0 && !reflect.DeepEqual(again, all) {
				t.Errorf("%+v, %v, want %+v", again, err, all)
			}
		}
	})
}
