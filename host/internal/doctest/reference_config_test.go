//go:build unix

package doctest

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/with/standard"
)

// The configuration: types and comments of the source, defaults and ranges of the
// code.

// policyTable has the fields of a policy, and configTable those of the configuration, and after them those of
// the capabilities.
func policyTable(t *testing.T) string {
	return table(fieldHeader, rowsWithSections(t, "Policy", func(s config.Section) bool { return s.New != nil }))
}

func configTable(t *testing.T) string {
	return table(fieldHeader, rowsWithSections(t, "Config", func(s config.Section) bool { return s.Config != nil }))
}

func rowsWithSections(t *testing.T, typeName string, has func(config.Section) bool) [][]string {
	rows := fieldRows(t, "host/config", typeName, "")
	for _, s := range standard.Capabilities().Sections() {
		if has(s) {
			rows = append(rows, []string{code(s.Name), "[" + s.Name + "](#" + strings.ToLower(s.Name) + ")", "", "", "Of the [capability](#" + strings.ToLower(s.Name) + ")"})
		}
	}
	return rows
}

// allowTable has the fields of allow, and after them those of the capabilities.
func allowTable(t *testing.T) string {
	rows := fieldRows(t, "host/config", "Ceiling", "allow.")
	for _, s := range standard.Capabilities().Sections() {
		switch s.Allow {
		case nil:
		case config.Named{}:
			rows = append(rows, []string{code(s.Name), "list of text", "", "", "Names the plugins whose policies may have " + s.Name + ". `" + config.EveryPlugin + "` stands for all plugins"})
		default:
			rows = append(rows, []string{code(s.Name), "list of [entries](#" + strings.ToLower(s.Name) + ") by text", "", "", "Bounds the " + s.Name + " of policies, by the name of the plugin"})
		}
	}
	return table(fieldHeader, rows)
}

var fieldHeader = []string{"field", "type", "default", "range", ""}

func fieldTable(t *testing.T, dir, typeName, prefix string) string {
	return table(fieldHeader, fieldRows(t, dir, typeName, prefix))
}

func fieldRows(t *testing.T, dir, typeName, prefix string) (rows [][]string) {
	ranges, fields := numberRanges(t), structFields(t, dir, typeName)
	for _, f := range fields {
		rows = append(rows, []string{
			code(f.name), f.typ, defaultOf(t, prefix+f.name, typeName), ranges[prefix+f.name], f.description(fields),
		})
	}
	return rows
}

// structField is a field of a struct with a JSON form.
type structField struct{ name, goName, typ, comment string }

// description returns the comment without the name at its beginning, and with the
// names that other fields have in the file.
func (f structField) description(all []structField) string {
	text := strings.Join(strings.Fields(f.comment), " ")
	if !strings.HasPrefix(text, f.goName+" and ") {
		text = regexp.MustCompile(`^`+f.goName+` (is |are )?`).ReplaceAllString(text, "")
	}
	text = strings.ReplaceAll(sentence(text), "EveryPlugin", code(config.EveryPlugin))
	for _, other := range all {
		text = regexp.MustCompile(`\b`+other.goName+`\b`).ReplaceAllString(text, code(other.name))
	}
	return text
}

func structFields(t *testing.T, dir, typeName string) (fields []structField) {
	for _, file := range parseDir(t, dir) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != typeName {
				return true
			}
			comment := ""
			for _, f := range spec.Type.(*ast.StructType).Fields.List {
				if !f.Names[0].IsExported() {
					continue
				}
				if f.Doc != nil {
					comment = f.Doc.Text()
				}
				tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
				name, _, _ := strings.Cut(tag, ",")
				if name == "-" {
					continue
				}
				fields = append(fields, structField{name, f.Names[0].Name, plainType(f.Type), comment})
			}
			return false
		})
	}
	if len(fields) == 0 {
		t.Fatalf("%s has no struct %s", dir, typeName)
	}
	return fields
}

// plainType names a type as people who write YAML do.
func plainType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return plainType(e.X)
	case *ast.ArrayType:
		return "list of " + plainType(e.Elt)
	case *ast.MapType:
		if s, ok := e.Value.(*ast.SelectorExpr); ok && s.Sel.Name == "RawMessage" {
			return "[policy](#policy) by plugin"
		}
		return plainType(e.Value) + " by " + plainType(e.Key)
	case *ast.SelectorExpr:
		switch from, _ := e.X.(*ast.Ident); {
		case e.Sel.Name == "Duration":
			return "duration"
		case e.Sel.Name != "Entries":
		case from.Name == "egress":
			return "list of [hosts](#http)"
		default:
			return "list of [entries](#entry)"
		}
		return "any" // json.RawMessage
	case *ast.Ident:
		switch e.Name {
		case "Sinks":
			return "list of [sinks](#cloudevents)"
		case "string", "Isolation", "FailurePolicy", "Mode":
			return "text"
		case "MatchConditions":
			return "list of {name, expression}"
		case "Service", "Secret":
			return "[" + strings.ToLower(e.Name) + "](#webhooks)"
		case "bool":
			return "true or false"
		case "Duration":
			return "duration"
		case "Namespaces":
			return "list of text"
		case "SecretRef":
			return "namespace and name"
		case "Ceiling":
			return "[allow](#allow)"
		case "Limits", "Metrics":
			return fmt.Sprintf("[%s](#%s)", strings.ToLower(e.Name[:1])+e.Name[1:], strings.ToLower(e.Name))
		case "int", "int64", "float32", "float64":
			return "number"
		}
	}
	panic(fmt.Sprintf("no name for the type %v of a field", e))
}

// defaultOf returns the default of a field by its path. Some depend on the machine:
// their comments describe them.
func defaultOf(t *testing.T, path, typeName string) string {
	if slices.Contains([]string{"cacheDir", "limits.instances", "guestMemoryMiB", "metrics.secure"}, path) {
		return "see there"
	}
	c := config.Config{Sections: standard.Capabilities().Sections()}.WithDefaults()
	value := reflect.ValueOf(c)
	section, name, _ := strings.Cut(path, ".")
	if s := c.Values[section]; s != nil {
		path, value = name, reflect.ValueOf(s).Elem()
		if typeName == "Settings" { // of policies alone
			for _, s := range c.Sections {
				if s.Name == section && s.New != nil {
					value = reflect.ValueOf(s.New()).Elem()
				}
			}
		}
	} else if slices.Contains([]string{"Policy", "Ceiling", "Entry", "Settings", "Sink"}, typeName) {
		return ""
	}
	for name := range strings.SplitSeq(path, ".") {
		value = fieldNamed(t, value, name)
	}
	switch v := value.Interface().(type) {
	case config.Duration:
		return code(shortDuration(v.Duration))
	case *config.Duration:
		return code(shortDuration(v.Duration))
	case bool:
		return code("false")
	}
	if value.Kind() == reflect.Struct || value.IsZero() {
		return ""
	}
	return code(fmt.Sprint(value.Interface()))
}

func fieldNamed(t *testing.T, v reflect.Value, name string) reflect.Value {
	for field, f := range v.Fields() {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag == name {
			return f
		}
	}
	t.Fatalf("%s has no field %q", v.Type(), name)
	return v
}

// shortDuration is 10h instead of 10h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

var rangePattern = regexp.MustCompile(`^([\w.]+): .*must be between (\S+) and (\S+)$`)

// numberRanges returns the ranges of all numbers by the errors about those that are
// out of them.
func numberRanges(t *testing.T) map[string]string {
	invalid := config.Config{Plugins: "-", Sections: standard.Capabilities().Sections()}.WithDefaults()
	setNumbers(reflect.ValueOf(&invalid).Elem())
	for _, s := range invalid.Values {
		setNumbers(reflect.ValueOf(s).Elem())
	}
	ranges := map[string]string{}
	for line := range strings.Lines(fmt.Sprint(invalid.Validate())) {
		if m := rangePattern.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			ranges[m[1]] = plainNumber(t, m[2]) + " to " + plainNumber(t, m[3])
		}
	}
	if len(ranges) == 0 {
		t.Fatal("no error names a range")
	}
	return ranges
}

func setNumbers(v reflect.Value) {
	for _, f := range v.Fields() {
		switch f.Kind() {
		case reflect.Struct:
			setNumbers(f)
		case reflect.Int, reflect.Int64:
			f.SetInt(-1)
		case reflect.Float32:
			f.SetFloat(-1)
		}
	}
}

func plainNumber(t *testing.T, text string) string {
	if d, err := time.ParseDuration(text); err == nil && text != "0" {
		return code(shortDuration(d))
	}
	number := constant.MakeFromLiteral(text, token.FLOAT, 0)
	if f, _ := constant.Float64Val(number); f == math.Trunc(f) {
		return code(fmt.Sprintf("%.0f", f))
	}
	return code(text)
}
