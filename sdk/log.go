package sdk

import (
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk/codec"
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
	line := codec.AppendString(codec.AppendName(nil, "message"), message)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok || i+1 == len(pairs) {
			line = appendLogged(codec.AppendName(line, "extra"), pairs[i])
			i-- // the next two may be a pair again
			continue
		}
		line = appendLogged(codec.AppendName(line, name), pairs[i+1])
	}
	l.host.Log(level, codec.CloseObject(line, 0))
}

// appendLogged appends a value without encoding/json if its type is a common one. Errors
// and values with a String method are appended as text. An error of a codec is logged in
// place of the value, because a log line must not fail a run.
func appendLogged(line []byte, v any) []byte {
	if text, ok := appendPlain(line, v); ok {
		return text
	}
	switch v := v.(type) {
	case Raw:
		if v == nil {
			return codec.AppendNull(line)
		}
	case int32:
		return codec.AppendInt(line, int64(v))
	case time.Time:
		return codec.AppendString(line, v.Format(time.RFC3339Nano))
	case error:
		return codec.AppendString(line, v.Error())
	case interface{ String() string }:
		return codec.AppendString(line, v.String())
	}
	data, err := encode(v)
	if err != nil {
		return codec.AppendString(line, "("+err.Error()+")")
	}
	return append(line, data...)
}
