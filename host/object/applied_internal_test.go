package object

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

func appliedBy(uid string, i int) []byte {
	managed := fmt.Appendf(nil, `[{"manager":"thole/a/b","operation":"Apply","apiVersion":"v1","fieldsV1":{"f:%d%s":{},"k:{\"uid\":\"%s\"}":{}}}]`, i, strings.Repeat("x", 1000), uid)
	return appliedText((&Object{}).hostEntries(managed), []byte(uid))
}

func TestAppliedEntriesOfManyControllersAreKeptOnce(t *testing.T) {
	a := &appliedEntries{most: 1 << 20}
	for i := range 1000 {
		uid := fmt.Sprintf("uid-%d", i)
		if got := a.share(appliedBy(uid, 0)); len(got) != 1 || got[0].Manager != "thole/a/b" {
			t.Fatalf("got %v", got)
		}
	}
	if len(a.byText) != 1 {
		t.Errorf("%d are kept", len(a.byText))
	}
}

func TestAppliedEntriesAreBounded(t *testing.T) {
	a := &appliedEntries{most: 1 << 20}
	kept := 0
	for i := range 10_000 {
		if a.share(appliedBy("u", i)) != nil {
			kept++
		}
	}
	size := 0
	for text, entries := range a.byText {
		size += len(text)
		for _, e := range entries {
			size += len(e.FieldsV1.GetRawBytes())
		}
	}
	if kept < 100 || len(a.byText) != kept || size > a.most {
		t.Errorf("%d are kept, of %d bytes", kept, size)
	}
	if a.share(appliedBy("u", 0)) == nil {
		t.Error("what is kept is not found when it is full")
	}
}

// A plugin can make any number of different sets of fields. The bytes of others, and its
// own, are counted all the same.
func TestBytesAreKnownOfWhatIsNotKept(t *testing.T) {
	defer func(a *appliedEntries) { applied = a }(applied)
	applied = &appliedEntries{}
	o, err := Parse([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","managedFields":[`+
		`{"manager":"thole/a/b","operation":"Apply","apiVersion":"v1","fieldsV1":{"f:data":{}}}]},"data":"`+strings.Repeat("x", 5000)+`"}`), abi.Kind{})
	if err != nil {
		t.Fatal(err)
	}
	if size := o.BytesBy("thole/a/"); size < 5000 {
		t.Errorf("%d bytes", size)
	}
	if fields, known := o.AppliedBy("thole/a/b", "v1"); known || fields != nil {
		t.Errorf("got %s, which is not kept", fields)
	}
}
