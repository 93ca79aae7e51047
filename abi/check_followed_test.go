package abi

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/fieldpath"
)

// following returns a manifest with one controller with these members.
func following(members string) string {
	return manifestWith(members)
}

// forWith returns a manifest as [following], whose for has these members.
func forWith(selector, members string) string {
	return strings.Replace(following(members), `"kind":"K"`, `"kind":"K",`+selector, 1)
}

// reads returns a manifest whose reads has one kind with these members.
func reads(selector string) string {
	return following(`"reads":[{"apiVersion":"v1","kind":"Pod",` + selector + `}]`)
}

func watch(members string) string {
	return following(`"watches":[{"apiVersion":"v1","kind":"Pod",` + members + `}]`)
}

func TestInvalidSelectorIsRefused(t *testing.T) {
	const path = `controllers[0].reads[0].`
	expectRefused(t, DecodeManifest, []refusal{
		{reads(`"namespaces":["A b"]`), path + `namespaces[0]: "A b" is not a DNS label (lower case letters, digits and '-', at most 63)`},
		{reads(`"namespaces":[""]`), path + `namespaces[0]: "" is not a DNS label (lower case letters, digits and '-', at most 63)`},
		{reads(`"namespaces":["a","b","a"]`), path + `namespaces[2]: "a" is given twice`},
		{reads(`"namespaces":` + list(65, `"a"`)), path + `namespaces[64]: more than 64 entries (offset 387)`},
		{reads(`"namespaces":"a"`), path + `namespaces: expected an array, found a string (offset 130)`},
		{reads(`"labelSelector":"` + repeat("a", 8193) + `"`), path + `labelSelector: 8193 bytes, the limit is 8192`},
		{reads(`"fieldSelector":"` + repeat("a", 8193) + `"`), path + `fieldSelector: 8193 bytes, the limit is 8192`},
		{reads(`"fieldSelector":"spec.nodeName"`), path + `fieldSelector: "spec.nodeName" is no comparison of a field, such as spec.nodeName=node-1`},
		{reads(`"fieldSelector":"a=b` + repeat(",a=b", 16) + `"`), path + `fieldSelector: 17 requirements, the limit is 16`},
		{reads(`"metadataOnly":1`), path + `metadataOnly: expected true or false, found a number (offset 132)`},
		{reads(`"namespace":"a"`), `controllers[0].reads[0]: unknown field "namespace", did you mean "namespaces"? (offset 129)`},
		{following(`"writes":[{"apiVersion":"v1","kind":"Pod","metadataOnly":true}]`), `controllers[0].writes[0]: unknown field "metadataOnly" (offset 133)`},
		{following(`"reads":[{"apiVersion":"v1","kind":"Pod","metadataOnly":true},{"apiVersion":"v1","kind":"Pod"}]`), `controllers[0].reads[1]: "v1 Pod" is given twice`},
		{forWith(`"namespaces":["_"]`, `"interval":1`), `controllers[0].for.namespaces[0]: "_" is not a DNS label (lower case letters, digits and '-', at most 63)`},
		{watch(`"by":"owner","namespaces":["_"]`), `controllers[0].watches[0].namespaces[0]: "_" is not a DNS label (lower case letters, digits and '-', at most 63)`},
	})
	for _, selector := range []string{
		`"namespaces":["a","b"],"labelSelector":"a in (b","fieldSelector":"spec.nodeName!=a,metadata.name=b","metadataOnly":true`,
		`"namespaces":[],"labelSelector":"","fieldSelector":",","metadataOnly":false`,
	} {
		for name, text := range map[string]string{"for": forWith(selector, `"interval":1`), "reads": reads(selector), "watches": watch(selector + `,"by":"owner"`)} {
			if _, err := DecodeManifest([]byte(text)); err != nil {
				t.Errorf("%s with %s: %v", name, selector, err)
			}
		}
	}
}

// TestEverythingOwnedIsFollowed: of what is owned a selector can leave out fields, but no objects.
func TestEverythingOwnedIsFollowed(t *testing.T) {
	owns := func(selector string) string {
		return following(`"owns":[{"apiVersion":"v1","kind":"Pod",` + selector + `}]`)
	}
	const why = `: cannot be used in owns: everything that the plugin owns is followed, and nothing else with managed of the manifest`
	expectRefused(t, DecodeManifest, []refusal{
		{owns(`"namespaces":["a"]`), `controllers[0].owns[0].namespaces` + why},
		{owns(`"labelSelector":"a"`), `controllers[0].owns[0].labelSelector` + why},
		{owns(`"fieldSelector":"a=b"`), `controllers[0].owns[0].fieldSelector` + why},
	})
	if m, err := DecodeManifest([]byte(owns(`"metadataOnly":true`))); err != nil || !m.Controllers[0].Owns[0].MetadataOnly {
		t.Errorf("metadataOnly in owns: %+v, %v", m, err)
	}
}

func TestMetadataOnlyHasNothingElse(t *testing.T) {
	const only = `"metadataOnly":true`
	pods := func(more string) string {
		return `"reads":[{"apiVersion":"v1","kind":"Pod","metadataOnly":true}]` + more
	}
	byField := func(field string) string {
		return `"watches":[{"apiVersion":"v1","kind":"Pod","by":"field","field":"` + field + `"}]`
	}
	expectRefused(t, DecodeManifest, []refusal{
		{forWith(only, `"conditions":{"owned":["A"]}`), `controllers[0].conditions: cannot be set beside for.metadataOnly: the host does not keep the status that they are part of`},
		{forWith(only, byField("spec.pod")), `controllers[0].watches[0].field: "spec.pod" is not in the metadata of the primary, of which for.metadataOnly keeps nothing else`},
		{forWith(only, `"indexes":[`+index("a", "K", "spec.a")+`]`), `controllers[0].indexes[0].field: "spec.a" is not in the metadata, of which metadataOnly keeps nothing else`},
		{following(pods(`,"indexes":[` + index("a", "Pod", "spec.nodeName") + `]`)), `controllers[0].indexes[0].field: "spec.nodeName" is not in the metadata, of which metadataOnly keeps nothing else`},
		{following(pods(`,"indexes":[` + index("a", "Pod", "metadatas") + `]`)), `controllers[0].indexes[0].field: "metadatas" is not in the metadata, of which metadataOnly keeps nothing else`},
	})
	for name, text := range map[string]string{
		"no conditions":                     forWith(only, `"conditions":{}`),
		"a field of the primary's metadata": forWith(only, byField("metadata.name")),
		"an index of metadata":              following(pods(`,"indexes":[` + index("a", "Pod", "metadata.ownerReferences[*].uid") + `]`)),
		"the kind is watched as a whole":    following(pods(`,"watches":[{"apiVersion":"v1","kind":"Pod","by":"owner"}],"indexes":[` + index("a", "Pod", "spec.nodeName") + `]`)),
	} {
		if _, err := DecodeManifest([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvalidWatchIsRefused(t *testing.T) {
	const path = `controllers[0].watches[0].`
	noKey := func(key string) string {
		return path + `key: "` + key + `" is not the name of a label or annotation, such as app.kubernetes.io/instance`
	}
	expectRefused(t, DecodeManifest, []refusal{
		{following(`"watches":[{"by":"owner"}]`), path + `apiVersion: is required: a group and version, such as apps/v1`},
		{watch(`"key":"a"`), path + `by: "" is not one of owner, label, annotation, field`},
		{watch(`"by":"name"`), path + `by: "name" is not one of owner, label, annotation, field`},
		{watch(`"by":"owner","key":"a"`), path + `key: has no effect by owner`},
		{watch(`"by":"owner","field":"a"`), path + `field: has no effect by owner`},
		{watch(`"by":"label"`), path + `key: is required, such as app.kubernetes.io/instance`},
		{watch(`"by":"label","key":"a","field":"a"`), path + `field: has no effect by label`},
		{watch(`"by":"label","key":"a b"`), noKey("a b")},
		{watch(`"by":"label","key":"/a"`), noKey("/a")},
		{watch(`"by":"label","key":"a/"`), noKey("a/")},
		{watch(`"by":"label","key":"a/b/c"`), noKey("a/b/c")},
		{watch(`"by":"label","key":"A.com/b"`), noKey("A.com/b")},
		{watch(`"by":"label","key":"` + repeat("a", 64) + `"`), noKey(repeat("a", 64))},
		{watch(`"by":"label","key":"` + repeat("a.", 127) + `a/a"`), noKey(repeat("a.", 30) + "a...")},
		{watch(`"by":"annotation"`), path + `key: is required, such as app.kubernetes.io/instance`},
		{watch(`"by":"annotation","key":"a","field":"a"`), path + `field: has no effect by annotation`},
		{watch(`"by":"annotation","key":"-"`), noKey("-")},
		{watch(`"by":"field"`), path + `field: is required, such as spec.secretRef.name`},
		{watch(`"by":"field","field":"a","key":"a"`), path + `key: has no effect by field`},
		{watch(`"by":"field","field":"/spec"`), path + `field: "/spec" is no field path, such as spec.nodeName or spec.volumes[*].secret.secretName`},
		{watch(`"by":"field","field":"` + repeat("x", 257) + `"`), path + `field: 257 bytes, the limit is 256`},
		{watch(`"by":"owner","from":"a"`), `controllers[0].watches[0]: unknown field "from" (offset 139)`},
		{following(`"watches":` + list(257, `{}`)), `controllers[0].watches[256]: more than 256 entries (offset 855)`},
	})
}

func TestOfAKindEachWatchHasAnotherKey(t *testing.T) {
	watches := func(all ...string) string {
		return following(`"watches":[{"apiVersion":"v1","kind":"Pod",` + strings.Join(all, `},{"apiVersion":"v1","kind":"Pod",`) + `}]`)
	}
	const twice = `controllers[0].watches[1]: "v1 Pod by `
	expectRefused(t, DecodeManifest, []refusal{
		{watches(`"by":"owner"`, `"by":"owner","metadataOnly":true`), twice + `owner" is given twice`},
		{watches(`"by":"label","key":"a"`, `"by":"label","key":"a","labelSelector":"b"`), twice + `label a" is given twice`},
		{watches(`"by":"annotation","key":"a"`, `"by":"annotation","key":"a"`), twice + `annotation a" is given twice`},
		{watches(`"by":"field","field":"a"`, `"by":"field","field":"a","namespaces":["b"]`), twice + `field a" is given twice`},
	})
	text := watches(`"by":"owner"`, `"by":"label","key":"a"`, `"by":"label","key":"b"`, `"by":"annotation","key":"a"`, `"by":"field","field":"a"`, `"by":"field","field":"b"`)
	if _, err := DecodeManifest([]byte(text)); err != nil {
		t.Errorf("different keys: %v", err)
	}
}

func TestEachFollowedKindMayBeRead(t *testing.T) {
	kinds := AllOf(Kind{"v1", "For"}, Kind{"v1", "Owned"}, Kind{"v1", "Read"}, Kind{"v1", "Watched"})
	c := Controller{For: kinds[0], Owns: kinds[1:2], Reads: kinds[2:3], Watches: []Watch{{Followed: kinds[3], By: WatchByOwner}}}
	n := 0
	for w := range c.Follows() {
		if w.Kind != kinds[n].Kind || !c.MayRead(w.Kind) || c.IsOwned(w.Kind) != (n == 1) {
			t.Errorf("%d: %s, may be read: %t, is owned: %t", n, w.Kind, c.MayRead(w.Kind), c.IsOwned(w.Kind))
		}
		n++
	}
	if n != 4 {
		t.Errorf("%d kinds are followed", n)
	}
	for w := range c.Follows() { // a loop may end at any of them
		n--
		for v := range c.Follows() {
			if v.Kind == w.Kind {
				break
			}
		}
	}
	if n != 0 {
		t.Errorf("%d more kinds", n)
	}
}

// TestFieldOfTheManifestNeedsNoIndex: all objects that are followed meet the requirement.
func TestFieldOfTheManifestNeedsNoIndex(t *testing.T) {
	pod, node := Kind{"v1", "Pod"}, Kind{"v1", "Node"}
	c := Controller{
		For:     Followed{Kind: pod, Selector: Selector{FieldSelector: `spec.nodeName=a\,b,status.phase!=Failed`}},
		Watches: []Watch{{Followed: Followed{Kind: node, Selector: Selector{FieldSelector: "spec.unschedulable=true"}}}},
	}
	noIndex := func(field string) string {
		return `fieldSelector: "` + field + `" is not the field of an index of the controller for "v1 Pod"`
	}
	for text, want := range map[string]string{
		`spec.nodeName=a\,b`:                       "",
		`status.phase!=Failed,spec.nodeName==a\,b`: "",
		"spec.nodeName=a":                          noIndex("spec.nodeName"),
		`spec.hostIP=a\,b`:                         noIndex("spec.hostIP"),
		`spec.nodeName!=a\,b`:                      noIndex("spec.nodeName"),
		"status.phase!=Succeeded":                  noIndex("status.phase"),
		"spec.unschedulable=true":                  noIndex("spec.unschedulable"),
	} {
		selector, err := fieldpath.ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		expectError(t, text, c.CheckSelector(pod, selector), want)
	}
}
