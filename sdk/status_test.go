package sdk

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi/rawjson"
)

// TestStatusPatchIsThatOfWholeTexts: members that are left out of the comparison, and what
// is not read of the texts, change nothing.
func TestStatusPatchIsThatOfWholeTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]string{`1`, `11`, `"a"`, `"a,"`, `[1]`, `[11,1]`, `{"a":1}`, `{"b":11,"a":1}`, `null`, `[{"a":1},{"a":1}]`})
		text := func(label string) []byte {
			out := []byte(`{`)
			for _, name := range []string{"a", "b", "c", "d"} {
				if v := value.Draw(t, label+name); v != "null" {
					out = rawjson.AppendString(append(out, ","[:min(1, len(out)-1)]...), name)
					out = append(append(out, ':'), v...)
				}
			}
			return append(out, '}')
		}
		before, after := text("before "), Raw(text("after "))
		var r Run
		r.diffStatus(before, &after)
		want, err := rawjson.Diff(before, after)
		if err != nil || r.invalid != nil {
			t.Fatal(err, r.invalid)
		}
		if bytes.Equal(before, after) {
			want = nil // there is nothing to write
		}
		if !bytes.Equal(r.result.Status, want) {
			t.Errorf("from %s to %s the patch is %s, want %s", before, after, r.result.Status, want)
		}
	})
}

// TestStatusMayBeAbsentBeforeOrAfterRun covers status types that can be nil.
func TestStatusMayBeAbsentBeforeOrAfterRun(t *testing.T) {
	UseEncodingJSON()
	type typed struct {
		N int `json:"n,omitempty"`
	}
	for name, c := range map[string]struct {
		before, after any
		want          string
	}{
		"map, set":                     {new(map[string]any), &map[string]any{"a": 1}, `{"a":1}`},
		"map, removed":                 {&map[string]any{"a": 1}, new(map[string]any), `{"a":null}`},
		"pointer, set":                 {new(*typed), new(&typed{7}), `{"n":7}`},
		"pointer, removed":             {new(&typed{7}), new(*typed), `{"n":null}`},
		"raw, set":                     {new(Raw), new(Raw(`{"a":1}`)), `{"a":1}`},
		"map, absent before and after": {new(map[string]any), &map[string]any{}, ``},
	} {
		before, err := encode(c.before)
		if err != nil {
			t.Fatal(err)
		}
		var r Run
		r.diffStatus(before, c.after)
		if r.invalid != nil || !bytes.Equal(r.result.Status, []byte(c.want)) {
			t.Errorf("%s: got %s, %+v", name, r.result.Status, r.invalid)
		}
	}
}
