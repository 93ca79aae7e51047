package sdk

import (
	"bytes"
	"testing"
)

// A status may be of a type that has nothing to begin with.
func TestStatusThatBeginsOrEndsAsNothing(t *testing.T) {
	useEncodingJSON()
	type typed struct {
		N int `json:"n,omitempty"`
	}
	for name, c := range map[string]struct {
		before, after any
		want          string
	}{
		"a map":               {new(map[string]any), &map[string]any{"a": 1}, `{"a":1}`},
		"a map that goes":     {&map[string]any{"a": 1}, new(map[string]any), `{"a":null}`},
		"a pointer":           {new(*typed), new(&typed{7}), `{"n":7}`},
		"a pointer that goes": {new(&typed{7}), new(*typed), `{"n":null}`},
		"raw":                 {new(Raw), new(Raw(`{"a":1}`)), `{"a":1}`},
		"nothing still":       {new(map[string]any), &map[string]any{}, ``},
	} {
		before, err := encode(c.before)
		if err != nil {
			t.Fatal(err)
		}
		var r Run
		r.diffStatus(before, c.after)
		if r.broken != nil || !bytes.Equal(r.result.Status, []byte(c.want)) {
			t.Errorf("%s: got %s, %+v", name, r.result.Status, r.broken)
		}
	}
}
