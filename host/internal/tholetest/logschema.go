package tholetest

import (
	"fmt"
	"strings"
	"sync"
)

// types has the JSON type that a field of the host's own lines has had first, with the line, in any
// process of the tests.
var types = struct {
	sync.Mutex
	byField map[string]typed
}{byField: map[string]typed{}}

type typed struct {
	name string
	line Line
}

// checkTypes returns how lines do not have the schema of the log (docs/reference/log.md): a field has
// the same type in each line, which is no object. The fields of a plugin or a library are their own.
func checkTypes(lines Lines) error {
	types.Lock()
	defer types.Unlock()
	for _, line := range lines {
		others := line["event"] == "GuestLogged" || strings.HasPrefix(line.String("@module"), "thole.client-go") || line["@module"] == "thole.slog"
		for field, value := range line {
			name := typeOf(value)
			first, known := types.byField[field]
			switch {
			case name == "object" || name == "null":
				return fmt.Errorf("the field %q of a log line is of the type %s: %v", field, name, line)
			case others && field != "event":
			case !known:
				types.byField[field] = typed{name, line}
			case first.name != name:
				return fmt.Errorf("the field %q of the log is of the type %s in %v and of %s in %v", field, name, line, first.name, first.line)
			}
		}
	}
	return nil
}

func typeOf(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case nil:
		return "null"
	default:
		return "object"
	}
}
