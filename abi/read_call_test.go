package abi

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/fieldpath"
)

func TestInvalidFieldsOfACallAreRefused(t *testing.T) {
	get := func(members string) string { return `{"apiVersion":"v1","kind":"K","name":"x",` + members + `}` }
	list := func(members string) string { return `{"apiVersion":"v1","kind":"K",` + members + `}` }
	entries := func(n int, entry string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(entry+",", n), ",") + "]"
	}
	const none = ` is none of metadata, spec, status, and no JSON pointer, such as /spec/replicas`
	long := "/" + strings.Repeat("x", MaxFieldPath-1)
	for _, c := range []struct {
		members string // "" if the call is valid
		want    string
	}{
		{`"fields":["spec","/spec/a~1b/0"]`, ""},
		{`"fields":["` + long + `"]`, ""},
		{`"fields":["` + long + `y"]`, `fields[0]: 257 bytes, the limit is 256`},
		{`"fields":["spec",""]`, `fields[1]: ""` + none},
		{`"fields":["Spec"]`, `fields[0]: "Spec"` + none + `, did you mean "spec"?`},
		{`"fields":["/a~"]`, `fields[0]: "/a~" is no JSON pointer: after '~' comes 0 for '~', or 1 for '/'`},
		{`"fields":"spec"`, `fields: expected an array, found a string`},
		{`"fields":` + entries(16, `"spec"`), ""},
		{`"fields":` + entries(17, `"spec"`), `fields[16]: more than 16 entries`},
	} {
		_, err := DecodeGetCall([]byte(get(c.members)))
		expectError(t, c.members, err, c.want)
		_, err = DecodeListCall([]byte(list(c.members)))
		expectError(t, c.members, err, c.want)
	}
	for members, want := range map[string]string{
		`"limit":-1`:                                   `limit: must not be negative, is -1`,
		`"limit":2147483648`:                           `limit: must be at most 2147483647, is 2147483648`,
		`"limit":"1"`:                                  `limit: expected an integer, found a string`,
		`"limit":2147483647`:                           "",
		`"continue":"` + long + long + `"`:             "",
		`"labelSelector":"` + repeat("x", 8193) + `"`:  `labelSelector: 8193 bytes, the limit is 8192`,
		`"continue":"` + repeat("x", 1025) + `"`:       `continue: 1025 bytes, the limit is 1024`,
		`"fieldSelector":"a"`:                          `fieldSelector: "a" is no comparison of a field, such as spec.nodeName=node-1`,
		`"fieldSelector":"a..b=c"`:                     `fieldSelector: "a..b" is no field path, such as spec.nodeName or spec.volumes[*].secret.secretName`,
		`"fieldSelector":"a=b=c"`:                      `fieldSelector: "b=c" is no value: write \= for '=' and \\ for a backslash`,
		`"fieldSelector":"` + repeat("a=b,", 16) + `"`: "",
		`"fieldSelector":"` + repeat("a=b,", 17) + `"`: `fieldSelector: 17 requirements, the limit is 16`,
	} {
		_, err := DecodeListCall([]byte(list(members)))
		expectError(t, members, err, want)
	}
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }

// expectError expects an error that begins with want, or none.
func expectError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%.100s: %v\nwant %s", what, err, want)
	}
}

// indexed returns a manifest whose controller reads Pods and has these indexes.
func indexed(indexes string) string {
	return manifestWith(`"reads":[{"apiVersion":"v1","kind":"Pod"}],"indexes":` + indexes)
}

func index(name, kind, field string) string {
	return `{"name":"` + name + `","kind":{"apiVersion":"v1","kind":"` + kind + `"},"field":"` + field + `"}`
}

func numbered(n int, entry func(i string) string) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = entry(strconv.Itoa(i))
	}
	return "[" + strings.Join(entries, ",") + "]"
}

func TestInvalidIndexIsRefused(t *testing.T) {
	const path = `controllers[0].indexes`
	const noPath = ` is no field path, such as spec.nodeName or spec.volumes[*].secret.secretName`
	fields := func(n int) string { return numbered(n, func(i string) string { return index("n"+i, "Pod", "f"+i) }) }
	expectRefused(t, DecodeManifest, []refusal{
		{indexed(`[` + index("A", "Pod", "b") + `]`), path + `[0].name: "A" is not a DNS label (lower case letters, digits and '-', at most 63)`},
		{indexed(`[{"name":"a","field":"b"}]`), path + `[0].kind.apiVersion: is required: a group and version, such as apps/v1`},
		{indexed(`[` + index("a", "Secret", "b") + `]`), path + `[0].kind: "v1 Secret" is not a kind that the controller may read: name it in reads`},
		{indexed(`[` + index("a", "Pod", "") + `]`), path + `[0].field: is required, such as spec.nodeName`},
		{indexed(`[` + index("a", "Pod", ".spec") + `]`), path + `[0].field: ".spec"` + noPath},
		{indexed(`[` + index("a", "Pod", "spec[0]") + `]`), path + `[0].field: "spec[0]"` + noPath},
		{indexed(`[` + index("a", "Pod", repeat("x", 257)) + `]`), path + `[0].field: 257 bytes, the limit is 256`},
		{indexed(`[` + index("a", "Pod", "b") + `,` + index("a", "Pod", "c") + `]`), path + `[1].name: "a" is given twice`},
		{indexed(fields(9)), path + `[8]: "v1 Pod" has more than 8 indexes in this plugin`},
		{indexed(fields(65)), path + `[64]: more than 64 entries (offset 4526)`},
		{indexed(`[{"name":"a","path":"b"}]`), path + `[0]: unknown field "path" (offset 149)`},
	})
	for name, text := range map[string]string{
		"eight":                      indexed(fields(8)),
		"of the primary kind":        indexed(`[` + index("a", "K", "spec.b-c_D[*].e") + `]`),
		"one field by several names": indexed(numbered(64, func(i string) string { return index("n"+i, "Pod", "same") })),
	} {
		if _, err := DecodeManifest([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIndexesOfAllControllersCountTogether: the host keeps them for the plugin.
func TestIndexesOfAllControllersCountTogether(t *testing.T) {
	m := minimalManifest()
	m.Controllers = append(m.Controllers, m.Controllers[0])
	m.Controllers[1].Name = "other"
	for i := range 8 {
		x := Index{Name: "n" + strconv.Itoa(i), Kind: m.Controllers[0].For.Kind, Field: "f" + strconv.Itoa(i)}
		for c := range m.Controllers {
			m.Controllers[c].Indexes = append(m.Controllers[c].Indexes, x)
		}
	}
	if _, err := DecodeManifest(EncodeManifest(m)); err != nil {
		t.Errorf("the same fields in two controllers: %v", err)
	}
	m.Controllers[1].Indexes[7].Field = "another"
	_, err := DecodeManifest(EncodeManifest(m))
	expectError(t, "a ninth field", err, `controllers[1].indexes[7]: "example.com/v1 Site" has more than 8 indexes in this plugin`)
}

func TestSelectorNeedsAnIndexOfTheKind(t *testing.T) {
	pod := Kind{"v1", "Pod"}
	c := Controller{Indexes: []Index{{Name: "a", Kind: pod, Field: "spec.nodeName"}, {Name: "b", Kind: Kind{"v1", "Node"}, Field: "spec.zone"}}}
	for text, want := range map[string]string{
		"":                                    "",
		"spec.nodeName=n":                     "",
		"metadata.name!=n,spec.nodeName!=n":   "",
		"metadata.namespace=n":                "",
		"spec.nodename=n":                     `fieldSelector: "spec.nodename" is not the field of an index of the controller for "v1 Pod", did you mean "spec.nodeName"?`,
		"metadata.name=n,spec.zone=z":         `fieldSelector: "spec.zone" is not the field of an index of the controller for "v1 Pod"`,
		"metadata.labels=n":                   `fieldSelector: "metadata.labels" is not the field`,
		"spec.nodeName[*]=n,metadata.name==n": `fieldSelector: "spec.nodeName[*]" is not the field`,
	} {
		selector, err := fieldpath.ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		expectError(t, text, c.CheckSelector(pod, selector), want)
	}
}

func TestMayReadIsTheScopeOfReads(t *testing.T) {
	kinds := []Kind{{"v1", "For"}, {"v1", "Owned"}, {"v1", "Read"}, {"v1", "Written"}, {"v2", "For"}}
	c := Controller{For: kinds[0].All(), Owns: AllOf(kinds[1]), Reads: AllOf(kinds[2]), Writes: kinds[3:4]}
	for i, kind := range kinds {
		if c.MayRead(kind) != (i < 3) {
			t.Errorf("MayRead(%s) is %v", kind, i >= 3)
		}
	}
}

// TestPartsOfAListReplyAreTheReply: a host writes them one by one.
func TestPartsOfAListReplyAreTheReply(t *testing.T) {
	for n := range 3 {
		for _, next := range []string{"", "c1", `"\` + "\u2028é"} {
			reply := &ListReply{Continue: next}
			for range n {
				reply.Items = append(reply.Items, []byte(site))
			}
			text := ListReplyOpen + strings.Join(slices.Repeat([]string{site}, n), ListReplySeparator) + ListReplyClose(next)
			if got := string(EncodeListReply(reply)); got != text {
				t.Errorf("the reply is %s\nthe parts are %s", got, text)
			}
			got, err := DecodeListReply([]byte(text))
			if err != nil || len(got.Items) != n || got.Continue != next {
				t.Errorf("%s is decoded as %+v, %v", text, got, err)
			}
		}
	}
}

func TestListIsTheSameForAllPages(t *testing.T) {
	call := fullListCall()
	same := string(call.List())
	for i, change := range []func(*ListCall){
		func(c *ListCall) { c.Limit++ },
		func(c *ListCall) { c.Continue = "" },
		func(c *ListCall) { c.Kind = "Node" },
		func(c *ListCall) { c.Namespace = "" },
		func(c *ListCall) { c.LabelSelector = "" },
		func(c *ListCall) { c.FieldSelector = "" },
		func(c *ListCall) { c.Fields = nil },
	} {
		other := *call
		change(&other)
		if (string(other.List()) == same) != (i < 2) {
			t.Errorf("change %d: %s, before %s", i, other.List(), same)
		}
	}
	if call.Limit == 0 || call.Continue == "" {
		t.Error("the call was changed")
	}
}
