package abi

import (
	"strings"
	"testing"
)

// changesWith returns a manifest with one controller for a kind with
// these members.
func changesWith(apiVersion, kind, members string) string {
	text := manifestWith(members)
	return strings.Replace(text, `"apiVersion":"v1","kind":"K"`, `"apiVersion":"`+apiVersion+`","kind":"`+kind+`"`, 1)
}

func TestChangesThatNoHostKeepsAreRefused(t *testing.T) {
	const path = `controllers[0].changes: `
	expectRefused(t, DecodeManifest, []refusal{
		{changesWith("v1", "K", `"changes":"disk"`), path + `"disk" is not one of memory, annotation`},
		{changesWith("v1", "Secret", `"changes":"annotation"`), path + `"annotation" would copy the content of v1 Secret into its annotations: use memory`},
		{changesWith("v1", "ServiceAccount", `"changes":"annotation"`), path + `"annotation" would copy the content of v1 ServiceAccount into its annotations: use memory`},
		{
			changesWith("rbac.authorization.k8s.io/v1", "Role", `"changes":"annotation"`),
			path + `"annotation" would copy the content of rbac.authorization.k8s.io/v1 Role into its annotations: use memory`,
		},
	})
	for _, text := range []string{
		changesWith("v1", "Secret", `"changes":"memory","gone":true`),
		changesWith("secrets.example.com/v1", "Secret", `"changes":"annotation"`),
		changesWith("v1", "ConfigMap", `"changes":"annotation"`),
	} {
		if _, err := DecodeManifest([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestHandledAnnotationsAreReserved(t *testing.T) {
	for name, want := range map[string]bool{
		"handled.web.thole.dev/site": true, "handled.web.thole.dev/": true, "web.thole.dev/site": false,
		"handled.example.com/site": false, "handled": false, "": false,
	} {
		if got := HandledAnnotation(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
		if want && !ReservedAnnotation(name) {
			t.Errorf("a plugin can set %q", name)
		}
	}
}

func TestFinalizersOfTheHostAreReserved(t *testing.T) {
	for name, want := range map[string]bool{
		"web.thole.dev/site": true, "other.thole.dev/": true, "a.web.thole.dev/site": true,
		"thole.dev/site": false, "webthole.dev/site": false, "example.com/web.thole.dev/site": false, "orphan": false, "": false,
	} {
		if got := ReservedFinalizer(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
