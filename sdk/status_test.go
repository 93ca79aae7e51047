package sdk

import (
	"bytes"
	"testing"
)

// TestStatusMayBeAbsentBeforeOrAfterRun covers status types that can be nil.
func TestStatusMayBeAbsentBeforeOrAfterRun(t *testing.T) {
	useEncodingJSON()
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
