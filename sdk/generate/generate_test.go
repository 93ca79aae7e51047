package generate

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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

// TestTypesAreFoundWhereverTheyBecomeValues has every way in which a value gets to the SDK.
func TestTypesAreFoundWhereverTheyBecomeValues(t *testing.T) {
	result, err := Packages(t.Context(), Place{Dir: "."}, "./testdata/calls/coded")
	if err != nil || len(result.Notes) > 0 {
		t.Fatal(err, result)
	}
	for i, name := range []string{"api", "coded"} {
		expectGolden(t, filepath.Join("testdata/calls", name, FileName), result.Files[i].Content)
	}
}

// TestTypeWithoutCodecIsLeftToEncodingJSON has what gets none, and the program says so.
func TestTypeWithoutCodecIsLeftToEncodingJSON(t *testing.T) {
	result, err := Packages(t.Context(), Place{Dir: "."}, "./testdata/calls/left")
	if err != nil {
		t.Fatal(err)
	}
	expectGolden(t, "testdata/calls/left.txt", []byte(strings.Join(result.Notes, "\n")+"\n"))
	expectGolden(t, filepath.Join("testdata/calls/left", FileName), result.Files[0].Content)
}

// TestTypesAreFollowedThroughOtherModules has a library that passes its parameters to the SDK.
func TestTypesAreFollowedThroughOtherModules(t *testing.T) {
	dir := module(t, map[string]string{
		"main.go": `package main

import (
	"example.com/lib"

	"github.com/thole-dev/thole/sdk"
)

type Got struct{ A int }

func use(r *sdk.Run) {
	_, _ = lib.Get[Got](r)
	lib.Apply(r, Got{})
}

func main() {}
`,
		"lib/go.mod": "module example.com/lib\n\ngo 1.26.0\n",
		"lib/lib.go": `package lib

import "github.com/thole-dev/thole/sdk"

func Get[T any](r *sdk.Run) (*T, error) {
	into := new(T)
	return into, r.Get(sdk.Ref{}, into)
}

func Apply(r *sdk.Run, object any) { r.Apply(object) }
`,
	}, "require example.com/lib v0.0.0", "replace example.com/lib => ./lib")
	result, err := Packages(t.Context(), Place{Dir: dir}, ".")
	if err != nil || len(result.Files) != 1 {
		t.Fatal(err, result)
	}
	content := string(result.Files[0].Content)
	if !strings.Contains(content, "func (x *Got) DecodeJSON") || !strings.Contains(content, "sdk.UseEncodingJSON()") {
		t.Errorf("generated\n%s", content)
	}
	const want = "lib/lib.go:10:46: Run.Apply (any) is left to encoding/json: the types that get here are not known; declare the variable or parameter as sdk.Value, or pass sdk.Raw"
	if len(result.Notes) != 1 || result.Notes[0] != want {
		t.Errorf("the notes are %q", result.Notes)
	}
}

// TestStaleFileDoesNotCompile changes structs in all ways that change their JSON, each in a
// folder of its own.
func TestStaleFileDoesNotCompile(t *testing.T) {
	const (
		part = "package part\n\ntype Part struct{ F int }\n\ntype Named struct{ Empty }\n\ntype Empty struct{}\n"
		p    = `package p

import "example.com/mine/DIR/internal/part"

` + mark + `type T struct {
	A string ` + "`json:\"a,omitempty\"`" + `
	Inner
	part.Part
	Deep []map[string]*Deep
	part.Named
	hidden func()
}

type Inner struct{ B, C int }

type Deep struct {
	D *Deeper
}

type Deeper struct{ E Phase }

type Phase string
`
	)
	changes := []struct{ file, from, to string }{
		{"p/p.go", "", ""},
		{"p/p.go", "\tInner\n", "\tInner\n\tNew int\n"},
		{"p/p.go", "omitempty", "omitzero"},
		{"p/p.go", "`json:\"a,omitempty\"`", ""},
		{"p/p.go", "B, C int", "B int"},
		{"p/p.go", "B, C int", "B, C int64"},
		{"p/p.go", "\tInner\n", "\tInner Inner\n"},
		{"p/p.go", "\tD *Deeper", "\tD *Deeper `json:\"d\"`"},
		{"p/p.go", "struct{ E Phase }", "struct{ E, G Phase }"},
		{"p/p.go", "type Phase string", "type Phase int"},
		{"internal/part/part.go", "F int", "F, G int"},
		{"internal/part/part.go", "Empty struct{}", "Empty struct{ H int }"},
	}
	files := map[string]string{}
	for i := range changes {
		dir := "d" + strconv.Itoa(i)
		files[dir+"/p/p.go"] = strings.Replace(p, "DIR", dir, 1)
		files[dir+"/internal/part/part.go"] = part
	}
	dir := module(t, files)
	if err := Update(generate(t, dir, "./..."), false, func(string) {}); err != nil {
		t.Fatal(err)
	}
	for i, c := range changes {
		name := "d" + strconv.Itoa(i) + "/" + c.file
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Replace(files[name], c.from, c.to, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "./...")
	cmd.Dir = dir
	said, _ := cmd.CombinedOutput()
	for i, c := range changes {
		compiles := !strings.Contains(string(said), "d"+strconv.Itoa(i)+"/p/"+FileName+":")
		if compiles != (i == 0) {
			t.Errorf("with %q in place of %q it compiles: %v\n%s", c.to, c.from, compiles, said)
		}
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
	result, err := Packages(t.Context(), Place{Dir: dir}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return result.Files
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
	dir := module(t, map[string]string{"api/api.go": "package api\n\ntype Other struct{}\n", "api/" + FileName: "package api\n\nfunc (Port) AppendJSON() {}\n"})
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

// TestStructWithTooManyFieldsHasNoCodec: TinyGo could not compile it.
func TestStructWithTooManyFieldsHasNoCodec(t *testing.T) {
	fields := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "F%d string\n", i)
		}
		return b.String()
	}
	dir := module(t, map[string]string{"p.go": "package p\n\nimport \"github.com/thole-dev/thole/sdk\"\n\nvar large, small, wide, narrow sdk.Value = Large{}, Small{}, Wide{}, Narrow{}\n\n" +
		"type Small struct {\n" + fields(490) + "}\n\ntype Large struct {\n" + fields(maxFields+1) + "}\n\n" +
		"type Wide struct {\n\tA, B Small\n\tC [3]bool\n}\n\n" +
		"type Narrow struct {\n\tA *Small\n\tB Small\n}\n"})
	result, err := Packages(t.Context(), Place{Dir: dir}, ".")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"p.go:5:44: Large (p.Large) is left to encoding/json: it has 501 fields, and a codec can have 500; group them in structs",
		"p.go:5:62: Wide (p.Wide) is left to encoding/json: its value takes 1963 words, and one with a codec can take 996: TinyGo gives it to a function word by word; make large fields pointers",
	}
	if !slices.Equal(result.Notes, want) {
		t.Errorf("notes are %q, want %q", result.Notes, want)
	}
	if content := string(result.Files[0].Content); strings.Contains(content, "Large)") || !strings.Contains(content, "Small) DecodeJSON") || strings.Contains(content, "Wide)") || !strings.Contains(content, "Narrow) AppendJSON") {
		t.Errorf("generated\n%s", content)
	}
}
