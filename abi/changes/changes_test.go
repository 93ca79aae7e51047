package changes

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi"
)

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	for _, mode := range []Mode{Memory, Annotation} {
		c := abi.Controller{Sections: []abi.Section{{Name: Name, Value: mode.Encode()}}}
		if got, err := Decode(mode.Encode()); err != nil || got != mode || Of(&c) != mode || Check(&c, mode.Encode()) != nil {
			t.Errorf("%s is decoded as %q and %q, %v", mode, got, Of(&c), err)
		}
	}
	escaped := abi.Controller{Sections: []abi.Section{{Name: Name, Value: []byte(`"memor\u0079"`)}}}
	if got := Of(&escaped); got != Memory {
		t.Errorf("an escaped mode is %q", got)
	}
	full := &Change{Type: Deleted, Old: []byte(`{"a":1}`), Progress: []byte(`["dns"]`)}
	if text := string(full.Encode()); text != `{"type":"deleted","old":{"a":1},"progress":["dns"]}` {
		t.Errorf("a change is %s", text)
	}
	for _, want := range []*Change{full, {Type: Created}} {
		if got, err := DecodeChange(want.Encode()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	if got, err := DecodeChange(nil); got != nil || err != nil {
		t.Errorf("of nothing: %+v, %v", got, err)
	}
	if got, err := DecodeChange([]byte(`{"type":"created","more":1}`)); err != nil || got.Type != Created {
		t.Errorf("of a newer host: %+v, %v", got, err)
	}
	text := (&Result{Progress: []byte(`"dns"`)}).Encode()
	out, err := DecodeResult(text)
	if clear(text); err != nil || string(out.Progress) != `"dns"` {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := DecodeResult(nil); err != nil || out.Progress != nil {
		t.Errorf("of nothing: %+v, %v", out, err)
	}
}

func TestChangesThatNoHostKeepsAreRefused(t *testing.T) {
	kind := func(apiVersion, kind string) *abi.Controller {
		return &abi.Controller{For: abi.Kind{APIVersion: apiVersion, Kind: kind}.All()}
	}
	pod := kind("v1", "Pod")
	for _, c := range []struct {
		of      *abi.Controller
		section string
		want    string // in the error; "": none
	}{
		{pod, `"disk"`, `"disk" is not one of memory, annotation`},
		{pod, `true`, "expected a string"},
		{pod, `{}`, "expected a string"},
		{pod, `"memory" 1`, "after the value"},
		{pod, `""`, ""},
		{kind("v1", "Secret"), `"memory"`, ""},
		{kind("v1", "Secret"), `"annotation"`, `"annotation" would copy the content of v1 Secret into its annotations: use memory`},
		{kind("v1", "ServiceAccount"), `"annotation"`, "would copy the content of v1 ServiceAccount"},
		{kind("rbac.authorization.k8s.io/v1", "Role"), `"annotation"`, "would copy the content of rbac.authorization.k8s.io/v1 Role"},
		{kind("secrets.example.com/v1", "Secret"), `"annotation"`, ""},
		{kind("v1", "ConfigMap"), `"annotation"`, ""},
	} {
		err := Check(c.of, []byte(c.section))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s: %v, want %q", c.of.For, c.section, err, c.want)
		}
	}
}

func TestResultsThatAreNotValidAreRefused(t *testing.T) {
	with := &abi.Controller{Sections: []abi.Section{{Name: Name, Value: Memory.Encode()}}}
	for _, c := range []struct {
		of      *abi.Controller
		section string
		want    string // in the error; "": none
	}{
		{with, `{"progress":1}`, ""},
		{with, `{}`, ""},
		{with, `{"progress":"` + strings.Repeat("p", MaxProgress-2) + `"}`, ""},
		{with, `{"progress":"` + strings.Repeat("p", MaxProgress-1) + `"}`, "progress: 4097 bytes"},
		{with, `{"progres":1}`, `unknown field "progres", did you mean "progress"?`},
		{with, `"dns"`, "expected an object"},
		{&abi.Controller{}, `{"progress":1}`, "needs changes of the controller in the manifest"},
		{&abi.Controller{}, `{}`, "needs changes of the controller in the manifest"},
	} {
		err := CheckResult(c.of, []byte(c.section))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: %v, want %q", c.section, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Memory.Encode())
	f.Add((&Change{Type: Updated, Old: []byte("{}"), Progress: []byte("1")}).Encode())
	f.Add((&Result{Progress: []byte("1")}).Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if !utf8.Valid(data) { // the encoder replaces invalid bytes
			return
		}
		if mode, err := Decode(data); err == nil {
			if again, err := Decode(mode.Encode()); err != nil || again != mode {
				t.Errorf("%q, %v, want %q", again, err, mode)
			}
		}
		if c, err := DecodeChange(data); err == nil && c != nil {
			if again, err := DecodeChange(c.Encode()); err != nil || !reflect.DeepEqual(again, c) {
				t.Errorf("%+v, %v, want %+v", again, err, c)
			}
		}
		if out, err := DecodeResult(data); err == nil {
			if again, err := DecodeResult(out.Encode()); err != nil || !reflect.DeepEqual(again, out) {
				t.Errorf("%+v, %v, want %+v", again, err, out)
			}
		}
	})
}
