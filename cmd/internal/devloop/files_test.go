package devloop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
)

func TestReadManifests(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text, wrong string
		want        []string
	}{
		"several":  {text: "# about\n---\nkind: A\napiVersion: v1\nmetadata: {name: a}\n---\n---\nkind: B\napiVersion: v1\nmetadata: {name: b, namespace: ns}\n", want: []string{"A a", "B ns/b"}},
		"empty":    {text: "# nothing\n"},
		"JSON":     {text: `{"kind": "A", "apiVersion": "v1", "metadata": {"name": "a"}}`, want: []string{"A a"}},
		"no name":  {text: "kind: A\napiVersion: v1\n", wrong: "metadata.name is missing"},
		"no YAML":  {text: "kind: [", wrong: "no valid YAML: line 1: did not find"},
		"a tab":    {text: "\tkind: A", wrong: "no valid YAML: found character"},
		"a list":   {text: "- kind: A", wrong: "is no object"},
		"not held": {text: "just text\n", wrong: "what it holds is no object: write its apiVersion"},
	} {
		path := filepath.Join(dir, "file.yaml")
		tree(t, dir, "file.yaml", c.text)
		objects, err := readManifests(path)
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

// TestIdentify: whose file is whose. The kit's guest calls itself echo or so;
// what it says is looked up rather than known here.
func TestIdentify(t *testing.T) {
	good, ok := tck.CaseOf("echo")
	if !ok {
		t.Fatal("the kit has no guest echo")
	}
	refused, ok := tck.CaseOf("unknown-import")
	if !ok {
		t.Fatal("the kit has no guest unknown-import")
	}
	look := func(i *identifier, wasm []byte) *build {
		b := &build{file: filepath.Join(t.TempDir(), "new.wasm")}
		if err := os.WriteFile(b.file, wasm, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := i.inspect(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(b.file); err != nil || filepath.Base(b.file) != b.name+".wasm" {
			t.Errorf("the file of %q is %s: %v", b.name, b.file, err)
		}
		return b
	}
	i := &identifier{known: "folder"}
	i.host.CacheDir = t.TempDir()
	b := look(i, good.Wasm())
	if b.name == "folder" || b.refused != "" || len(b.digest) != 64 {
		t.Errorf("a good module: %+v", b)
	}
	own := b.name
	if b := look(i, refused.Wasm()); b.name != own || b.refused == "" {
		t.Errorf("a refused module takes the place of the good one: %+v", b)
	}
	if b := look(i, []byte("no module")); b.name != own || b.refused == "" {
		t.Errorf("what is no module: %+v", b)
	}
	i.wanted = "another"
	if b := look(i, good.Wasm()); b.name != "another" || !strings.Contains(b.refused, own) {
		t.Errorf("a module by another name: %+v", b)
	}
}

func TestNames(t *testing.T) {
	for dir, want := range map[string]string{"/a/podmanager": "podmanager", "/a/My-Plugin": "my-plugin", "/a/x_y": "plugin", "/": "plugin"} {
		if got := fallbackName(dir); got != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
	for path, want := range map[string]string{"/tmp/a-1/k": "/tmp/a-1/k", "/a b": "'/a b'", "/it's": `'/it'\''s'`} {
		if got := quoted(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestPolicies(t *testing.T) {
	s := &session{home: t.TempDir()}
	s.Dir = t.TempDir()
	target := s.path("plugins", "p.yaml")
	tree(t, s.home, "plugins/x.wasm", "")
	for _, text := range []string{"", "dryRun: true\n", "dryRun: false\n", ""} {
		if text == "" {
			_ = os.Remove(filepath.Join(s.Dir, policyFile)) // not there at first
		} else {
			tree(t, s.Dir, policyFile, text)
		}
		if err := s.installPolicy("p"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(target)
		if string(got) != text || os.IsNotExist(err) != (text == "") {
			t.Errorf("the policy is %q, %v, want %q", got, err, text)
		}
	}
}
