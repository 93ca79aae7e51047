package cloudevents

import "testing"

func TestTheSectionIsABoolean(t *testing.T) {
	for section, want := range map[string]bool{"true": true, "false": false} {
		if got, err := Decode([]byte(section)); err != nil || got != want {
			t.Errorf("%s: %t, %v", section, got, err)
		}
	}
	for _, section := range []string{`"true"`, `{}`, `1`, `true false`, ``} {
		if _, err := Decode([]byte(section)); err == nil {
			t.Errorf("%q is taken", section)
		}
	}
}
