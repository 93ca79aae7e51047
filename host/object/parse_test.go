package object_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
	"weak"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

var pod = abi.Kind{APIVersion: "v1", Kind: "Pod"}

func TestParseRemovesManagedFieldsAndLastApplied(t *testing.T) {
	const managed = `"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}}}]`
	const applied = `"kubectl.kubernetes.io/last-applied-configuration":"{\"a\":1}"`
	tests := []struct{ name, raw, want string }{
		{
			"nothing to remove",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{}}`,
		},
		{
			"last member",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a",` + managed + `},"spec":{}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{}}`,
		},
		{
			"first member",
			`{"apiVersion":"v1","kind":"Pod","metadata":{ ` + managed + ` , "name":"a"},"spec":{}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{ "name":"a"},"spec":{}}`,
		},
		{
			"only member",
			`{"apiVersion":"v1","kind":"Pod","metadata":{` + managed + `}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{}}`,
		},
		{
			"annotation between others, managed fields before it",
			`{"metadata":{` + managed + `,"annotations":{"a":"1",` + applied + `,"b":"2"},"name":"x"},"apiVersion":"v1","kind":"Pod"}`,
			`{"metadata":{"annotations":{"a":"1","b":"2"},"name":"x"},"apiVersion":"v1","kind":"Pod"}`,
		},
		{
			"only annotation",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{` + applied + `},` + managed + `,"name":"x"}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{},"name":"x"}}`,
		},
		{
			"item of a typed list",
			" " + `{"metadata":{"name":"a",` + managed + `},"spec":{"managedFields":1}}` + "\n",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"managedFields":1}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := object.Parse([]byte(tt.raw), pod)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(o.Raw); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if cap(o.Raw) != len(o.Raw) {
				t.Errorf("capacity %d for %d bytes", cap(o.Raw), len(o.Raw))
			}
			if o.Kind != pod {
				t.Errorf("kind %v", o.Kind)
			}
		})
	}
}

func TestParsedObjectDoesNotAliasItsInput(t *testing.T) {
	raw := []byte(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"a","labels":{"k":"v"}}}`)
	o, err := object.Parse(raw, pod)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	if o.Name != "a" || o.Labels["k"] != "v" || o.Kind.Kind != "Node" || o.Kind.APIVersion != "v1" {
		t.Errorf("the object has changed with its input: %+v", o)
	}
}

func TestParseRefusesInvalidObjects(t *testing.T) {
	for raw, want := range map[string]string{
		`{"apiVersion":"v1","kind":"Pod"}`:                             "metadata is required",
		`{"apiVersion":"v1","metadata":{}}`:                            "apiVersion and kind are required",
		`{"kind":"","metadata":{}}`:                                    "apiVersion and kind are required",
		`{"apiVersion":"v1","kind":"Pod","metadata":{},"metadata":{}}`: "given twice",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":1}}`:       "name",
		`{"apiVersion":"v1","kind":"Pod","metadata":{}} x`:             "after the value",
		`[]`: "expected an object",
		``:   "the text ends",
	} {
		if _, err := object.Parse([]byte(raw), pod); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", raw, err, want)
		}
	}
	if _, err := object.Parse([]byte(`{"metadata":{}}`), abi.Kind{}); err == nil {
		t.Error("an object without a kind was accepted")
	}
}

func TestParseAcceptsDeeplyNestedObjects(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 9000) + `1` + strings.Repeat(`}`, 9000)
	if _, err := object.Parse([]byte(`{"metadata":{"name":"a"},"spec":`+deep+`}`), pod); err != nil {
		t.Error(err)
	}
}

// FuzzParse compares Parse with encoding/json.
func FuzzParse(f *testing.F) {
	f.Add(`{"apiVersion":"v1","kind":"Pod","metadata":{"managedFields":[{}],"name":"a","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x","b":"c"}},"spec":{"a":[1,2]}}`)
	f.Add(`{"metadata":{"name":"a","ownerReferences":[{"uid":"u","controller":true}],"managedFields":null,"creationTimestamp":"2026-01-02T03:04:05Z"}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		o, err := object.Parse([]byte(raw), pod)
		if err != nil {
			return
		}
		// Parse replaces a run of bytes that are not UTF-8 by one character, the
		// standard library each byte.
		got, want := decode(t, string(o.Raw)), decode(t, strings.ToValidUTF8(raw, "\uFFFD"))
		meta, _ := want["metadata"].(map[string]any)
		delete(meta, "managedFields")
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		}
		want["apiVersion"], want["kind"] = o.Kind.APIVersion, o.Kind.Kind
		if !reflect.DeepEqual(got, want) {
			t.Errorf("raw:\ngot  %v\nwant %v", got, want)
		}
		if name, ok := meta["name"].(string); ok && name != o.Name {
			t.Errorf("name: got %q, want %q", o.Name, name)
		}
		// As the cache does with an object that it has kept as bytes.
		again, err := object.Parse(o.Raw, pod)
		if err != nil || !bytes.Equal(again.Raw, o.Raw) || again.Kind != o.Kind || !equality.Semantic.DeepEqual(withoutApplied(again), withoutApplied(o)) {
			t.Errorf("parsed again: %v, %s", err, again.Raw)
		}
	})
}

func withoutApplied(o *object.Object) metav1.ObjectMeta {
	meta := o.ObjectMeta
	meta.ManagedFields = nil
	return meta
}

// A queue or a table of keys must not keep the objects in memory that the keys are of.
func TestWhatIdentifiesAnObjectDoesNotKeepItInMemory(t *testing.T) {
	o, err := object.Parse([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"v"}]},"spec":"`+strings.Repeat("x", 100)+`"}`), pod)
	if err != nil {
		t.Fatal(err)
	}
	kept := []string{o.Name, o.Namespace, string(o.UID), o.ResourceVersion, o.OwnerReferences[0].Name, string(o.OwnerReferences[0].UID)}
	text := weak.Make(&o.Raw[0])
	runtime.GC()
	if text.Value() != nil {
		t.Error("the text stays in memory")
	}
	if got := strings.Join(kept, ","); got != "a,n,u,7,o,v" {
		t.Errorf("got %s", got)
	}
}

func decode(t *testing.T, raw string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	m := map[string]any{}
	if err := d.Decode(&m); err != nil {
		t.Skip(err) // nested deeper than the standard library allows
	}
	return m
}

func TestParseReplacesInvalidUTF8(t *testing.T) {
	o, err := object.Parse([]byte("{\"apiVersion\":\"v1\",\"kind\":\"K\",\"metadata\":{\"name\":\"a\",\"labels\":{\"l\":\"\xff\"}}}"), abi.Kind{})
	if err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(o.Raw) || o.Labels["l"] != "\uFFFD" {
		t.Errorf("label %q, raw %q", o.Labels["l"], o.Raw)
	}
}
