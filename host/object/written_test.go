package object_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

func parseManaged(t testing.TB, body string, entries ...entry) []byte {
	t.Helper()
	managed, err := json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": entries}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := rawjson.MergePatch([]byte(body), managed)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func fields(text string) json.RawMessage { return json.RawMessage(text) }

func TestBytesOfAManagerAreThoseOfItsFields(t *testing.T) {
	x := strings.Repeat("x", 100_000)
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":%[1]q,"b":%[1]q}},"data":{"a":{"b":%[1]q,"c":%[1]q}},"list":[%[1]q,%[1]q],"status":{"s":%[1]q}}`, x)
	for name, test := range map[string]struct {
		entry
		want int // hundreds of thousands
	}{
		"a label":            {entry{Operation: "Apply", FieldsV1: fields(`{"f:metadata":{"f:labels":{"f:a":{}}}}`)}, 1},
		"labels":             {entry{Operation: "Apply", FieldsV1: fields(`{"f:metadata":{"f:labels":{".":{},"f:a":{},"f:b":{}}}}`)}, 2},
		"a map as a whole":   {entry{Operation: "Update", FieldsV1: fields(`{"f:data":{}}`)}, 2},
		"a part of a map":    {entry{Operation: "Update", FieldsV1: fields(`{"f:data":{"f:a":{"f:c":{}}}}`)}, 1},
		"a list":             {entry{Operation: "Apply", FieldsV1: fields(`{"f:list":{"v:\"x\"":{}}}`)}, 2},
		"status":             {entry{Operation: "Update", Subresource: "status", FieldsV1: fields(`{"f:status":{"f:s":{}}}`)}, 1},
		"what is not there":  {entry{Operation: "Apply", FieldsV1: fields(`{"f:other":{"f:s":{}},"f:list":{}}`)}, 2},
		"nothing":            {entry{Operation: "Apply", FieldsV1: fields(`{"f:other":{}}`)}, 0},
		"no fields of a set": {entry{Operation: "Apply", FieldsV1: fields(`{"f:data":[1]}`)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			test.Manager, test.APIVersion = "thole/p/c", "v1"
			o, err := object.Parse(parseManaged(t, body, test.entry, entry{Manager: "thole/p2/c", Operation: "Apply", FieldsV1: fields(`{"f:data":{}}`)}), pod)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := o.BytesBy("thole/p/"), test.want*100_000; got < want*15/16 || got > want*9/8+1024 {
				t.Errorf("%d bytes, want about %d", got, want)
			}
		})
	}
}

// Where only metadata is known, the annotation shows how much was applied, or created.
func TestBytesOfMetadataAreThoseThatWereNoted(t *testing.T) {
	applied := entry{Manager: "thole/p/c", Operation: "Update", APIVersion: "v1", FieldsV1: fields(`{"f:metadata":{"f:annotations":{"f:thole.dev/applied":{}}},"f:data":{}}`)}
	other := entry{Manager: "thole/q/c", Operation: "Apply", APIVersion: "v1", FieldsV1: fields(`{"f:metadata":{"f:annotations":{"f:c.q.thole.dev/applied-1":{}}},"f:data":{}}`)}
	raw := parseManaged(t, fmt.Sprintf(`{"metadata":{"name":"a","annotations":{"thole.dev/applied":"d%s","c.q.thole.dev/applied-1":"d n/p created%s"}}}`,
		object.NoteBytes(100_000), object.NoteBytes(500_000)), applied, other)
	o, err := object.ParseMetadata(raw, pod)
	if err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]int{"thole/p/": 100_000, "thole/q/": 500_000, "thole/r/": 0} {
		if got := o.BytesBy(prefix); got < want*15/16 || got > want*9/8+1024 {
			t.Errorf("%s: %d bytes, want about %d", prefix, got, want)
		}
	}
	for _, value := range []string{"d", "d bytes=", "d bytes=-5", "d bytes=99999999999999999999", "d bytes=999999999", " bytes="} {
		if _, size := object.CutNotedBytes(value); size < 0 || size > 4<<20 {
			t.Errorf("%q: %d", value, size)
		}
	}
}

// threadTime returns the processor time of the thread: other work of the machine does not add to it.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// What is deep, or has many members, must not take long to count.
func TestBytesAreCountedInTimeOfTheSize(t *testing.T) {
	const depth = 9000
	deep := strings.Repeat(`{"f:a":`, depth) + `{}` + strings.Repeat(`}`, depth)
	var wide, set []string
	for i := range 50_000 {
		wide, set = append(wide, fmt.Sprintf(`"%d":1`, i)), append(set, fmt.Sprintf(`"f:%d":{}`, i))
	}
	for name, test := range map[string]struct{ body, fields string }{
		"deep": {`{"metadata":{"name":"a"},"a":` + strings.ReplaceAll(deep, "f:", "") + `}`, deep},
		"wide": {`{"metadata":{"name":"a"},"a":{` + strings.Join(wide, ",") + `}}`, `{"f:a":{` + strings.Join(set, ",") + `}}`},
	} {
		t.Run(name, func(t *testing.T) {
			raw := []byte(strings.Replace(test.body, `"name":"a"`, `"name":"a","managedFields":[{"manager":"thole/p/c","operation":"Apply","fieldsV1":`+test.fields+`}]`, 1))
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			began := threadTime()
			o, err := object.Parse(raw, pod)
			if err != nil {
				t.Skip(err)
			}
			if took := threadTime() - began; took > 5*time.Second || o.BytesBy("thole/p/") == 0 {
				t.Errorf("%s for %d bytes: %d", took, len(raw), o.BytesBy("thole/p/"))
			}
		})
	}
}
