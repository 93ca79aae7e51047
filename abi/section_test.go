package abi

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/rawjson"
)

// withMembers returns a manifest whose controller has these members, as JSON, before and after its fields.
func withMembers(before, after string) []byte {
	return []byte(`{"name":"web","controllers":[{` + before + `"name":"site","for":{"apiVersion":"v1","kind":"Pod"},"retry":{"factor":150}` + after + `}]}`)
}

func TestMembersThatAreNoFieldsAreSections(t *testing.T) {
	for _, members := range [][2]string{
		{"", `,"a":{"name":"x","b":[1.50]},"c":true`},
		{`"a":{"name":"x","b":[1.50]},"c":true,`, ""},
		{`"a":{"name":"x","b":[1.50]},`, `,"c":true`},
		{`"a":{"name":"x","b":[1.50]},"none":null,"c":true,`, ""},
	} {
		m, err := DecodeManifest(withMembers(members[0], members[1]))
		if err != nil {
			t.Fatal(err)
		}
		c := &m.Controllers[0]
		want := []Section{{Name: "a", Value: []byte(`{"name":"x","b":[1.50]}`)}, {Name: "c", Value: []byte("true")}}
		if !reflect.DeepEqual(c.Sections, want) || c.Name != "site" || c.Retry.Factor != 150 {
			t.Errorf("%q: %+v", members, c)
		}
		if string(c.Section("c")) != "true" || c.Section("none") != nil {
			t.Errorf("%q: the section is %s", members, c.Section("c"))
		}
		if again, err := DecodeManifest(EncodeManifest(m)); err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%q: %+v, %v", members, again, err)
		}
	}
}

func TestSectionsAreDistinctJSONAndBounded(t *testing.T) {
	var many strings.Builder
	for i := range MaxSections + 1 {
		many.WriteString(`,"s` + strings.Repeat("x", i) + `":1`)
	}
	for after, want := range map[string]string{
		`,"a":1,"a":2`:     `controllers[0].a: field given twice`,
		`,"a":{`:           `controllers[0]: expected ',' or '}'`,
		`,"a":[{"b":1}`:    `controllers[0].a`,
		many.String():      `more than 64 members that are not fields`,
		`,"retry":{"x":1}`: `controllers[0].retry`, // only a controller has sections
	} {
		if m, err := DecodeManifest(withMembers("", after)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %s", after, m, err, want)
		}
	}
}

func TestASectionBelongsToACapability(t *testing.T) {
	capabilities := map[string]func(*Controller, []byte) error{
		"every": func(c *Controller, section []byte) error {
			if c.Name == "site" && string(section) == "3" {
				return nil
			}
			return rawjson.NewError("", "must be 3")
		},
		"failing": func(*Controller, []byte) error { return errors.New("is refused") },
	}
	for after, want := range map[string]string{
		"":                        "",
		`,"every":3`:              "",
		`,"every":4`:              "controllers[0].every: must be 3",
		`,"every":3,"failing":{}`: "controllers[0].failing: is refused",
		`,"everi":3`:              `controllers[0]: unknown field "everi", which is not a capability of this host either, did you mean "every"?`,
		`,"intervall":1`:          `controllers[0]: unknown field "intervall", which is not a capability of this host either, did you mean "interval"?`,
		`,"conditons":{}`:         `controllers[0]: unknown field "conditons", which is not a capability of this host either, did you mean "conditions"?`,
		`,"cloudEvents":true`:     `controllers[0]: unknown field "cloudEvents", which is not a capability of this host either`,
		`,"a\nb":true`:            `controllers[0]: unknown field "a\nb", which`,
	} {
		m, err := DecodeManifest(withMembers("", after))
		if err != nil {
			t.Fatal(err)
		}
		err = m.CheckSections(capabilities)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", after, err, want)
		}
	}
}

func TestAMemberOfAResultThatIsNoFieldIsTheSectionOfACapability(t *testing.T) {
	checkOf := func(name string) func([]byte) error {
		if name != "every" {
			return nil
		}
		return func(section []byte) error {
			if string(section) == "3" {
				return nil
			}
			return rawjson.NewError("b", "must be 3")
		}
	}
	for text, want := range map[string]string{
		`{"memo":1,"every":3,"result":"empty"}`: "",
		`{"every":3,"memo":1}`:                  "",
		`{"every":null}`:                        "",
		`{"every":4}`:                           "every.b: must be 3",
		`{"every":3,"evry":3}`:                  `unknown field "evry"`,
		`{"evry":null}`:                         `unknown field "evry"`,
		`{"aply":[]}`:                           `unknown field "aply", did you mean "apply"?`,
		`{"every":3,"every":3}`:                 "every: field given twice",
		`{"every":{"a":}}`:                      "every",
		`{"error":{"every":3}}`:                 `error: unknown field "every"`,
	} {
		out, err := DecodeResultFor("", MaxIntents, checkOf, []byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err == nil && string(out.Section("every")) == "3" != strings.Contains(text, "3") {
			t.Errorf("%s: %+v", text, out)
		}
	}
	if out, err := DecodeResult([]byte(`{"every":3}`)); err == nil {
		t.Errorf("without capabilities: %+v", out)
	}
}
