package telemetry

import (
	"fmt"
	"reflect"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/events"
)

// This file gives all lines of the log one schema (docs/reference/log.md), whoever writes them: a
// value is a text, a number, a boolean or a list of texts, and never an object.

// schemaLogger is a logger whose lines have the schema.
type schemaLogger struct {
	hclog.Logger
}

func (l schemaLogger) Log(level hclog.Level, message string, args ...any) {
	if level >= l.GetLevel() {
		l.Logger.Log(level, message, logValues(args)...)
	}
}

func (l schemaLogger) Trace(message string, args ...any) { l.Log(hclog.Trace, message, args...) }
func (l schemaLogger) Debug(message string, args ...any) { l.Log(hclog.Debug, message, args...) }
func (l schemaLogger) Info(message string, args ...any)  { l.Log(hclog.Info, message, args...) }
func (l schemaLogger) Warn(message string, args ...any)  { l.Log(hclog.Warn, message, args...) }
func (l schemaLogger) Error(message string, args ...any) { l.Log(hclog.Error, message, args...) }

func (l schemaLogger) With(args ...any) hclog.Logger {
	return schemaLogger{l.Logger.With(logValues(args)...)}
}

func (l schemaLogger) Named(name string) hclog.Logger { return schemaLogger{l.Logger.Named(name)} }

func (l schemaLogger) ResetNamed(name string) hclog.Logger {
	return schemaLogger{l.Logger.ResetNamed(name)}
}

// logValues returns the names and values of a line with values of the schema. Those without a value
// are left out.
func logValues(args []any) []any {
	fields := make([]any, 0, len(args))
	for i := 0; i+1 < len(args); i += 2 {
		if v := logValue(args[i+1]); v != nil {
			fields = append(fields, args[i], v)
		}
	}
	if len(args)%2 == 1 { // which hclog reports
		fields = append(fields, args[len(args)-1])
	}
	return fields
}

// logValue returns a value of the schema, nil for none. A duration is a text such as 1m30s, a time one
// of RFC 3339.
func logValue(value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case error, fmt.Stringer:
		return fmt.Sprint(v) // which recovers from a panic of a nil pointer
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return value
	case reflect.Slice, reflect.Array:
		texts := make([]string, v.Len())
		for i := range texts {
			texts[i] = fmt.Sprint(v.Index(i).Interface())
		}
		return texts
	default:
		return fmt.Sprint(value)
	}
}

// libraryFields returns the names and values of a line of a library. A name that means something
// else in lines of the host has a prefix.
func libraryFields(pairs []any) []any {
	fields := make([]any, len(pairs))
	copy(fields, pairs)
	for i := 0; i < len(fields); i += 2 {
		if name, ok := fields[i].(string); ok && events.IsLogField(name) {
			fields[i] = "library." + name
		}
	}
	return fields
}
