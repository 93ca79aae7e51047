package fieldpath

import (
	"fmt"
	"strings"
	"testing"
)

func TestValuesOfAPath(t *testing.T) {
	const object = `{"spec":{"nodeName":"n1","ready":true,"size":1.50,"none":null,"o":{"a":1},
		"volumes":[{"secret":{"secretName":"s1"}},{"emptyDir":{}},{"secret":{"secretName":"s2"}},{"secret":{"secretName":"s1"}},5],
		"nested":[["a","b"],["c"],"d"],"many":["1","2","3","4","5","6","7","8","9","1","9"],"twice":"x","twice":["y"],"quoted":"a\"\u0062"}}`
	for path, want := range map[string][]string{
		"spec.nodeName":                      {"n1"},
		"spec.ready":                         {"true"},
		"spec.size":                          {"1.50"},
		"spec.none":                          {},
		"spec.o":                             {},
		"spec.o.a":                           {"1"},
		"spec.absent.x":                      {},
		"spec.nodeName.x":                    {},
		"spec.volumes":                       {},
		"spec.volumes.secret":                {},
		"spec.volumes[*].secret.secretName":  {"s1", "s2"},
		"spec.nested[*][*]":                  {"a", "b", "c"},
		"spec.nested[*]":                     {"d"},
		"spec.nodeName[*]":                   {},
		"spec.many[*]":                       {"1", "2", "3", "4", "5", "6", "7", "8", "9"},
		"spec.twice":                         {},
		"spec.twice[*]":                      {"y"},
		"spec.quoted":                        {`a"b`},
		"spec.o[*].a":                        {},
		"metadata.labels.app-name_0":         {},
		"spec.volumes[*].secret.secretName.": nil, // no path
		"":                                   nil,
		".spec":                              nil,
		"spec..a":                            nil,
		"[*]":                                nil,
		"spec.[*]":                           nil,
		"spec[0]":                            nil,
		"spec[*]a":                           nil,
		"spec.a b":                           nil,
		"spec.é":                             nil,
	} {
		p, err := ParsePath(path)
		if (err != nil) != (want == nil) {
			t.Errorf("%q: %v", path, err)
		}
		if err != nil {
			continue
		}
		if got := p.Values([]byte(object)); fmt.Sprint(got) != fmt.Sprint(want) || p.String() != path {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
}

func TestTextThatIsNotJSONHasNoValues(t *testing.T) {
	p, err := ParsePath("a")
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Values([]byte(`{"a":"x"`)); got != nil {
		t.Errorf("%q", got)
	}
}

func TestSelectorMatches(t *testing.T) {
	const object = `{"metadata":{"name":"web"},"spec":{"node":"n1","list":["a","b,=\\"],"empty":""}}`
	for selector, want := range map[string]bool{
		"":                                   true,
		",":                                  true,
		"spec.node=n1":                       true,
		"spec.node==n1":                      true,
		"spec.node!=n1":                      false,
		"spec.node=n2":                       false,
		"spec.node!=n2":                      true,
		"spec.node=":                         false,
		"spec.absent=":                       true,
		"spec.absent!=":                      false,
		"spec.empty=":                        true,
		"spec.absent!=x":                     true,
		"spec.list[*]=a":                     true,
		"spec.list[*]!=a":                    false,
		"spec.list[*]=c":                     false,
		"spec.list[*]=":                      false,
		`spec.list[*]=b\,\=\\`:               true,
		"metadata.name=web,spec.node=n1":     true,
		"metadata.name=web,spec.node!=n1":    false,
		"metadata.name=web,,spec.list[*]=a,": true,
		"spec.node=!n1":                      false,
	} {
		s, err := ParseSelector(selector)
		if err != nil {
			t.Errorf("%s: %v", selector, err)
		} else if s.Matches([]byte(object)) != want {
			t.Errorf("%s: matches is %v", selector, !want)
		}
	}
}

func TestInvalidSelectorIsRefused(t *testing.T) {
	for selector, want := range map[string]string{
		"a":        "no comparison",
		"a,b=c":    "no comparison",
		"=b":       "no field path",
		"a b=c":    "no field path",
		"a =c":     "no field path",
		"a!!=c":    "no field path",
		"a in (b)": "no comparison",
		"a===b":    "no value",
		"a!==b":    "no value",
		"a=b=c":    "no value",
		`a=b\`:     "no value",
		`a=\b`:     "no value",
	} {
		if s, err := ParseSelector(selector); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", selector, s, err, want)
		}
	}
}
