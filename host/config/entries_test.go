package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/rights"
)

func TestPolicyHasAnAPIVersion(t *testing.T) {
	c := Config{}.WithDefaults()
	for text, want := range map[string]string{
		"dryRun: true":                          "p.yaml: apiVersion: Required value: the first line of a policy is apiVersion: thole.dev/v1alpha1",
		"apiVersion: thole.dev/v2\ntomorrow: 1": `p.yaml: apiVersion: Unsupported value: "thole.dev/v2": supported values: "thole.dev/v1alpha1"`,
		"apiVersion:\ndryRun: true":             "p.yaml: apiVersion: Unsupported value: null",
		"apiVersion: [a]":                       "p.yaml: apiVersion: Unsupported value: ",
	} {
		if _, err := c.ReadPolicy("p", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := c.ReadPolicy("p", []byte("apiVersion: thole.dev/v1alpha1")); err != nil {
		t.Error(err)
	}
}

func TestEntryThatIsNotValidIsRefused(t *testing.T) {
	c := Config{Allow: Ceiling{Entries: map[string]rights.Entries{EveryPlugin: rights.Everything()}}}.WithDefaults()
	entry := func(groups, kinds, verbs, more string) string {
		return fmt.Sprintf("allow: [{groups: %s, kinds: %s, verbs: %s%s}]", groups, kinds, verbs, more)
	}
	for text, want := range map[string]string{
		"allow: [{}]":                                                                     "allow[0].groups: Required value: name an API group, '' for the core group, or '*' for all",
		"allow: [{groups: ['']}]":                                                         "allow[0].kinds: Required value: name a kind, such as ConfigMap, or '*' for all",
		entry("[v1]", "[Pod]", "[get]", ""):                                               `allow[0].groups[0]: Invalid value: "v1": is not an API group: write it without a version, and '' for the core group`,
		entry("[core]", "[Pod]", "[get]", ""):                                             `allow[0].groups[0]: Invalid value: "core": is not an API group`,
		entry("[apps/v1]", "[Pod]", "[get]", ""):                                          `allow[0].groups[0]: Invalid value: "apps/v1": is not an API group`,
		entry("[apps/v1beta]", "[Pod]", "[get]", ""):                                      `allow[0].groups[0]: Invalid value: "apps/v1beta": must be an API group, such as apps`,
		entry("['']", "[Pod/log]", "[get]", ""):                                           `allow[0].kinds[0]: Invalid value: "Pod/log": must be a kind, such as ConfigMap, or a kind with /status`,
		entry("['']", "['']", "[get]", ""):                                                `allow[0].kinds[0]: Invalid value: "": must be a kind`,
		entry("['']", "[Pod]", "[update]", ""):                                            `allow[0].verbs[0]: Invalid value: "update": is a verb that the host never uses: changes of objects and of their status are patch`,
		entry("['']", "[Pod]", "[Get]", ""):                                               `allow[0].verbs[0]: Invalid value: "Get": must be one of get, list, watch, create, patch, delete`,
		entry("['']", "[Pod]", "[]", ""):                                                  "allow[0].verbs: Required value: name a verb of get, list",
		entry("['']", "[Pod]", "[get]", ", namespaces: []"):                               "allow[0].namespaces: Required value: name a namespace, or '*' for all; without the line it is the namespace of the primary object",
		entry("['']", "[Pod]", "[get]", ", namespaces: "):                                 "allow[0].namespaces: Required value: write a list, or remove the line",
		entry("['']", "[Pod]", "[get]", ", namespaces: [null]"):                           "allow[0].namespaces[0]: Invalid value: null: must be text: write it in quotes",
		entry("['']", "[Pod]", "[get]", ", namespaces: [A]"):                              `allow[0].namespaces[0]: Invalid value: "A": must be a DNS label`,
		entry("['']", "[Pod]", "[get]", ", namespace: [a]"):                               `unknown field "allow[0].namespace", did you mean "namespaces"?`,
		entry("['']", "[Pod]", "[get]", ", apiGroups: [a]"):                               `unknown field "allow[0].apiGroups", did you mean "groups"?`,
		entry("['']", "Pod", "[get]", ""):                                                 `allow[0].kinds: Invalid value: "Pod": must be a list of names, such as [name]`,
		entry("['']", "[Pod, 3]", "[get]", ""):                                            "allow[0].kinds[1]: Invalid value: 3: must be text: write it in quotes",
		"allow: [null]":                                                                   "allow[0]: Invalid value: null: must be an entry, such as {groups: ",
		"allow: Pod":                                                                      `allow: Invalid value: "Pod": must be a list of entries, such as {groups: `,
		entry("['*']", "['*']", "['*']", many(", namespaces", 5001)) + "\n" + "dryRun: x": "dryRun: Invalid value",
	} {
		t.Run(text[:min(len(text), 80)], func(t *testing.T) {
			_, err := c.ReadPolicy("p", versioned(text))
			wantProblems(t, err, want)
		})
	}
	_, err := c.ReadPolicy("p", versioned(entry("['']", "[Pod]", "["+strings.Repeat("get,", 10_001)+"]", "")))
	wantProblems(t, err, "allow: Forbidden: the entries name 10001 combinations")
	_, err = c.ReadPolicy("p", versioned(entry("['*', a]", "['*', B]", "['*']", many(", namespaces", 2501))))
	wantProblems(t, err, "allow: Forbidden: the entries name 10004 combinations of group, kind, verb and namespace, and may name 10000: name fewer, or * for all")
}

func many(field string, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	return fmt.Sprintf("%s: [%s]", field, strings.Join(names, ","))
}

// Whoever may write a plugin may write a policy beside it.
func TestEntriesNeedTheConfiguration(t *testing.T) {
	const secrets = "allow: [{groups: [''], kinds: [Secret], verbs: [get, list, watch], namespaces: [a]}]"
	read := func(config, policy string) (Policy, error) {
		t.Helper()
		c, err := Read(write(t, config))
		if err != nil {
			t.Fatal(err)
		}
		return c.WithDefaults().ReadPolicy("p", versioned(policy))
	}
	const want = "p.yaml: allow[0]: Forbidden: the host's configuration does not allow this much to the plugin: remove it, or have it allowed in the file of --config: " +
		"{allow: {entries: {p: [{groups: [''], kinds: [Secret], verbs: [get, list, watch], namespaces: [a]}]}}}"
	for _, config := range []string{
		"dryRun: true",
		"{allow: {entries: {q: [{groups: [''], kinds: [Secret], verbs: [get, list, watch], namespaces: [a]}]}}}",
		"{allow: {entries: {p: [{groups: [''], kinds: [Secret], verbs: [get, list], namespaces: [a]}]}}}",
		"{allow: {entries: {p: [{groups: [''], kinds: [Secret], verbs: [get, list, watch]}]}}}",
		"{allow: {entries: {p: [{groups: [a], kinds: [B], verbs: [get]}], '*': [{groups: ['*'], kinds: ['*'], verbs: ['*'], namespaces: ['*']}]}}}",
	} {
		if _, err := read(config, secrets); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", config, err, want)
		}
	}
	// What the error says to write allows it, and so does anything that allows more.
	for _, config := range []string{
		want[strings.Index(want, "{allow"):],
		"{allow: {entries: {'*': [{groups: ['*'], kinds: ['*'], verbs: ['*'], namespaces: ['*']}]}}}",
		"allow:\n  entries:\n    p:\n    - {groups: ['', apps], kinds: [Secret], verbs: [get, list], namespaces: [b, a]}\n    - {groups: [''], kinds: ['*'], verbs: [watch], namespaces: ['*']}\n",
	} {
		if p, err := read(config, secrets); err != nil || len(p.Allow) != 1 || p.Allow[0].Kinds[0] != "Secret" {
			t.Errorf("%s: %+v, %v", config, p.Allow, err)
		}
	}
}

func TestEntriesOfTheConfigurationAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"allow: {entries: {p: []}}": "allow.entries[p]: Required value: write an entry, or remove the line",
		"allow: {entries: {p: }}":   "allow.entries[p]: Required value: write an entry",
		"allow: {entries: {P_: [{groups: [a], kinds: [B], verbs: [get]}]}}": `allow.entries: Invalid value: "P_": must be the name of a plugin, or "*"`,
		"allow: {entries: {p: [{groups: [a], kinds: [B], verbs: [geet]}]}}": `allow.entries[p][0].verbs[0]: Invalid value: "geet": must be one of get`,
		"allow: {entries: {p: [{group: [a]}]}}":                             `unknown field "allow.entries[p][0].group", did you mean "groups"?`,
		"allow: {crossNamespace: [p]}":                                      `unknown field "allow.crossNamespace"; known there are entries, namespaces`,
	} {
		_, err := Read(write(t, text))
		wantProblems(t, err, want)
	}
}
