package functionindexes

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/internal/goldentest"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

const object = `{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"shop","namespace":"default",` +
	`"uid":"5f0c","resourceVersion":"812","generation":3},"spec":{"replicas":9007199254740993,"title":"Schöne \u0042ücher"}}`

var (
	site = abi.Kind{APIVersion: "example.com/v1", Kind: "Site"}
	pod  = abi.Kind{APIVersion: "v1", Kind: "Pod"}
)

func fullRequest() *Request {
	return &Request{Index: "by-site", Object: []byte(object), Config: []byte(`{"region":"north"}`)}
}

func fullResult() *Result {
	return &Result{Entries: []Entry{{Key: "shop", Value: []byte(`{"port":80}`)}}, Message: "the label site is no name"}
}

func fullCall() *Call { return &Call{Index: "by-site", Key: "shop", Namespace: "default"} }

func fullReply() *Reply {
	return &Reply{Items: []Item{{Namespace: "default", Name: "shop-0", Value: []byte(`{"port":80}`)}}}
}

func TestASectionIsWhatWasEncoded(t *testing.T) {
	all := []Index{{"by-site", pod}, {"by-host", site}}
	text := Encode(all)
	if want := `[{"name":"by-site","apiVersion":"v1","kind":"Pod"},{"name":"by-host","apiVersion":"example.com/v1","kind":"Site"}]`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if got, err := Decode(text); err != nil || !slices.Equal(got, all) {
		t.Errorf("%+v, %v", got, err)
	}
	byField := abi.Index{Name: "host", Kind: site, Field: "spec.host"}
	c := abi.Controller{Indexes: []abi.Index{byField}, Sections: []abi.Section{{Name: Name, Value: text}}}
	if got := Of(&c); !slices.Equal(got, all) || Of(&abi.Controller{}) != nil {
		t.Errorf("%+v", got)
	}
	if got, want := All(&c), []abi.Index{byField, {Name: "by-site", Kind: pod}, {Name: "by-host", Kind: site}}; !slices.Equal(got, want) || len(c.Indexes) != 1 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := OfManifest(&abi.Manifest{Controllers: []abi.Controller{c, {}, c}}); !slices.Equal(got, all) {
		t.Errorf("%+v", got)
	}
}

// codec encodes what it decodes.
type codec func(data []byte) (again []byte, value any, err error)

func codecOf[T any](decode func([]byte) (*T, error), encode func(*T) []byte) codec {
	return func(data []byte) (again []byte, value any, err error) {
		m, err := decode(data)
		if err != nil {
			return nil, nil, err
		}
		return encode(m), m, nil
	}
}

// codecs are those of the messages, by the names of their examples.
func codecs() map[string]codec {
	return map[string]codec{
		"request": codecOf(DecodeRequest, EncodeRequest), "result": codecOf(DecodeResult, EncodeResult),
		"call": codecOf(DecodeCall, EncodeCall), "reply": codecOf(DecodeReply, EncodeReply),
	}
}

func TestMessagesMatchGoldenFiles(t *testing.T) {
	for name, m := range map[string]struct {
		encoded []byte
		want    any
	}{
		"request": {EncodeRequest(fullRequest()), fullRequest()},
		"result":  {EncodeResult(fullResult()), fullResult()},
		"call":    {EncodeCall(fullCall()), fullCall()},
		"reply":   {EncodeReply(fullReply()), fullReply()},
	} {
		golden := goldentest.Expect(t, name, m.encoded)
		if _, got, err := codecs()[name](m.encoded); err != nil || !reflect.DeepEqual(got, m.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if again, _, err := codecs()[name](golden); err != nil || !rawjson.Equal(again, golden) {
			t.Errorf("%s: the file as it is decodes to %s, %v", name, again, err)
		}
	}
}

// TestSpecification compares SPEC.md with the types, and the examples with the codec.
func TestSpecification(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z]+)` \\| [a-z]").FindAllSubmatch(spec, -1) {
		rows = append(rows, string(m[1]))
	}
	var want []string
	for _, list := range []func(*message.Fields){
		(&Index{}).fields, (&Request{}).fields, (&Result{}).fields, (&Entry{}).fields, (&Call{}).fields, (&Reply{}).fields, (&Item{}).fields,
	} {
		want = append(want, message.Names(list)...)
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the tables have\n%q, the messages\n%q", rows, want)
	}
	examples := regexp.MustCompile("(?s)```json ([a-z]+)\n(.*?)\n```").FindAllSubmatch(spec, -1)
	if len(examples) != len(codecs()) {
		t.Errorf("%d examples", len(examples))
	}
	for _, m := range examples {
		if again, _, err := codecs()[string(m[1])](m[2]); err != nil || !rawjson.Equal(again, m[2]) {
			t.Errorf("%s is decoded only in part, as %s, %v", m[2], again, err)
		}
	}
	for _, limit := range []string{
		fmt.Sprintf("an array of up to %d indexes", Max), fmt.Sprintf("at most %d of a kind", MaxOfKind), fmt.Sprintf("up to %d, with distinct keys", MaxEntries),
		fmt.Sprintf("| required | up to %d KiB |", MaxKey>>10), fmt.Sprintf("up to %d KiB, which `index_get` returns", MaxValue>>10), fmt.Sprintf("what is beyond %d KiB", abi.MaxErrorMessage>>10),
	} {
		if !bytes.Contains(spec, []byte(limit)) {
			t.Errorf("SPEC.md does not have %q", limit)
		}
	}
}

func numbered(n int, entry func(i int) string) string {
	var all []string
	for i := range n {
		all = append(all, entry(i))
	}
	return "[" + strings.Join(all, ",") + "]"
}

func TestSectionsAreChecked(t *testing.T) {
	c := &abi.Controller{For: site.All(), Reads: abi.AllOf(pod), Indexes: []abi.Index{{Name: "node", Kind: pod, Field: "spec.nodeName"}}}
	of := func(name, kind string) string {
		return `{"name":"` + name + `","apiVersion":"v1","kind":"` + kind + `"}`
	}
	for name, test := range map[string]struct{ section, want string }{
		"none":               {`[]`, ""},
		"of a kind":          {`[` + of("a", "Pod") + `,` + of("b", "Pod") + `]`, ""},
		"of the primary":     {`[{"name":"a","apiVersion":"example.com/v1","kind":"Site"}]`, ""},
		"no array":           {`{}`, `expected an array, found an object (offset 0)`},
		"a field":            {`[{"name":"a","field":"b"}]`, `[0]: unknown field "field" (offset 21)`},
		"no name":            {`[{}]`, `[0].name: "" is not a DNS label (lower case letters, digits and '-', at most 63)`},
		"another name":       {`[` + of("A", "Pod") + `]`, `[0].name: "A" is not a DNS label (lower case letters, digits and '-', at most 63)`},
		"twice":              {`[` + of("a", "Pod") + `,` + of("a", "Pod") + `]`, `[1].name: "a" is given twice`},
		"the name of others": {`[` + of("node", "Pod") + `]`, `[0].name: "node" is in indexes, too: give one of them another name`},
		"of another kind":    {`[` + of("a", "Secret") + `]`, `[0].kind: "v1 Secret" is not a kind that the controller may read: name it in reads`},
		"too many":           {numbered(Max+1, func(int) string { return "{}" }), `[64]: more than 64 entries (offset 193)`},
	} {
		got := ""
		if err := Check(c, []byte(test.section)); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// The host keeps the indexes of a plugin for all of its controllers.
func TestSectionsOfAllControllersAreCheckedTogether(t *testing.T) {
	of := func(n int, kind abi.Kind) abi.Controller {
		var all []Index
		for i := range n {
			all = append(all, Index{Name: fmt.Sprint("n", i), Kind: kind})
		}
		return abi.Controller{Sections: []abi.Section{{Name: Name, Value: Encode(all)}}}
	}
	named := abi.Controller{Sections: []abi.Section{{Name: Name, Value: Encode([]Index{{"other", pod}})}}}
	for name, test := range map[string]struct {
		controllers []abi.Controller
		want        string
	}{
		"the same in two":        {[]abi.Controller{of(8, pod), {}, of(8, pod)}, ""},
		"a ninth of a kind":      {[]abi.Controller{of(8, pod), named}, `controllers[1].functionIndexes[0]: "v1 Pod" has more than 8 indexes by functions in this plugin`},
		"one name for two kinds": {[]abi.Controller{of(1, pod), of(1, site)}, `controllers[1].functionIndexes[0].name: "n0" is an index of "v1 Pod" in another controller: give one of them another name`},
	} {
		got := ""
		if err := CheckManifest(&abi.Manifest{Controllers: test.controllers}); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestInvalidMessagesAreRefused(t *testing.T) {
	for _, c := range []struct{ of, text, want string }{
		{"result", `{"entrys":[]}`, `unknown field "entrys", did you mean "entries"? (offset 10)`},
		{"result", `{"entries":[{"value":1}]}`, `entries[0].key: is required`},
		{"result", `{"entries":[{"key":"a"},{"key":"a"}]}`, `entries[1].key: is given twice`},
		{"result", `{"entries":[{"key":"` + strings.Repeat("k", MaxKey+1) + `"}]}`, `entries[0].key: 1025 bytes, the limit is 1024`},
		{"result", `{"entries":[{"key":"a","value":"` + strings.Repeat("v", MaxValue-1) + `"}]}`, `entries[0].value: 4097 bytes, the limit is 4096`},
		{"result", `{"entries":` + numbered(MaxEntries+1, func(int) string { return "{}" }) + `}`, `entries[64]: more than 64 entries (offset 204)`},
		{"call", `{"index":"a"}`, `key: is required`},
		{"call", `{"index":"By Site","key":"a"}`, `index: "By Site" is not a DNS label (lower case letters, digits and '-', at most 63)`},
		{"call", `{"index":"a","key":"` + strings.Repeat("k", MaxKey+1) + `"}`, `key: 1025 bytes, the limit is 1024`},
		{"call", `{"index":"a","key":"b","namespace":"` + strings.Repeat("n", abi.MaxName+1) + `"}`, `namespace: 1025 bytes, the limit is 1024`},
		{"call", `{"index":"` + strings.Repeat("a", abi.MaxCall) + `"}`, `longer than 65536 bytes (offset 65536)`},
		{"call", `{"index":"a","key":"b","keys":[]}`, `unknown field "keys", did you mean "key"? (offset 30)`},
	} {
		if _, _, err := codecs()[c.of]([]byte(c.text)); err == nil || err.Error() != c.want {
			t.Errorf("%s %.80s\ngot  %v\nwant %s", c.of, c.text, err, c.want)
		}
	}
	if r, err := DecodeResult([]byte(`{"message":"` + strings.Repeat("m", 2*abi.MaxErrorMessage) + `"}`)); err != nil || len(r.Message) != abi.MaxErrorMessage {
		t.Errorf("a long message: %v", err)
	}
	for of, text := range map[string]string{"request": `{"new":1,"index":"a"}`, "reply": `{"new":[],"items":[{"new":1,"name":"a"}]}`} {
		if _, _, err := codecs()[of]([]byte(text)); err != nil {
			t.Errorf("an unknown field of a %s: %v", of, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(EncodeRequest(fullRequest()))
	f.Add(EncodeResult(fullResult()))
	f.Add(EncodeCall(fullCall()))
	f.Add(EncodeReply(fullReply()))
	f.Add(Encode([]Index{{"a", pod}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, decode := range codecs() {
			once, _, err := decode(data)
			if err != nil {
				continue
			}
			if again, _, err := decode(once); err != nil || !bytes.Equal(again, once) {
				t.Errorf("%s: %s has become %s, %v", name, once, again, err)
			}
		}
		if all, err := Decode(data); err == nil {
			if again, err := Decode(Encode(all)); err != nil || !slices.Equal(again, all) {
				t.Errorf("%+v, %v, want %+v", again, err, all)
			}
		}
	})
}
