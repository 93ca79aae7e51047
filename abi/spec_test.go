package abi

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/rawjson"
)

// pages are the files of the specification but those of capabilities.
var pages = []string{
	"SPEC.md",
	"spec/reads.md",
	"spec/writes.md",
	"spec/status.md",
	"spec/retries.md",
	"spec/deletion.md",
	"spec/limits.md",
}

// readSpec returns the text of all pages.
func readSpec(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestSpecNamesEveryPage compares the files with the list above and with the table of SPEC.md.
func TestSpecNamesEveryPage(t *testing.T) {
	files, err := filepath.Glob("spec/*")
	if err != nil {
		t.Fatal(err)
	}
	core, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(pages, file) {
			t.Errorf("%s is not among the pages that are tested", file)
		}
		if !strings.Contains(string(core), "]("+file+") |") {
			t.Errorf("the table of pages in SPEC.md does not have %s", file)
		}
	}
}

// described are the types for which the pages have a table of fields, by heading.
var described = map[string]reflect.Type{
	"Manifest":      reflect.TypeFor[Manifest](),
	"Controller":    reflect.TypeFor[Controller](),
	"Kind":          reflect.TypeFor[Kind](),
	"Followed kind": reflect.TypeFor[Followed](),
	"Watch":         reflect.TypeFor[Watch](),
	"Retry":         reflect.TypeFor[Retry](),
	"Conditions":    reflect.TypeFor[Conditions](),
	"Summary":       reflect.TypeFor[Summary](),
	"Request":       reflect.TypeFor[Request](),
	"Previous":      reflect.TypeFor[Previous](),
	"Failed effect": reflect.TypeFor[EffectFailure](),
	"Result":        reflect.TypeFor[Result](),
	"Condition":     reflect.TypeFor[Condition](),
	"Apply":         reflect.TypeFor[Apply](),
	"Ref":           reflect.TypeFor[Ref](),
	"Event":         reflect.TypeFor[Event](),
	"Error":         reflect.TypeFor[Failure](),
	"Index":         reflect.TypeFor[Index](),
	"get":           reflect.TypeFor[GetCall](),
	"list":          reflect.TypeFor[ListCall](),
	"List reply":    reflect.TypeFor[ListReply](),

	"Delete": reflect.TypeFor[Delete](),
	"Group":  reflect.TypeFor[Group](),
}

// TestSpecTablesListFieldsOfTypes compares the tables with the types, including
// the order of the fields.
func TestSpecTablesListFieldsOfTypes(t *testing.T) {
	tables := fieldTables(readSpec(t))
	for heading, typ := range described {
		if want := fieldsOf(typ); !reflect.DeepEqual(tables[heading], want) {
			t.Errorf("the table under %q has\n%v, the type %s has\n%v", heading, tables[heading], typ, want)
		}
		delete(tables, heading)
	}
	for heading := range tables {
		t.Errorf("the table under %q belongs to no type in this test", heading)
	}
}

var (
	headingLine = regexp.MustCompile(`^#+ (.*)$`)
	fieldRow    = regexp.MustCompile("^\\| `([a-zA-Z]+)` \\|")
)

// fieldTables returns the first column of each table of fields, by the heading
// that it stands under.
func fieldTables(spec string) map[string][]string {
	tables := map[string][]string{}
	heading, inTable := "", false
	for line := range strings.Lines(spec) {
		line = strings.TrimSpace(line)
		if m := headingLine.FindStringSubmatch(line); m != nil {
			heading = m[1]
		}
		inTable = strings.HasPrefix(line, "|") && (inTable || strings.HasPrefix(line, "| field |"))
		if m := fieldRow.FindStringSubmatch(line); m != nil && inTable {
			tables[heading] = append(tables[heading], m[1])
		}
	}
	return tables
}

// fieldsOf returns the names of a type's fields in a message. The fields of a
// condition that results do not have are left out.
func fieldsOf(typ reflect.Type) (names []string) {
	for i := range typ.NumField() {
		switch f := typ.Field(i); {
		case f.Anonymous:
			names = append(names, fieldsOf(f.Type)...)
		case f.Tag.Get("json") == "-": // of capabilities
		case !strings.HasSuffix(f.Tag.Get("json"), ",omitempty"):
			names = append(names, jsonName(f.Name))
		}
	}
	return names
}

// jsonName is the name of a field in a message.
func jsonName(field string) string {
	switch field {
	case "UID":
		return "uid"
	case "APIVersion":
		return "apiVersion"
	case "URL":
		return "url"
	}
	return strings.ToLower(field[:1]) + field[1:]
}

// TestEncodedNamesAreFieldNames: together with the golden files, in which every
// field is set, it shows that encoder and decoder use the names of the tables.
func TestEncodedNamesAreFieldNames(t *testing.T) {
	for _, m := range messages() {
		names := map[string]bool{}
		collectNames(reflect.TypeOf(m.sample), names)
		names["example"] = true // a section
		r := rawjson.NewReader(m.encoded())
		r.Object(func(name string) {
			if !names[name] {
				t.Errorf("%s: no field is named %q", m.name, name)
			}
		})
		if err := r.End(); err != nil {
			t.Error(err)
		}
	}
}

func collectNames(typ reflect.Type, names map[string]bool) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice:
		collectNames(typ.Elem(), names)
	case reflect.Struct:
		for i := range typ.NumField() {
			names[jsonName(typ.Field(i).Name)] = true
			if typ.Field(i).Type.PkgPath() == typ.PkgPath() {
				collectNames(typ.Field(i).Type, names)
			}
		}
	}
}

// TestSpecListsEveryConstant looks for each exported constant in the pages, and
// for each limit in a row with its value.
func TestSpecListsEveryConstant(t *testing.T) {
	spec := readSpec(t)
	found := 0
	for name, value := range exportedConstants(t, "contract.go", "messages.go") {
		found++
		want := "`" + value + "`"
		if strings.HasPrefix(name, "Max") {
			want = "| `" + name + "` | " + value
		}
		if !regexp.MustCompile(regexp.QuoteMeta(want) + `(\W|$)`).MatchString(spec) {
			t.Errorf("no page has %s, for %s", want, name)
		}
	}
	if found < 60 {
		t.Errorf("only %d constants were found", found)
	}
}

func exportedConstants(t *testing.T, files ...string) map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	// Imports stay unresolved: no constant depends on them.
	config := types.Config{Error: func(error) {}}
	pkg, _ := config.Check("abi", fset, parsed, nil)
	constants := map[string]string{}
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok || !c.Exported() || name == "ClassNone" {
			continue
		}
		constants[name] = c.Val().ExactString()
		if c.Val().Kind() == constant.String {
			constants[name] = constant.StringVal(c.Val())
		}
	}
	return constants
}

var example = regexp.MustCompile("(?s)```json ([a-z-]+)\n(.*?)```")

// TestSpecExamplesDecodeCompletely decodes every example and encodes it again,
// because a lenient decoder does not report an unknown field.
func TestSpecExamplesDecodeCompletely(t *testing.T) {
	kinds := map[string]messageType{
		"manifest":   of("", minimalManifest(), EncodeManifest, DecodeManifest),
		"request":    of("", minimalRequest(), EncodeRequest, DecodeRequest),
		"result":     of("", minimalResult(), EncodeResult, DecodeResult),
		"get-call":   of("", fullGetCall(), EncodeGetCall, DecodeGetCall),
		"list-call":  of("", fullListCall(), EncodeListCall, DecodeListCall),
		"list-reply": of("", fullListReply(), EncodeListReply, DecodeListReply),
	}
	seen := map[string]int{}
	for _, m := range example.FindAllStringSubmatch(readSpec(t), -1) {
		kind, text := m[1], []byte(m[2])
		seen[kind]++
		if err := checkExample(kinds, kind, text); err != nil {
			t.Errorf("an example of %s: %v\n%s", kind, err, text)
		}
	}
	for kind := range kinds {
		if seen[kind] == 0 {
			t.Errorf("no example of %s", kind)
		}
	}
	if seen["log"] == 0 || seen["object"] == 0 {
		t.Error("no example of a log line or an object")
	}
}

func checkExample(kinds map[string]messageType, kind string, text []byte) error {
	codec, ok := kinds[kind]
	switch {
	case kind == "log":
		if message, ok := rawjson.Lookup(text, "message"); !ok || message[0] != '"' {
			return fmt.Errorf("it has no member message")
		}
		return nil
	case kind == "object":
		return Apply{Object: text}.check()
	case !ok:
		return fmt.Errorf("there is no such message")
	}
	decoded, err := codec.decode(text)
	if err != nil {
		return err
	}
	if again := codec.encode(decoded); !rawjson.Equal(again, text) {
		return fmt.Errorf("it is decoded only in part, as %s", again)
	}
	return nil
}

// TestTheCoreIsReadInHalfAnHour: what a plain guest does without is on the other pages.
func TestTheCoreIsReadInHalfAnHour(t *testing.T) {
	text, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(text))); n > 5000 {
		t.Errorf("SPEC.md has %d words, more than 5,000: say it shorter, or move a topic to its page", n)
	}
}
