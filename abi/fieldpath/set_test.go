package fieldpath

import (
	"strings"
	"testing"
)

func mustParse(tb testing.TB, fields ...string) Set {
	tb.Helper()
	s, err := Parse(fields)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a/b":"c"},"name":"web","namespace":"shop","uid":"7","resourceVersion":"9"},` +
	`"spec":{"nodeName":"n1", "replicas": 9007199254740993,"containers":[{"name":"a","image":"x:1"},{"image":"y:2","name":"b"}],"note":null},` +
	`"status":{"phase":"Running","podIP":"10.0.0.1"}}`

const podIdentity = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"7"}`

func TestProjectKeepsTheFieldsOfTheSet(t *testing.T) {
	for name, c := range map[string]struct{ fields, want string }{
		"a whole member":                 {"status", podIdentity + `,"status":{"phase":"Running","podIP":"10.0.0.1"}}`},
		"the same member as a pointer":   {"/status", podIdentity + `,"status":{"phase":"Running","podIP":"10.0.0.1"}}`},
		"a field":                        {"/status/phase", podIdentity + `,"status":{"phase":"Running"}}`},
		"bytes stay bytes":               {"/spec/replicas", podIdentity + `,"spec":{"replicas":9007199254740993}}`},
		"a null":                         {"/spec/note", podIdentity + `,"spec":{"note":null}}`},
		"the order is that of the text":  {"/status/podIP /status/phase /spec/nodeName", podIdentity + `,"spec":{"nodeName":"n1"},"status":{"phase":"Running","podIP":"10.0.0.1"}}`},
		"all metadata":                   {"metadata", `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a/b":"c"},"name":"web","namespace":"shop","uid":"7","resourceVersion":"9"}}`},
		"one of metadata":                {"/metadata/resourceVersion", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"7","resourceVersion":"9"}}`},
		"an escaped name":                {"/metadata/labels/a~1b", `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a/b":"c"},"name":"web","namespace":"shop","uid":"7"}}`},
		"what identifies it":             {"/metadata/name", podIdentity + `}`},
		"absent members":                 {"/spec/absent/x /absent /status/phase/x", podIdentity + `}`},
		"an element":                     {"/spec/containers/0/image", podIdentity + `,"spec":{"containers":[{"image":"x:1"}]}}`},
		"a later element":                {"/spec/containers/1", podIdentity + `,"spec":{"containers":[null,{"image":"y:2","name":"b"}]}}`},
		"elements without the member":    {"/spec/containers/0/absent /spec/containers/1/name", podIdentity + `,"spec":{"containers":[null,{"name":"b"}]}}`},
		"no such element":                {"/spec/containers/2 /spec/containers/01 /spec/containers/- /spec/containers/x", podIdentity + `}`},
		"a member that another contains": {"spec /spec/nodeName /spec/containers/0", podIdentity + `,"spec":` + pod[strings.Index(pod, `{"nodeName"`):strings.Index(pod, `,"status"`)] + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mustParse(t, strings.Fields(c.fields)...).Project([]byte(pod))
			if err != nil || string(got) != c.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

func TestProjectOfUnusualObjects(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"of duplicates the last one counts":  {`{"spec":{"a":1},"spec":{"b":2}}`, `{}`},
		"also if it is no object":            {`{"spec":{"a":1},"spec":5}`, `{}`},
		"also in an object within":           {`{"spec":{"a":1,"a":2},"kind":"x","kind":"K"}`, `{"spec":{"a":2},"kind":"K"}`},
		"an escaped name of the object":      {`{"sp\u0065c":{"\u0061":1}}`, `{"spec":{"a":1}}`},
		"an array where an object is usual":  {`{"spec":[{"a":1}]}`, `{}`},
		"an object where an array is usual":  {`{"spec":{"list":{"1":"x","01":"y"}}}`, `{"spec":{"list":{"1":"x"}}}`},
		"an array":                           {`{"spec":{"list":["w","x","y"]}}`, `{"spec":{"list":[null,"x"]}}`},
		"white space":                        {" {\n\"spec\" : { \"a\" : [ 1 ] } } ", `{"spec":{"a":[ 1 ]}}`},
		"no members":                         {`{}`, `{}`},
		"an empty object in place of fields": {`{"spec":{}}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mustParse(t, "/spec/a", "/spec/list/1").Project([]byte(c.object))
			if err != nil || string(got) != c.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
	for _, text := range []string{``, `5`, `null`, `[]`, `{"spec":}`, `{"a":1}x`} {
		if got, err := mustParse(t, "spec").Project([]byte(text)); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestSetOfAllFieldsIsTheObject(t *testing.T) {
	s := mustParse(t)
	got, err := s.Project([]byte(pod))
	if !s.All() || err != nil || string(got) != pod || s.String() != "" {
		t.Errorf("%v %s %v %s", s.All(), got, err, s)
	}
	if !s.Same([]byte(`{"a":1}`), []byte(`{"a": 1.0}`)) || s.Same([]byte(`{"a":1}`), []byte(`{"a":2}`)) {
		t.Error("objects are not compared as a whole")
	}
	if mustParse(t, "/metadata/uid").All() {
		t.Error("the set of what identifies an object has all fields")
	}
}

func TestSetsWithTheSameFieldsHaveTheSameText(t *testing.T) {
	for fields, want := range map[string]string{
		"spec":                              `["/spec"]`,
		"/spec":                             `["/spec"]`,
		"/spec/b /spec/a /spec/b":           `["/spec/a","/spec/b"]`,
		"/spec/a/b/c spec /spec/a":          `["/spec"]`,
		"/spec/a /spec/ab /spec/a/x":        `["/spec/a","/spec/ab"]`,
		"/kind /metadata/name /metadata/m":  `["/metadata/m"]`,
		"/metadata/name":                    `[]`,
		"/metadata/name metadata":           `["/metadata"]`,
		"/a~1b/~0 /":                        `["/","/a~1b/~0"]`,
		"/apiVersion/deeper /metadata/uid/": `[]`,
	} {
		if got := mustParse(t, strings.Fields(fields)...).String(); got != want {
			t.Errorf("%s: %s, want %s", fields, got, want)
		}
	}
}

func TestSameSeesOnlyTheFieldsOfTheSet(t *testing.T) {
	replaced := func(old, with string) string {
		t.Helper()
		if !strings.Contains(pod, old) {
			t.Fatalf("no %s", old)
		}
		return strings.Replace(pod, old, with, 1)
	}
	for name, c := range map[string]struct {
		fields, other string
		same          bool
	}{
		"another field":             {"/spec/nodeName", replaced(`"Running"`, `"Failed"`), true},
		"another resource version":  {"spec status", replaced(`"9"`, `"10"`), true},
		"the version, if it is in":  {"/metadata/resourceVersion", replaced(`"9"`, `"10"`), false},
		"the field":                 {"/status/phase", replaced(`"Running"`, `"Failed"`), false},
		"within the field":          {"spec", replaced(`"x:1"`, `"x:2"`), false},
		"the field is gone":         {"/status/phase", replaced(`"phase":"Running",`, ``), false},
		"a field beside it is gone": {"/status/phase", replaced(`,"podIP":"10.0.0.1"`, ``), true},
		"what is around is gone":    {"/status/phase", replaced(`"status"`, `"stature"`), false},
		"the uid":                   {"/status/phase", replaced(`"uid":"7"`, `"uid":"8"`), false},
		"the notation":              {"spec", replaced(`"n1", `, `"\u006e1",`), true},
		"the order":                 {"/spec/containers/1", replaced(`"image":"y:2","name":"b"`, `"name":"b","image":"y:2"`), true},
		"an element before":         {"/spec/containers/1", replaced(`"x:1"`, `"x:2"`), true},
		"an element is inserted":    {"/spec/containers/0", replaced(`"containers":[`, `"containers":[0,`), false},
		"an array is an object":     {"/spec/containers/0/name", replaced(`[{"name":"a","image":"x:1"},{"image":"y:2","name":"b"}]`, `{"0":{"name":"a"}}`), false},
		"null instead of absent":    {"/spec/note", replaced(`,"note":null`, ``), false},
		"no JSON":                   {"/spec/note", pod + "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustParse(t, strings.Fields(c.fields)...)
			if s.Same([]byte(pod), []byte(c.other)) != c.same || s.Same([]byte(c.other), []byte(pod)) != c.same {
				t.Errorf("the same is %v: %s", !c.same, c.other)
			}
		})
	}
	if bad := []byte("{"); !mustParse(t, "spec").Same(bad, bad) || mustParse(t, "spec").Same(bad, []byte("{{")) {
		t.Error("a text that is no JSON is not the same only as itself")
	}
}

func TestInvalidFieldIsRefused(t *testing.T) {
	for field, want := range map[string]string{
		"":          `"" is none of metadata, spec, status, and no JSON pointer, such as /spec/replicas`,
		"specs":     `"specs" is none of metadata, spec, status, and no JSON pointer, such as /spec/replicas, did you mean "spec"?`,
		"spec.a":    `"spec.a" is none of metadata, spec, status, and no JSON pointer, such as /spec/replicas, did you mean "spec"?`,
		"#/spec":    `"#/spec" is none of metadata, spec, status, and no JSON pointer, such as /spec/replicas, did you mean "spec"?`,
		"/spec/~":   `"/spec/~" is no JSON pointer: after '~' comes 0 for '~', or 1 for '/'`,
		"/spec/a~2": `"/spec/a~2" is no JSON pointer: after '~' comes 0 for '~', or 1 for '/'`,
	} {
		_, err := Parse([]string{"spec", field})
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", field, err, want)
		}
	}
}
