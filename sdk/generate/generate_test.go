package generate

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files")

// TestPlugin shows what is generated for a plugin, and for which types.
func TestPlugin(t *testing.T) {
	files := generate(t, ".", "./testdata/plugin")
	expectGolden(t, filepath.Join("testdata/plugin", FileName), files[0].Content)
}

// TestTemporaryFiles: the go command makes them where it is told to.
func TestTemporaryFiles(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(temp, "not-there"))
	if _, err := Packages(t.Context(), Place{Dir: ".", Temp: temp}, "./testdata/plugin"); err != nil {
		t.Error(err)
	}
}

// TestFresh: `go generate ./...` passes by folders named testdata.
func TestFresh(t *testing.T) {
	files := generate(t, ".", "../sdktest/wasmtest/testdata/generated", "../../host/sandbox/testdata/bench/typed")
	if err := Update(files, true, nil); err != nil {
		t.Error(err)
	}
}

// TestRefused shows what is said of each type that has no codec.
func TestRefused(t *testing.T) {
	_, err := Packages(t.Context(), Place{Dir: "."}, "./testdata/refused")
	if err == nil {
		t.Fatal("nothing is refused")
	}
	expectGolden(t, "testdata/refused/refused.txt", []byte(err.Error()+"\n"))
}

func expectGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale; write it by -update. It should be\n%s", path, got)
	}
}

func generate(t *testing.T, dir string, patterns ...string) []File {
	t.Helper()
	files, err := Packages(t.Context(), Place{Dir: dir}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// module writes an author's module, which uses the SDK of this repository.
func module(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	files["go.sum"] = string(sums)
	files["go.mod"] = "module example.com/mine\n\ngo 1.26.0\n\nrequire " + modulePath + " v0.0.0\n\nreplace " + modulePath + " => " + root + "\n"
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	mark = "//thole:generate\n"
	api  = "package api\n\n" + mark + "type Port struct{ Number int }\n\ntype Plain struct{ Text string }\n"
	user = "package user\n\nimport \"example.com/mine/api\"\n\n" + mark +
		"type Spec struct {\n\tPort api.Port\n\tPlain api.Plain\n}\n"
)

// TestPackagesOfOneModule: a package that is generated in the same call is
// used by its methods, whether its file is there already or not.
func TestPackagesOfOneModule(t *testing.T) {
	dir := module(t, map[string]string{"api/api.go": api, "user/user.go": user})
	first := generate(t, dir, "./...")
	if len(first) != 2 || !strings.HasSuffix(first[0].Path, "api/"+FileName) {
		t.Fatalf("generated %v", first)
	}
	of := string(first[1].Content)
	if !strings.Contains(of, "x.Port.DecodeJSON(r)") || !strings.Contains(of, "readJSONPlain(r, &x.Plain)") {
		t.Errorf("user does not use the methods of api:\n%s", of)
	}
	if err := Update(first, false, func(string) {}); err != nil {
		t.Fatal(err)
	}
	for _, patterns := range [][]string{{"./..."}, {"./user", "./api"}, {"example.com/mine/user"}} {
		for _, f := range generate(t, dir, patterns...) {
			if fresh, err := f.fresh(); err != nil || !fresh {
				t.Errorf("%q: %s differs the second time: %v", patterns, f.Path, err)
			}
		}
	}
}

// TestOutOfDate: what is in the file does not decide what is generated.
func TestOutOfDate(t *testing.T) {
	dir := module(t, map[string]string{"api/api.go": api})
	want := generate(t, dir, "./api")[0]
	old := "package api\n\nfunc (p *Port) DecodeJSON() {}\n\ntype Port struct{ Other Gone }\n"
	if err := os.WriteFile(want.Path, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := generate(t, dir, "./api")[0]; !bytes.Equal(got.Content, want.Content) {
		t.Errorf("generated\n%s", got.Content)
	}
}

// TestNoLongerNeeded: a file without types is to be removed.
func TestNoLongerNeeded(t *testing.T) {
	dir := module(t, map[string]string{"api/api.go": "package api\n\ntype Port struct{}\n", "api/" + FileName: "package api\n\nfunc (Port) AppendJSON() {}\n"})
	files := generate(t, dir, "./...")
	if err := Update(files, true, nil); err == nil || !strings.Contains(err.Error(), "is stale") {
		t.Errorf("the error is %v", err)
	}
	if err := Update(files, false, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(files[0].Path); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
}

func TestNamesThatAreTaken(t *testing.T) {
	dir := module(t, map[string]string{"p.go": `package p

import "github.com/thole-dev/thole/sdk"

func readJSONInner() {}

func appendJSONListOfInner() {}

type codec2 struct{}

//thole:generate
type T struct {
	Inner  inner
	Inners []inner
	Sdk    sdk.Time
	Again  map[string]Inner
	Meta   *sdk.ObjectMeta
}

type inner struct{ A int }

type Inner struct{ B int }

// sdk2 is what the file would call the package, if this were called sdk.
const sdk2 = 1
`})
	generate(t, dir, ".") // checks that it compiles
}

func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		files    map[string]string
		patterns []string
		want     string
	}{
		"nothing":        {map[string]string{"p.go": "package p\n"}, []string{"."}, "nothing to generate: no type is used with package"},
		"no package":     {map[string]string{"p.go": "package p\n"}, []string{"./q"}, "directory not found"},
		"no files":       {map[string]string{"q/p_test.go": "package p\n"}, []string{"./q"}, "nothing to generate"},
		"broken file":    {map[string]string{"p.go": "package p\n", FileName: "package"}, []string{"."}, "delete the file, and run `thole generate` again"},
		"no Go":          {map[string]string{"p.go": "pakcage p\n"}, []string{"."}, "p.go:1:1: expected 'package', found pakcage"},
		"no type":        {map[string]string{"p.go": "package p\n\n" + mark + "type T struct{ A Missing }\n"}, []string{"."}, "p.go:4:16: T.A (invalid type): the type is not known"},
		"does not fit":   {map[string]string{"p.go": "package p\n\n" + mark + "type T struct{ A int }\n\nvar _ string = 1\n"}, []string{"."}, "does not compile: "},
		"not ours":       {map[string]string{"p.go": "package p\n"}, []string{sdkPath}, "does not belong to the module"},
		"unknown import": {map[string]string{"p.go": "package p\n\nimport \"example.com/none\"\n\n" + mark + "type T struct{ A none.T }\n"}, []string{"."}, "T.A (invalid type)"},
		"method twice": {
			map[string]string{"p.go": "package p\n\n" + mark + "type T struct{ AppendJSON int }\n"},
			[]string{"."},
			"field and method with the same name AppendJSON",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := Packages(t.Context(), Place{Dir: module(t, c.files)}, c.patterns...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("generated %v, %v; expected %s", files, err, c.want)
			}
		})
	}
}

// TestHandwritten: a method that the author wrote is used, and the other one
// generated.
func TestHandwritten(t *testing.T) {
	dir := module(t, map[string]string{"p.go": `package p

import "github.com/thole-dev/thole/sdk"

//thole:generate
type T struct{ A int }

func (t *T) DecodeJSON(r *sdk.Reader) { t.A = int(r.Int()) }
`})
	content := string(generate(t, dir, ".")[0].Content)
	if strings.Contains(content, "DecodeJSON") || !strings.Contains(content, "AppendJSON") {
		t.Errorf("generated\n%s", content)
	}
}
