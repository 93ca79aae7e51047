package config

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// write makes a file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantProblems fails the test unless err names every problem.
func wantProblems(t *testing.T, err error, problems ...string) {
	t.Helper()
	for _, want := range problems {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestReadFillsTheFieldsOfTheFile(t *testing.T) {
	c, err := Read(write(t, "plugins: p\nresync: 10s\nlimits:\n  memoryMiB: 8\n  timeout: 2s\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Resync.Duration != 10*time.Second || c.Limits.MemoryMiB != 8 || c.Limits.Timeout.Duration != 2*time.Second {
		t.Errorf("read %+v", c)
	}
}

func TestReadErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	_, err := Read(dir)
	wantProblems(t, err, "read configuration: read "+dir+": is a directory")
	_, err = Read(filepath.Join(dir, "none.yaml"))
	wantProblems(t, err, filepath.Join(dir, "none.yaml")+": no such file or directory")
	path := write(t, "plugin: p")
	_, err = Read(path)
	wantProblems(t, err, "read configuration "+path+": unknown field")
	path = write(t, strings.Repeat("#", maxBytes+1))
	_, err = Read(path)
	wantProblems(t, err, path+": is larger than 128 KiB")
}

func TestDefaultsAreValid(t *testing.T) {
	c := Config{Plugins: t.TempDir(), CacheDir: t.TempDir()}.WithDefaults()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for _, n := range c.numbers() {
		if n.value != n.standard {
			t.Errorf("%s: %v, want the default %v", n.path, n.value, n.standard)
		}
	}
}

// TestDefaultsAreValidOnLargeMachines has more processors than instances are allowed.
func TestDefaultsAreValidOnLargeMachines(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * maxInstances))
	c := Config{Plugins: t.TempDir(), CacheDir: t.TempDir()}.WithDefaults()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if _, err := c.ReadPolicy("p", nil); err != nil {
		t.Error(err)
	}
}

func TestProbationOfZeroIsNotTheDefault(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want time.Duration
	}{
		"default": {"plugins: p", 10 * time.Minute},
		"off":     {"plugins: p\nprobation: 0s", 0},
		"set":     {"plugins: p\nprobation: 5m", 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := Read(write(t, c.text))
			if err == nil {
				config = config.WithDefaults()
				err = config.Validate()
			}
			if err != nil || config.Probation.Duration != c.want {
				t.Errorf("probation %v, %v, want %s", config.Probation, err, c.want)
			}
		})
	}
}

func TestValidateReportsEveryProblem(t *testing.T) {
	dir := t.TempDir()
	c := Config{
		Plugins: dir, CacheDir: filepath.Join(dir, "cache", "deeper"), Listen: "8080", Namespace: "nope_",
		GuestMemoryMiB: -5, CacheMiB: -1, Probation: &Duration{-1}, Limits: Limits{MemoryMiB: 5000},
	}
	wantProblems(t, c.WithDefaults().Validate(),
		"cacheDir: Invalid value: ",
		"guestMemoryMiB: Invalid value: -5: must be between 1 and 1048576",
		"cacheMiB: Invalid value: -1: must be between 1 and 1048576",
		`probation: Invalid value: "-1ns": must be at least 1s, or 0s to turn it off`,
		`listen: Invalid value: "8080": must be host:port, such as 127.0.0.1:8080`,
		`namespace: Invalid value: "nope_": must be a DNS label (at most 63 lower case letters, digits and '-')`,
		"limits.memoryMiB: Invalid value: 5000: must be between 1 and 2048",
	)
	wantProblems(t, Config{}.WithDefaults().Validate(), "plugins: Required value: name the directory of the plugins (--plugins)")
}

func TestCacheDirInThePluginDirectoryIsFoundThroughLinks(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		want bool
	}{
		"the directory":              {dir, true},
		"below it":                   {filepath.Join(dir, "a", "b"), true},
		"below it, not existing yet": {filepath.Join(link, "new"), true},
		"beside it":                  {dir + "-other", false},
		"beside it, with two dots":   {filepath.Join(filepath.Dir(dir), "..cache"), false},
		"above it":                   {filepath.Dir(dir), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inside(c.path, dir); got != c.want {
				t.Errorf("inside(%q, %q) = %v", c.path, dir, got)
			}
		})
	}
}
