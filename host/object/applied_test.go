package object_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

type entry struct {
	Manager     string          `json:"manager"`
	Operation   string          `json:"operation"`
	APIVersion  string          `json:"apiVersion"`
	Subresource string          `json:"subresource,omitempty"`
	Time        string          `json:"time"`
	FieldsV1    json.RawMessage `json:"fieldsV1"`
}

// withManagedFields is an object of a controller with that UID, "" for none.
func withManagedFields(t rapid.TB, owner string, entries []entry) *object.Object {
	managed, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	owners := "[]"
	if owner != "" {
		owners = fmt.Sprintf(`[{"uid":%s,"controller":true}]`, rawjson.AppendString(nil, owner))
	}
	o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","managedFields":%s,"ownerReferences":%s}}`, managed, owners), pod)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Objects share what is kept of them, whatever the UID of their controller is. Each
// must get its own back.
func TestAppliedFieldsAreThoseOfTheObject(t *testing.T) {
	uids := []string{"", "1", "b", "c", "v1", "v2", "f:", "{", "\x00", "metadata", "thole/", `"`, "u-1", "u-2"}
	rapid.Check(t, func(t *rapid.T) {
		type made struct {
			*object.Object
			entries []entry
		}
		var all []made
		for range rapid.IntRange(1, 8).Draw(t, "objects") {
			owner := rapid.SampledFrom(uids).Draw(t, "owner")
			var entries []entry
			for _, manager := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"thole/a/b", "thole/a/c", "thole", "kubectl", "x/thole/a/b"}), rapid.ID).Draw(t, "managers") {
				key, _ := json.Marshal(`k:{"uid":` + string(rawjson.AppendString(nil, rapid.SampledFrom(uids).Draw(t, "key"))) + `}`)
				entries = append(entries, entry{
					Manager:     manager,
					Operation:   rapid.SampledFrom([]string{"Apply", "Update"}).Draw(t, "operation"),
					APIVersion:  rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version"),
					Subresource: rapid.SampledFrom([]string{"", "status"}).Draw(t, "subresource"),
					Time:        rapid.StringMatching(`[0-9]{4}`).Draw(t, "time"),
					FieldsV1: fmt.Appendf(nil, `{"f:metadata":{%s:{%s:{}},"f:labels":{"f:u-1":{}}}}`,
						rapid.SampledFrom([]string{`"f:ownerReferences"`, `"f:finalizers"`}).Draw(t, "list"), key),
				})
			}
			all = append(all, made{withManagedFields(t, owner, entries), entries})
		}
		for _, o := range all {
			ours := false
			for _, e := range o.entries {
				ours = ours || strings.HasPrefix(e.Manager, object.ManagerPrefix)
				got, known := o.AppliedBy(e.Manager, e.APIVersion)
				want, wantCreated := "", ""
				switch {
				case !strings.HasPrefix(e.Manager, object.ManagerPrefix) || e.Subresource != "":
				case e.Operation == "Apply":
					want = string(e.FieldsV1)
				case strings.Contains(string(e.FieldsV1), "f:ownerReferences"):
					wantCreated = string(e.FieldsV1)
				}
				if known && string(got) != want || !known && want != "" {
					t.Fatalf("%s of %s: got %s, %v", e.Manager, o.Raw, got, known)
				}
				if created, known := o.CreatedBy(e.Manager, e.APIVersion); known && string(created) != wantCreated || !known && wantCreated != "" {
					t.Fatalf("%s of %s: created %s, %v", e.Manager, o.Raw, created, known)
				}
				if got, _ := o.AppliedBy(e.Manager, "v3"); got != nil {
					t.Fatalf("got %s of another version", got)
				}
			}
			if got, known := o.AppliedBy("thole/other", "v1"); got != nil || known && !ours {
				t.Fatalf("got %s, %v", got, known)
			}
		}
	})
}

// Whether an object is kept in the store or was returned by a write, it is parsed.
func TestAppliedFieldsAreThoseOfTheTextThatWasParsed(t *testing.T) {
	o := withManagedFields(t, "u", []entry{{Manager: "thole/a/b", Operation: "Apply", APIVersion: "v1", FieldsV1: []byte(`{"f:x":{}}`)}})
	again, err := object.Parse(o.Raw, pod)
	if err != nil {
		t.Fatal(err)
	}
	if got, known := again.AppliedBy("thole/a/b", "v1"); known {
		t.Errorf("got %s of a text without managedFields", got)
	}
}

func BenchmarkParseApplied(b *testing.B) {
	const fields = `{"f:data":{"f:k":{}},"f:metadata":{"f:annotations":{"f:thole.dev/applied":{}},"f:labels":{"f:app":{}},"f:ownerReferences":{"k:{\"uid\":\"0f9a7c1e-0000-4000-8000-000000000001\"}":{}}}}`
	for _, manager := range []string{"kubectl", "thole/a/b"} {
		raw := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"0f9a7c1e-0000-4000-8000-000000000002","managedFields":[{"manager":%q,"operation":"Apply","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":%s}],"ownerReferences":[{"apiVersion":"example.dev/v1","kind":"Widget","name":"a","uid":"0f9a7c1e-0000-4000-8000-000000000001","controller":true}]},"data":{"k":%q}}`,
			manager, fields, strings.Repeat("x", 2000))
		b.Run(manager, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := object.Parse(raw, pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
