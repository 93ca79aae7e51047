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

// TestGeneratedFileOfPlugin has all ways in which a type gets a codec.
func TestGeneratedFileOfPlugin(t *testing.T) {
	files := generate(t, ".", "./testdata/plugin")
	expectGolden(t, filepath.Join("testdata/plugin", FileName), files[0].Content)
}

func TestTemporaryFilesAreInGivenDirectory(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(temp, "missing"))
	if _, err := Packages(t.Context(), Place{Dir: ".", Temp: temp}, "./testdata/plugin"); err != nil {
		t.Error(err)
	}
}

// TestGeneratedFilesInTestdataAreFresh: `go generate ./...` ignores folders named
// testdata.
func TestGeneratedFilesInTestdataAreFresh(t *testing.T) {
	files := generate(t, ".", "../sdktest/wasmtest/testdata/generated", "../sdktest/wasmtest/testdata/daemon", "../sdktest/wasmtest/testdata/review", "../sdktest/wasmtest/testdata/scan",
		"../../host/sandbox/testdata/bench/typed", "../../host/internal/apimachinerytest/testdata/values",
		"../../host/internal/apimachinerytest/testdata/kinds", "../../host/internal/apimachinerytest/testdata/web")
	if err := Update(files, true, nil); err != nil {
		t.Error(err)
	}
}

// TestTypeWithoutCodecIsRefused has every type for which there is no codec.
func TestTypeWithoutCodecIsRefused(t *testing.T) {
	_, err := Packages(t.Context(), Place{Dir: "."}, "./testdata/refused")
	if err == nil {
		t.Fatal("no type is refused")
	}
	expectGolden(t, "testdata/refused/refused.txt", []byte(err.Error()+"\n"))
}

// TestCallWithoutCodecIsRefused has every way in which a value can get to the SDK. The
// packages are those of one plugin, with a helper package that is not generated.
func TestCallWithoutCodecIsRefused(t *testing.T) {
	_, err := Packages(t.Context(), Place{Dir: "."}, "./testdata/calls/refused", "./testdata/calls/objects")
	if err == nil {
		t.Fatal("no call is refused")
	}
	expectGolden(t, "testdata/calls/refused.txt", []byte(err.Error()+"\n"))
}

func TestCallWithUncertainTypeIsAccepted(t *testing.T) {
	generate(t, ".", "./testdata/calls/accepted", "./testdata/calls/objects")
}

// TestCallIsCheckedOnlyWithoutEncodingJSON has a plugin that passes a map, and decides
// by the other packages of the plugin.
func TestCallIsCheckedOnlyWithoutEncodingJSON(t *testing.T) {
	plugin := func(register, lib string) map[string]string {
		return map[string]string{
			"main.go": `package main

import (
	_ "example.com/lib"

	"github.com/thole-dev/thole/sdk"
)

type Spec struct{ A int }

func init() { sdk.` + register + `(sdk.Controller[Spec, Spec]{Reconcile: reconcile}) }

func reconcile(r *sdk.Request[Spec, Spec]) (sdk.Action, error) {
	r.Apply(map[string]any{})
	return sdk.AwaitChange(), nil
}

func main() {}
`,
			"lib/go.mod": "module example.com/lib\n\ngo 1.26.0\n",
			"lib/lib.go": "package lib\n\nimport \"github.com/thole-dev/thole/sdk\"\n\n" + lib,
		}
	}
	const unrelated = "var Kind sdk.Kind\n"
	const registers = "func init() { sdk.Register(sdk.Controller[int, int]{}) }\n"
	for name, c := range map[string]struct {
		files   map[string]string
		refused bool
	}{
		"encoding/json":    {plugin("Register", unrelated), false},
		"no encoding/json": {plugin("RegisterGenerated", unrelated), true},
		"another module":   {plugin("RegisterGenerated", registers), false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := module(t, c.files, "require example.com/lib v0.0.0", "replace example.com/lib => ./lib")
			_, err := Packages(t.Context(), Place{Dir: dir}, ".")
			const want = "main.go:14:10: Run.Apply (map[string]any): it has no codec"
			if refused := err != nil && strings.HasPrefix(err.Error(), want); refused != c.refused || err != nil && !refused {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestProgramThatDoesNotCompileIsIgnored has one beside the plugin, which is being edited.
func TestProgramThatDoesNotCompileIsIgnored(t *testing.T) {
	dir := module(t, map[string]string{
		"main.go":      "package main\n\n//thole:generate\ntype Spec struct{ A int }\n\nfunc main() {}\n",
		"tool/main.go": "package main\n\nfunc setup() {}\n\nfunc main() { setup(1); _ = any(); _ = any(1, 2) }\n",
	})
	if files := generate(t, dir, "./..."); len(files) != 1 {
		t.Errorf("%d files are generated", len(files))
	}
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
		t.Errorf("%s is stale; update it by -update. It should be\n%s", path, got)
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

// module writes an author's module, which uses the SDK of this repository. mod has
// further lines of its go.mod.
func module(t *testing.T, files map[string]string, mod ...string) (dir string) {
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
	files["go.mod"] = "module example.com/mine\n\ngo 1.26.0\n\nrequire " + modulePath + " v0.0.0\n\nreplace " + modulePath + " => " + root + "\n" + strings.Join(mod, "\n") + "\n"
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

// TestMethodsOfOtherGeneratedPackageAreUsed, whether its file exists already or is
// generated in the same call.
func TestMethodsOfOtherGeneratedPackageAreUsed(t *testing.T) {
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

// TestStaleFileDoesNotMatter: the contents of the file do not affect what is
// generated.
func TestStaleFileDoesNotMatter(t *testing.T) {
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

func TestFileWithoutTypesIsRemoved(t *testing.T) {
	dir := module(t, map[string]string{"api/api.go": "package api\n\ntype Port struct{}\n", "api/" + FileName: "package api\n\nfunc (Port) AppendJSON() {}\n"})
	files := generate(t, dir, "./...")
	if err := Update(files, true, nil); err == nil || !strings.Contains(err.Error(), "is stale") {
		t.Errorf("the error is %v", err)
	}
	if err := Update(files, false, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(files[0].Path); !os.IsNotExist(err) {
		t.Errorf("the file still exists: %v", err)
	}
}

func TestGeneratedNamesDoNotConflict(t *testing.T) {
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

// sdk2 is the name that the file would use if sdk were taken.
const sdk2 = 1
`})
	generate(t, dir, ".") // checks that it compiles
}

func TestErrorNamesCause(t *testing.T) {
	for name, c := range map[string]struct {
		files    map[string]string
		patterns []string
		want     string
	}{
		"no types":             {map[string]string{"p.go": "package p\n"}, []string{"."}, "nothing to generate: no type is used with package"},
		"no directory":         {map[string]string{"p.go": "package p\n"}, []string{"./q"}, "directory not found"},
		"only tests":           {map[string]string{"q/p_test.go": "package p\n"}, []string{"./q"}, "nothing to generate"},
		"broken file":          {map[string]string{"p.go": "package p\n", FileName: "package"}, []string{"."}, "delete the file, and run `thole generate` again"},
		"syntax error":         {map[string]string{"p.go": "pakcage p\n"}, []string{"."}, "p.go:1:1: expected 'package', found pakcage"},
		"unknown type":         {map[string]string{"p.go": "package p\n\n" + mark + "type T struct{ A Missing }\n"}, []string{"."}, "p.go:4:16: T.A (invalid type): the type is not known"},
		"does not compile":     {map[string]string{"p.go": "package p\n\n" + mark + "type T struct{ A int }\n\nvar _ string = 1\n"}, []string{"."}, "does not compile: "},
		"directory without ./": {map[string]string{"p.go": "package p\n", "q/q.go": "package q\n"}, []string{"q"}, ": write the directory as ./q"},
		"another module":       {map[string]string{"p.go": "package p\n"}, []string{sdkPath}, "does not belong to the module"},
		"unknown import":       {map[string]string{"p.go": "package p\n\nimport \"example.com/none\"\n\n" + mark + "type T struct{ A none.T }\n"}, []string{"."}, "T.A (invalid type)"},
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

func TestHandwrittenMethodIsNotGenerated(t *testing.T) {
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
