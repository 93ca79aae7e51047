// Package goldentest compares messages with golden files, which `go test -update` rewrites.
package goldentest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Expect compares a message, which has no white space, with testdata/NAME.json, which is indented for readability. It
// returns the text of the file.
func Expect(t *testing.T, name string, message []byte) (file []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".json")
	if *update {
		var indented bytes.Buffer
		if err := json.Indent(&indented, message, "", "  "); err != nil {
			t.Fatal(err)
		}
		indented.WriteByte('\n')
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, indented.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, file); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(compact.Bytes(), message) {
		t.Errorf("encoded is %s\n%s has %s", message, path, compact.Bytes())
	}
	return file
}
