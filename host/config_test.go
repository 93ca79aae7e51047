package host

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
		"pluginz: x":               `unknown field "pluginz", did you mean "plugins"?`,
		"limits: {memoryMB: 1}":    `unknown field "memoryMB", did you mean "memoryMiB"?`,
		"something: else":          `unknown field "something"; known are plugins, namespace`,
		"plugins: a\nplugins: b":   `"plugins" already set`,
		"limits: {concurrency: x}": "cannot unmarshal string",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestAPolicyCannotAllowMoreThanTheConfiguration(t *testing.T) {
	var narrow, wide Config
	wide.Allow.CrossNamespace = []string{"configsync"}
	for text, want := range map[string]string{
		"crossNamespace: true":  "add \"configsync\" to allow.crossNamespace",
		"crossNamespaces: true": `policy configsync.yaml: unknown field "crossNamespaces", did you mean "crossNamespace"?`,
		"crossNamespace: maybe": "policy configsync.yaml: json: cannot unmarshal string",
	} {
		if _, err := narrow.readPolicy("configsync", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	p, err := wide.readPolicy("configsync", []byte("crossNamespace: true\nconfig: {a: [1]}"))
	if err != nil || !p.CrossNamespace || string(p.Config) != `{"a":[1]}` {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := wide.readPolicy("other", []byte("crossNamespace: true")); err == nil {
		t.Error("a plugin that the configuration does not name may cross namespaces")
	}
	all := Config{Allow: Allow{CrossNamespace: []string{EveryPlugin}}}.WithDefaults()
	if p, err := all.readPolicy("any", []byte("crossNamespace: true")); err != nil || !p.CrossNamespace {
		t.Errorf("allowed to all: %+v, %v", p, err)
	}
	if p, err := all.readPolicy("any", nil); err != nil || p.CrossNamespace {
		t.Errorf("allowed and not asked for: %+v, %v", p, err)
	}
	if p, err := narrow.readPolicy("configsync", nil); err != nil || p.CrossNamespace {
		t.Errorf("without a policy: %+v, %v", p, err)
	}
}

func TestConfigNamesEveryProblem(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(t.TempDir(), "link")); err != nil {
		t.Fatal(err)
	}
	c := Config{Plugins: dir, CacheDir: filepath.Join(dir, "cache", "deeper"), GuestMemoryMiB: -5, CacheMiB: -1, Probation: metav1.Duration{Duration: -1}, Limits: Limits{MemoryMiB: 5000}}.WithDefaults()
	err := c.Validate()
	for _, want := range []string{"cacheDir: ", "guestMemoryMiB: -5", "cacheMiB: -1", "probation: -1ns", "limits.memoryMiB: 5000"} {
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
