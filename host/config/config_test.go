package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConfigIsReadStrictly(t *testing.T) {
	c, err := parseConfig([]byte("plugins: p\nresync: 10s\nlimits:\n  memoryMiB: 8\n  timeout: 2s\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Resync.Duration != 10*time.Second || c.Limits.MemoryMiB != 8 || c.Limits.Timeout.Duration != 2*time.Second {
		t.Errorf("read %+v", c)
	}
	for text, want := range map[string]string{
		"pluginz: x":            `unknown field "pluginz", did you mean "plugins"?`,
		"Plugins: x":            `unknown field "Plugins", did you mean "plugins"?`,
		"limits: {memoryMB: 1}": `unknown field "memoryMB" in limits, did you mean "memoryMiB"?`,
		"something: else":       `unknown field "something"; known are plugins, namespace, listen`,
		"allow: {nothing: [a]}": `unknown field "nothing" in allow; known there are crossNamespace`,
		"memoryMiB: 8":          `unknown field "memoryMiB": it belongs below limits`,
		"cacheMiB: 0":           "cacheMiB: 0 is not between 1 and 1048576; leave it out for the default",
		"guestMemoryMiB: 0":     "guestMemoryMiB: 0 is not between 1 and",
		"resync: 0s":            "resync: 0s is not between 1s and",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestWhatDoesNotFitIsTold: where it is, what is there, and what may be.
func TestWhatDoesNotFitIsTold(t *testing.T) {
	for text, want := range map[string]string{
		"limits: {timeout: 10}":             "limits.timeout: 10, which is no duration: write a number with its unit (ms, s, m or h), such as 10s",
		"limits: {timeout: 1 day}":          `limits.timeout: "1 day", which is no duration: write a number with its unit (ms, s, m or h), such as 10s`,
		"limits: {timeout: [1s]}":           `limits.timeout: ["1s"], which is no duration`,
		"limits: {timeout: }":               "limits.timeout: nothing, which is no duration",
		`limits: {concurrency: "3"}`:        `limits.concurrency: "3", which is text: write 3, without quotes`,
		"limits: {concurrency: x}":          `limits.concurrency: "x", which is no whole number: write one, such as 8`,
		"limits: {fuel: 1e20}":              "limits.fuel: 100000000000000000000, which is no whole number: write one, such as 1000000000",
		"limits: {writesPerSecond: many}":   `limits.writesPerSecond: "many", which is no number: write one, such as 8`,
		"limits: {writesPerSecond: 1e300}":  "limits.writesPerSecond: 1e+300, which is no number: write one, such as 8",
		"limits: {writesPerSecond: 1e-300}": "limits.writesPerSecond: 0 is not between 0.1 and 10000",
		"limits: {writesPerSecond: .nan}":   "no valid YAML: ",
		"limits: 3":                         "limits: 3, which is no mapping of fields: write them as {memoryMiB: 8}",
		"allow: x":                          `allow: "x", which is no mapping of fields: write them as {crossNamespace: [name]}`,
		"allow: {crossNamespace: x}":        `allow.crossNamespace: "x", which is no list: write [x]`,
		"allow: {crossNamespace: {a: b}}":   `allow.crossNamespace: {"a":"b"}, which is no list: write [name]`,
		"allow: {crossNamespace: [a, 3]}":   `allow.crossNamespace[1]: 3, which is no text: write it in quotes`,
		"listen: 8080":                      "listen: 8080, which is no text: write it in quotes",
		"dryRun: 1":                         "dryRun: 1, which is neither true nor false",
		"probation: 600":                    "probation: 600, which is no duration: write a number with its unit (ms, s, m or h), such as 600s",
		"- a":                               `the file holds ["a"], which is no mapping of fields: write them as {plugins: "text"}`,
		"plugins: a\nplugins: b":            `no valid YAML: line 2: key "plugins" already set in map`,
		"limits:\n\ttimeout: 1s":            "no valid YAML: line 2: found character that cannot start any token (a tab? YAML is indented with spaces)",
		"plugins: a\n---\nplugins: b":       `holds several documents, but only one counts: take out the line "---"`,
		"plugins: a\n---\n{":                "no valid YAML: ",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
	_, err := parseConfig([]byte("allow: x\nlimits: {timeout: 1, fuels: 2}"))
	for _, want := range []string{"allow: ", "limits.timeout: ", `"fuels"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// TestWaysToWriteAFile: what editors make of a text is not told.
func TestWaysToWriteAFile(t *testing.T) {
	const bom = "\ufeff"
	for _, text := range []string{
		"plugins: p\nlimits:\n  memoryMiB: 8\n  fuel: 1e9\n",
		bom + "plugins: p\r\nlimits:\r\n  memoryMiB: 8\r\n",
		"# comment\n---\nplugins: p\nlimits: {memoryMiB: 8}\n---\n# nothing\n",
		`{"plugins": "p", "limits": {"memoryMiB": 8}, "allow": null}`,
	} {
		if c, err := parseConfig([]byte(text)); err != nil || c.Plugins != "p" || c.Limits.MemoryMiB != 8 {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
	if _, err := parseConfig(nil); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

func TestALargeFileIsNoConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(path, make([]byte, maxConfig+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "large.yaml: is larger than 1024 KiB") {
		t.Errorf("got %v", err)
	}
}

func TestProbationMayBeOff(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 10 * time.Minute, "probation: 0s": 0, "probation: 5m": 5 * time.Minute} {
		c, err := parseConfig([]byte("plugins: p\n" + text))
		if err == nil {
			c = c.WithDefaults()
			err = c.Validate()
		}
		if err != nil || c.Probation.Duration != want {
			t.Errorf("%s: %v, %v", text, c.Probation, err)
		}
	}
}

func TestAPolicyCannotAllowMoreThanTheConfiguration(t *testing.T) {
	var narrow, wide Config
	wide.Allow.CrossNamespace = []string{"configsync"}
	for text, want := range map[string]string{
		"crossNamespace: true":  "add \"configsync\" to allow.crossNamespace",
		"crossNamespaces: true": `configsync.yaml: unknown field "crossNamespaces", did you mean "crossNamespace"?`,
		"crossNamespace: maybe": `configsync.yaml: crossNamespace: "maybe", which is neither true nor false`,
		"probation: 0s":         `configsync.yaml: unknown field "probation": it belongs into the file of --config`,
	} {
		if _, err := narrow.ReadPolicy("configsync", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	p, err := wide.ReadPolicy("configsync", []byte("crossNamespace: true\nconfig: {a: [1]}"))
	if err != nil || !p.CrossNamespace || string(p.Config) != `{"a":[1]}` {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := wide.ReadPolicy("other", []byte("crossNamespace: true")); err == nil {
		t.Error("a plugin that the configuration does not name may cross namespaces")
	}
	all := Config{Allow: Allow{CrossNamespace: []string{EveryPlugin}}}.WithDefaults()
	if p, err := all.ReadPolicy("any", []byte("crossNamespace: true")); err != nil || !p.CrossNamespace {
		t.Errorf("allowed to all: %+v, %v", p, err)
	}
	if p, err := all.ReadPolicy("any", nil); err != nil || p.CrossNamespace {
		t.Errorf("allowed and not asked for: %+v, %v", p, err)
	}
	if p, err := narrow.ReadPolicy("configsync", nil); err != nil || p.CrossNamespace {
		t.Errorf("without a policy: %+v, %v", p, err)
	}
}

func TestConfigNamesEveryProblem(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(t.TempDir(), "link")); err != nil {
		t.Fatal(err)
	}
	c := Config{Plugins: dir, CacheDir: filepath.Join(dir, "cache", "deeper"), GuestMemoryMiB: -5, CacheMiB: -1, Probation: &metav1.Duration{Duration: -1}, Listen: "8080", Namespace: "nope_", Limits: Limits{MemoryMiB: 5000}}.WithDefaults()
	err := c.Validate()
	for _, want := range []string{"cacheDir: ", "guestMemoryMiB: -5", "cacheMiB: -1", "probation: -1ns", `listen: "8080"`, `namespace: "nope_"`, "limits.memoryMiB: 5000"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if err := (Config{}).WithDefaults().Validate(); err == nil || !strings.Contains(err.Error(), "--plugins") {
		t.Errorf("got %v", err)
	}
	if err := (Config{Plugins: dir, CacheDir: t.TempDir()}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
}

func TestCacheDirIsFoundBehindLinks(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if !within(filepath.Join(link, "new"), dir) {
		t.Error("a directory behind a link is not found to be in the plugin directory")
	}
	if within(dir+"-other", dir) {
		t.Error("a sibling counts as inside")
	}
}
