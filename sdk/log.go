package sdk

import (
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// Log writes lines to the host's log, which adds plugin, controller, object and
// time. A line has a message and pairs of a name and a value:
//
//	r.Log.Info("pod replaced", "pod", name, "reason", why)
type Log struct{ host guest.Host }

// Debug writes a line that helps to follow a run.
func (l Log) Debug(message string, pairs ...any) { l.write(abi.LogDebug, message, pairs) }

// Info writes a line about something that happens rarely.
func (l Log) Info(message string, pairs ...any) { l.write(abi.LogInfo, message, pairs) }

// Warn writes a line about something that should be looked into.
func (l Log) Warn(message string, pairs ...any) { l.write(abi.LogWarn, message, pairs) }

// Error writes a line about something that must be looked into. The error that ends
// a run is logged by the host.
func (l Log) Error(message string, pairs ...any) { l.write(abi.LogError, message, pairs) }

// write writes a line as one JSON object: the message, then the pairs.
func (l Log) write(level int32, message string, pairs []any) {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("message").String(message)
		for i := 0; i < len(pairs); i += 2 {
			name, ok := pairs[i].(string)
			if !ok || i+1 == len(pairs) {
				w.Name("extra")
				writeValue(w, pairs[i])
				i-- // the next two may be a pair again
				continue
			}
			w.Name(name)
			writeValue(w, pairs[i+1])
		}
	})
	l.host.Log(level, w.Bytes())
}

// writeValue writes a value without encoding/json if its type is a common one. Errors and
// values with a String method are written as text.
func writeValue(w *rawjson.Writer, v any) {
	switch v := v.(type) {
	case nil:
		w.Raw(nil)
	case string:
		w.String(v)
	case bool:
		w.Bool(v)
	case int:
		w.Int(int64(v))
	case int32:
		w.Int(int64(v))
	case int64:
		w.Int(v)
	case time.Time:
		w.String(v.Format(time.RFC3339Nano))
	case error:
		w.String(v.Error())
	case interface{ String() string }:
		w.String(v.String())
	default:
		writeEncoded(w, v)
	}
}

// writeEncoded writes a value by its codec. An error is logged in place of the value, because
// a log line must not fail a run.
func writeEncoded(w *rawjson.Writer, v any) {
	data, err := encode(v)
	if err != nil {
		w.String("(" + err.Error() + ")")
		return
	}
	w.Raw(data)
}
