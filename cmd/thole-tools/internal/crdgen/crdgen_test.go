package crdgen

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/thole-dev/thole/sdk/generate"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGeneratedFile compares with the golden file of each plugin in testdata/accepted, which
// host/internal/crdtest applies to an API server.
func TestGeneratedFile(t *testing.T) {
	for _, dir := range plugins(t, "testdata/accepted") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			content, err := Generate(t.Context(), generate.Place{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			again, err := Generate(t.Context(), generate.Place{Dir: dir})
			if err != nil || !bytes.Equal(content, again) {
				t.Errorf("the second time it is different, with error %v", err)
			}
			expectGolden(t, filepath.Join(dir, FileName), content)
		})
	}
}

// TestMistakeIsRefused compares the errors for each plugin in testdata/refused.
func TestMistakeIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, dir := range plugins(t, "testdata/refused") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			content, err := Generate(t.Context(), generate.Place{Dir: dir})
			if err == nil {
				t.Fatalf("nothing is refused:\n%s", content)
			}
			expectGolden(t, filepath.Join(dir, "refused.txt"), []byte(err.Error()+"\n"))
		})
	}
}

// TestDurationPattern compares the pattern with what a plugin can read.
func TestDurationPattern(t *testing.T) {
	pattern := regexp.MustCompile(durationPattern)
	for _, text := range []string{
		"0", "-0", "+5s", "1h30m", "1.5h", ".5s", "5.s", "100ms", "3us", "3µs", "3μs", "2ns",
		"", "1", "s", ".s", "1d", "1h 30m", "--1s", "1h-3m", "0h0", "1.2.3s", "5S",
	} {
		_, err := time.ParseDuration(text)
		if matches := pattern.MatchString(text); matches != (err == nil) {
			t.Errorf("%q: it matches: %t; time.ParseDuration returns %v", text, matches, err)
		}
	}
}

func plugins(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no plugins in %s: %v", dir, err)
	}
	return found
}

func expectGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("it differs from %s, which -update writes:\n%s", path, got)
	}
}
