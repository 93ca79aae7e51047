package devloop

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestReadManifests(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text, wrong string
		want        []string
	}{
		"several":       {text: "# about\n---\nkind: A\napiVersion: v1\nmetadata: {name: a}\n---\n---\nkind: B\napiVersion: v1\nmetadata: {name: b, namespace: ns}\n", want: []string{"A a", "B ns/b"}},
		"empty":         {text: "# nothing\n"},
		"JSON":          {text: `{"kind": "A", "apiVersion": "v1", "metadata": {"name": "a"}}`, want: []string{"A a"}},
		"no name":       {text: "kind: A\napiVersion: v1\n", wrong: "metadata.name is missing"},
		"invalid YAML":  {text: "kind: [", wrong: "not valid YAML: line 1: did not find"},
		"a tab":         {text: "\tkind: A", wrong: "not valid YAML: found character"},
		"a list":        {text: "- kind: A", wrong: "not an object: write its apiVersion"},
		"a single text": {text: "just text\n", wrong: "not an object: write its apiVersion"},
	} {
		tree(t, dir, "file.yaml", c.text)
		objects, err := readManifests(filepath.Join(dir, "file.yaml"))
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, o := range objects {
			got = append(got, named(o))
		}
		if err == nil && strings.Join(got, ", ") != strings.Join(c.want, ", ") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestLineWaiterSeesAWholeLine(t *testing.T) {
	for text, want := range map[string]bool{"ready\n": true, "x\nready\ny\n": true, "ready": false, "not ready\n": false, "ready x\n": false} {
		w := &lineWaiter{line: "ready", seen: make(chan struct{})}
		for i := range text { // a pipe may cut anywhere
			if _, err := w.Write([]byte(text[i : i+1])); err != nil {
				t.Fatal(err)
			}
		}
		seen := false
		select {
		case <-w.seen:
			seen = true
		default:
		}
		if seen != want {
			t.Errorf("%q: seen is %t", text, seen)
		}
	}
}
