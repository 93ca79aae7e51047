package webhooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4" // that of the API server

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// patched returns what the API server makes of an object for which a guest returns another one.
func patched(requested, returned string) (string, error) {
	o, err := object.Parse([]byte(requested), abi.Kind{})
	if err != nil {
		return "", err
	}
	text, err := patchOf([]byte(requested), o.Raw, []byte(returned))
	if err != nil || text == nil {
		return requested, err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", text, err)
	}
	result, err := patch.Apply([]byte(requested))
	return string(result), err
}

const requestedObject = `{"apiVersion":"a.b/v1","kind":"K","metadata":{"name":"n","uid":"u","resourceVersion":"7","creationTimestamp":null,
	"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"secret","x":"1"},
	"managedFields":[{"manager":"m","operation":"Update","fieldsV1":{"f:spec":{}}}]},
	"spec":{"big":9007199254740993,"list":[1,2,3],"n":null,"a/b~c":{"":0}}}`

func TestPatchMakesTheObjectWhatTheGuestReturned(t *testing.T) {
	head := func(metadata, spec string) string {
		return `{"apiVersion":"a.b/v1","kind":"K","metadata":{"name":"n","uid":"u"` + metadata + `},"spec":` + spec + `}`
	}
	const same = `{"big":9007199254740993,"list":[1,2,3],"n":null,"a/b~c":{"":0}}`
	kept := `,"resourceVersion":"7","creationTimestamp":null,"managedFields":[{"manager":"m","operation":"Update","fieldsV1":{"f:spec":{}}}]`
	const hidden = `"kubectl.kubernetes.io/last-applied-configuration":"secret"`
	for name, test := range map[string]struct{ metadata, spec, wantMetadata, wantSpec string }{
		"nothing changed":             {`,"annotations":{"x":"1"}`, same, `,"annotations":{` + hidden + `,"x":"1"}`, same},
		"all annotations removed":     {``, same, `,"annotations":{` + hidden + `}`, same},
		"annotation and label added":  {`,"annotations":{"x":"1","y":"<&>"},"labels":{"l":"v"}`, same, `,"annotations":{` + hidden + `,"x":"1","y":"<&>"},"labels":{"l":"v"}`, same},
		"array shorter":               {``, `{"big":9007199254740993,"list":[3],"n":null,"a/b~c":{"":0}}`, `,"annotations":{` + hidden + `}`, `{"big":9007199254740993,"list":[3],"n":null,"a/b~c":{"":0}}`},
		"array longer, types changed": {``, `{"big":9007199254740992,"list":[{},2,"3",null,[4]],"a/b~c":{"":{"~/":1}}}`, `,"annotations":{` + hidden + `}`, `{"big":9007199254740992,"list":[{},2,"3",null,[4]],"a/b~c":{"":{"~/":1}}}`},
		"null where a value was":      {``, `{"big":null,"list":null,"n":0}`, `,"annotations":{` + hidden + `}`, `{"big":null,"list":null,"n":0}`},
		"system fields kept":          {`,"resourceVersion":"7","creationTimestamp":null`, same, `,"annotations":{` + hidden + `}`, same},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := patched(requestedObject, head(test.metadata, test.spec))
			if want := head(test.wantMetadata+kept, test.wantSpec); err != nil || !rawjson.Equal([]byte(got), []byte(want)) {
				t.Errorf("got  %s, %v\nwant %s", got, err, want)
			}
		})
	}
}

func TestUnchangedObjectHasNoPatch(t *testing.T) {
	o, _ := object.Parse([]byte(requestedObject), abi.Kind{})
	if patch, err := patchOf([]byte(requestedObject), o.Raw, o.Raw); patch != nil || err != nil {
		t.Errorf("got %s, %v", patch, err)
	}
}

func TestWhatTheAPIServerSetsCannotBeChanged(t *testing.T) {
	for _, metadata := range []string{
		`"resourceVersion":"8"`, `"generation":1`, `"creationTimestamp":"2020-01-01T00:00:00Z"`, `"deletionTimestamp":"2020-01-01T00:00:00Z"`,
		`"managedFields":[]`, `"generateName":"x"`, `"deletionGracePeriodSeconds":1`, `"selfLink":"/x"`,
	} {
		name, _, _ := strings.Cut(metadata[1:], `"`)
		_, err := patched(requestedObject, `{"apiVersion":"a.b/v1","kind":"K","metadata":{"name":"n","uid":"u",`+metadata+`}}`)
		if err == nil || !strings.Contains(err.Error(), "metadata."+name+" cannot be changed") {
			t.Errorf("%s: %v", metadata, err)
		}
	}
	if _, err := patched(requestedObject, `{"apiVersion":"a.b/v1","kind":"K"}`); err == nil || !strings.Contains(err.Error(), "metadata is missing") {
		t.Errorf("no metadata: %v", err)
	}
}

// A name of 100 kB around 10,000 values would be in as many paths: 1 GB of patch.
func TestPatchOfLongPathsIsBounded(t *testing.T) {
	var before, after strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&before, ",%d", i)
		fmt.Fprintf(&after, ",%d", i+1)
	}
	long := strings.Repeat("x", 100_000)
	object := func(list, more string) string {
		return `{"apiVersion":"a.b/v1","kind":"K","metadata":{"name":"n"},"spec":{"` + long + `":[0` + list + `]},` + more + `}`
	}
	for name, test := range map[string]struct{ before, after string }{
		"in both objects":         {before.String(), after.String()},
		"in the requested object": {before.String(), ""},
		"in the returned object":  {"", after.String()},
	} {
		t.Run(name, func(t *testing.T) {
			requested, wanted := object(test.before, `"~/":1`), object(test.after, `"a/b":2`)
			patch, err := patchOf([]byte(requested), []byte(requested), []byte(wanted))
			if err != nil || len(patch) > 1<<20 {
				t.Fatalf("%d bytes, %v", len(patch), err)
			}
			got, err := patched(requested, wanted)
			if err != nil || !rawjson.Equal([]byte(got), []byte(wanted)) {
				t.Errorf("the patch makes something else of it: %v", err)
			}
		})
	}
}

func FuzzPatch(f *testing.F) {
	f.Add(`{"a":[1,{"b":null}],"c":"d"}`, `{"a":[{"b":0}],"~/":[[]]}`)
	f.Add(`{"a":1.0,"b":1e3}`, `{"a":1,"b":1000}`)
	f.Add(`{"":{"":{}}}`, `{"":{"":[]}}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		for _, text := range []string{before, after} {
			if rawjson.Valid([]byte(text), 50) != nil || !json.Valid([]byte(text)) || len(bytes.TrimSpace([]byte(text))) == 0 || bytes.TrimSpace([]byte(text))[0] != '{' {
				t.Skip()
			}
		}
		object := func(spec string) string {
			return `{"apiVersion":"a.b/v1","kind":"K","metadata":{"name":"n"},"spec":` + spec + `}`
		}
		got, err := patched(object(before), object(after))
		if err != nil {
			t.Fatal(err)
		}
		was, err := decodeMap([]byte(got))
		if err != nil {
			t.Fatal(err)
		}
		wanted, _ := decodeMap([]byte(object(after)))
		if a, b := fmt.Sprint(was), fmt.Sprint(wanted); a != b {
			t.Errorf("got  %s\nwant %s", a, b)
		}
	})
}
