package dispatch

import (
	"fmt"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/sanitize"
)

// Log implements the host function log (SPEC.md, "log"), within the allowance of
// the plugin.
func (g *guestCall) Log(level int32, message []byte) {
	if !g.mayLog(sanitize.LogBytes(message)) {
		return
	}
	text, fields := guestLine(message)
	g.c.Events.Observe(events.GuestLogged{Run: g.identity(), Level: level, Message: text, Fields: fields})
}

// warn logs why a call of the guest failed. It counts as a line of the guest,
// which may call ten thousand times in one run.
func (g *guestCall) warn(text string, fields ...any) {
	if g.mayLog(sanitize.LogBytes(fmt.Sprint(fields...))) {
		g.logger().Warn(text, fields...)
	}
}

// mayLog takes one line with texts of that many bytes from the allowance of the
// plugin.
func (g *guestCall) mayLog(bytes int) bool {
	if g.c.LogLines == nil || g.c.LogLines.Allow(bytes) {
		return true
	}
	g.c.Metrics.Dropped()
	return false
}

// mute reports whether the end of a run is not to be logged: runs that fail or wait
// can be as many, and say as much, as the plugin likes.
func (g *guestCall) mute(f events.Failure) bool {
	return f.Class != abi.ClassNone && !g.mayLog(sanitize.LogBytes(f.Message)+sanitize.LogBytes(fmt.Sprint(f.Stack)))
}

// guestLine reads the JSON object that a guest logs; anything else is taken as
// text. Message and field names are made one printable line each; the values are
// quoted by the logger.
func guestLine(message []byte) (text string, fields []any) {
	members, err := rawjson.Members(message)
	if err != nil {
		return sanitize.Line(string(message)), nil
	}
	for _, m := range members {
		value := scalar(m.Value)
		if m.Name == "message" {
			text = sanitize.Line(value)
			continue
		}
		fields = append(fields, guestField(sanitize.Line(m.Name)), value)
	}
	return text, fields
}

// guestField prefixes the name of a field that the host sets itself, so that a
// guest cannot forge it.
func guestField(name string) string {
	if events.IsLogField(name) {
		return "guest." + name
	}
	return name
}

// scalar returns the content of a JSON string, and the text of any other value.
func scalar(value []byte) string {
	r := rawjson.NewReader(value)
	if r.Kind() != '"' {
		return string(value)
	}
	return r.String()
}
