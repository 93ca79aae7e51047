package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/rights"
)

// wantDecodeError decodes every text as a configuration and compares the whole
// error.
func wantDecodeError(t *testing.T, texts map[string]string) {
	t.Helper()
	for text, want := range texts {
		t.Run(text, func(t *testing.T) {
			if err := decode([]byte(text), &Config{}); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestUnknownFieldIsRefusedWithTheKnownOne(t *testing.T) {
	wantDecodeError(t, map[string]string{
		"pluginz: x":            `unknown field "pluginz", did you mean "plugins"?`,
		"Plugins: x":            `unknown field "Plugins", did you mean "plugins"?`,
		"limits: {memoryMB: 1}": `unknown field "limits.memoryMB", did you mean "limits.memoryMiB"?`,
		"allow: {nothing: [a]}": `unknown field "allow.nothing"; known there are entries, namespaces, pooled, serviceAccounts`,
		"limits: {memory: 1}":   `unknown field "limits.memory", did you mean "limits.memoryMiB"?`,
		"limits: {fuelMax: 1}":  `unknown field "limits.fuelMax", did you mean "limits.fuel"?`,
		"entries: {}":           `unknown field "entries": entries belongs below allow`,
		"serviceAccount: a/b":   `unknown field "serviceAccount": it belongs in the policy of a plugin`,
		"memoryMiB: 8":          `unknown field "memoryMiB": memoryMiB belongs below limits`,
		"limits.memoryMiB: 8":   `unknown field "limits.memoryMiB": memoryMiB belongs below limits`,
		"limits.: 5":            `unknown field "limits.", did you mean "limits"?`,
	})
	err := decode([]byte("something: else"), &Config{})
	wantProblems(t, err, `unknown field "something"; known there are allow, apiVersion, cacheDir, cacheMiB, dryRun, `)
	err = decode([]byte("limits: {mem: 1}"), &Config{})
	wantProblems(t, err, `unknown field "limits.mem"; known there are churnMiB, concurrency, fuel, `)
	err = decode([]byte("a.b: 1"), &Config{})
	wantProblems(t, err, `unknown field "a.b"; known there are allow, `)
	err = decode([]byte("limits: {a.b: x}"), &Config{})
	wantProblems(t, err, `unknown field "limits.a.b"; known there are churnMiB, concurrency, `)
	err = decode([]byte("limits.cacheMiB: 3"), &Config{})
	wantProblems(t, err, `unknown field "limits.cacheMiB"; known there are allow, `)
	err = decode([]byte(strings.Repeat("x", 1000)+": 1"), &Config{})
	wantProblems(t, err, `xxxx..."; known there are `)
}

func TestValueOfWrongTypeIsRefusedWithTheExpectedOne(t *testing.T) {
	const duration = `must be a duration with its unit (ms, s, m or h), such as "10s"`
	wantDecodeError(t, map[string]string{
		"limits: {timeout: 10}":              "limits.timeout: Invalid value: 10: " + duration,
		"limits: {timeout: 1 day}":           `limits.timeout: Invalid value: "1 day": ` + duration,
		"limits: {timeout: [1s]}":            `limits.timeout: Invalid value: ["1s"]: ` + duration,
		"probation: 600":                     "probation: Invalid value: 600: " + duration,
		`limits: {concurrency: "3"}`:         `limits.concurrency: Invalid value: "3": must be a whole number below 2^63, without quotes`,
		"limits: {concurrency: x}":           `limits.concurrency: Invalid value: "x": must be a whole number below 2^63, without quotes`,
		"limits: {intents: 1.5}":             "limits.intents: Invalid value: 1.5: must be a whole number below 2^63, without quotes",
		"limits: {fuel: 1e20}":               "limits.fuel: Invalid value: 1e+20: must be a whole number below 2^63, without quotes",
		"limits: {writesPerSecond: many}":    `limits.writesPerSecond: Invalid value: "many": must be a number below 1e38, without quotes`,
		"limits: {writesPerSecond: 1e300}":   "limits.writesPerSecond: Invalid value: 1e+300: must be a number below 1e38, without quotes",
		"limits: 3":                          "limits: Invalid value: 3: must be a mapping of fields, such as {churnMiB: ...}",
		"limits: [fuel]":                     `limits: Invalid value: ["fuel"]: must be a mapping of fields, such as {churnMiB: ...}`,
		"allow: x":                           `allow: Invalid value: "x": must be a mapping of fields, such as {entries: ...}`,
		"allow: {entries: x}":                `allow.entries: Invalid value: "x": must be a mapping from plugins to lists of entries, ` + rights.Entries{}.EntryExample(),
		"allow: {entries: {a: b}}":           `allow.entries[a]: Invalid value: "b": must be a list of entries, ` + rights.Entries{}.EntryExample(),
		"allow: {entries: {a: [b]}}":         `allow.entries[a][0]: Invalid value: "b": must be an entry, ` + rights.Entries{}.EntryExample(),
		"listen: 8080":                       "listen: Invalid value: 8080: must be text: write it in quotes",
		"dryRun: 1":                          "dryRun: Invalid value: 1: must be true or false, without quotes",
		"dryRun: " + strings.Repeat("x", 60): "dryRun: Invalid value: must be true or false, without quotes",
	})
}

func TestEmptyValueIsRefused(t *testing.T) {
	const missing = "Required value: write a value, or remove the line for the default"
	wantDecodeError(t, map[string]string{
		"limits: {timeout: }": "limits.timeout: " + missing,
		"limits:\n  fuel:\n":  "limits.fuel: " + missing,
		"namespace:":          "namespace: " + missing,
		"probation: null":     "probation: " + missing,
		"dryRun: ~":           "dryRun: " + missing,
	})
}

// Zero is the default in Go, and no limit at all for many a reader of a file.
func TestZeroIsRefused(t *testing.T) {
	wantDecodeError(t, map[string]string{
		"cacheMiB: 0":                       "cacheMiB: Invalid value: 0: must be between 1 and 1048576; remove it for the default",
		"guestMemoryMiB: 0":                 "guestMemoryMiB: Invalid value: 0: must be between 1 and 1048576; remove it for the default",
		"resync: 0s":                        `resync: Invalid value: "0s": must be between 1s and 876000h0m0s; remove it for the default`,
		"limits: {intents: 0}":              "limits.intents: Invalid value: 0: must be between 1 and 10000; remove it for the default",
		"limits: {writesPerSecond: 1e-300}": "limits.writesPerSecond: Invalid value: 0: must be between 0.1 and 100000; remove it for the default",
		"limits: {timeout: 0s}":             `limits.timeout: Invalid value: "0s": must be between 1ms and 1h0m0s; remove it for the default`,
	})
}

func TestTextThatIsNoDocumentIsRefused(t *testing.T) {
	wantDecodeError(t, map[string]string{
		"- a":                              "must be a mapping of fields, such as {allow: ...}",
		"a":                                "must be a mapping of fields, such as {allow: ...}",
		"plugins: a\nplugins: b":           `not valid YAML: line 2: key "plugins" already set in map`,
		"limits:\n\ttimeout: 1s":           "not valid YAML: line 2: found character that cannot start any token (a tab? YAML is indented with spaces)",
		"limits: {writesPerSecond: .nan}":  "not valid YAML: json: unsupported value: NaN",
		"plugins: a\n---\nplugins: b":      `has several documents, but only one is read: remove the line "---" and merge their fields`,
		"---\n# nothing\n---\nplugins: b":  `has several documents, but only one is read: remove the line "---" and merge their fields`,
		"plugins: a\n---\n{":               "not valid YAML: line 3: did not find expected node content",
		"plugins: &p a\nnamespace: *p":     "not valid YAML: line 2: aliases such as *p are not supported: write the value again",
		"limits: &l {}\nallow: {<<: *l}\n": "not valid YAML: line 2: aliases such as *l are not supported: write the value again",
		strings.Repeat(" ", maxBytes+1):    "is larger than 128 KiB",
	})
}

// Every level refers to the one above it ten times: expanded, the last one
// would have more than a gigabyte.
func TestAliasesAreNotExpanded(t *testing.T) {
	text := "config:\n  a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		alias := fmt.Sprintf("*a%d", i)
		text += fmt.Sprintf("  a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(alias+",", 10), ","))
	}
	err := decode([]byte(text), policyFile{&Policy{}, nil})
	wantProblems(t, err, "not valid YAML: line 3: aliases such as *a0 are not supported")
}

func TestDecodeReportsEveryProblem(t *testing.T) {
	err := decode([]byte(`
allow: x
dryRun:
cacheMiB: 0
limits: {timeout: 1, fuels: 2, memoryMiB: x}
`), &Config{})
	wantProblems(t, err, "allow: ", "dryRun: ", "cacheMiB: ", "limits.timeout: ", `"limits.fuels"`, "limits.memoryMiB: ")
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 6 {
		t.Errorf("%d lines, want one for each of 6 problems:\n%v", lines, err)
	}
}

func TestDecodeAcceptsWhatEditorsWrite(t *testing.T) {
	const byteOrderMark = "\ufeff"
	for name, text := range map[string]string{
		"exponent":           "plugins: p\nlimits:\n  memoryMiB: 8\n  fuel: 1e9\n",
		"byte order mark":    byteOrderMark + "plugins: p\r\nlimits:\r\n  memoryMiB: 8\r\n",
		"document markers":   "# comment\n---\nplugins: p\nlimits: {memoryMiB: 8}\n---\n# nothing\n",
		"JSON":               `{"plugins": "p", "limits": {"memoryMiB": 8}, "allow": null}`,
		"commented children": "plugins: p\nlimits: {memoryMiB: 8}\nallow:\n#  entries: {}\n",
		"anchor not used":    "plugins: &p p\nlimits: {memoryMiB: 8}",
	} {
		t.Run(name, func(t *testing.T) {
			var c Config
			if err := decode([]byte(text), &c); err != nil || c.Plugins != "p" || c.Limits.MemoryMiB != 8 {
				t.Errorf("got %+v, %v", c, err)
			}
		})
	}
}

func TestEmptyFileIsTheDefault(t *testing.T) {
	for name, text := range map[string]string{"no byte": "", "comments": "# nothing\n", "separator": "---\n", "null": "null"} {
		t.Run(name, func(t *testing.T) {
			var c Config
			if err := decode([]byte(text), &c); err != nil || !reflect.DeepEqual(c, Config{}) {
				t.Errorf("got %+v, %v", c, err)
			}
		})
	}
}
