package tholetest

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"sync"
)

// Log is the log of a process. The process itself writes the file, so a line that
// it logged before something that a test has observed is in the file by then. With
// a pipe it could still be on its way.
//
// Tests select lines by their fields: "event", which is the name of a type of
// host/events, and those beside it. Messages are for people, and nothing here
// selects lines by them.
type Log struct {
	path string

	mu     sync.Mutex
	offset int64 // in the file, of what is not in lines yet
	lines  Lines
}

// Line is a line of the log: the values by their fields.
type Line map[string]any

// Lines are lines of the log, in order.
type Lines []Line

// text returns the content of the file.
func (l *Log) text() string {
	text, err := os.ReadFile(l.path)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Tail returns the last n lines as they are in the file, for people.
func (l *Log) Tail(n int) string {
	lines := strings.Split(strings.TrimSpace(l.text()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Mark returns the number of lines so far, for [Log.Since].
func (l *Log) Mark() int { return len(l.Since(0)) }

// Since returns the lines after a mark.
func (l *Log) Since(mark int) Lines {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parse(l.unread())
	return l.lines[mark:len(l.lines):len(l.lines)]
}

// unread returns the complete lines that were written since the last call.
func (l *Log) unread() []byte {
	file, err := os.Open(l.path)
	if err != nil {
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	text := make([]byte, info.Size()-l.offset)
	n, _ := file.ReadAt(text, l.offset)
	return text[:bytes.LastIndexByte(text[:n], '\n')+1]
}

// parse appends the lines of a text. Lines that are not JSON, such as those of a
// panic, are skipped.
func (l *Log) parse(text []byte) {
	l.offset += int64(len(text))
	for line := range bytes.Lines(text) {
		var fields Line
		if json.Unmarshal(line, &fields) == nil {
			l.lines = append(l.lines, fields)
		}
	}
}

// Events returns the lines so far of an event, see [Lines.Events].
func (l *Log) Events(event string, fields ...string) Lines {
	return l.Since(0).Events(event, fields...)
}

// Errors returns the lines of level error except those of client-go, which logs
// requests as errors that it then repeats, for instance to an overloaded server.
func (l *Log) Errors() Lines {
	return l.Since(0).With("@level", "error").Where(func(line Line) bool { return line["@module"] != "thole.client-go" })
}

// Events returns the lines of an event that have all the fields, given as names
// and values in turn.
func (l Lines) Events(event string, fields ...string) Lines {
	return l.With("event", event).With(fields...)
}

// With returns the lines that have all the fields, given as names and values in
// turn.
func (l Lines) With(fields ...string) Lines {
	return l.Where(func(line Line) bool {
		for i := 0; i < len(fields); i += 2 {
			if line[fields[i]] != fields[i+1] {
				return false
			}
		}
		return true
	})
}

// Where returns the lines for which keep returns true.
func (l Lines) Where(keep func(Line) bool) (kept Lines) {
	for _, line := range l {
		if keep(line) {
			kept = append(kept, line)
		}
	}
	return kept
}

// Reconciled returns the ends of runs that neither failed nor have to wait, with
// all the fields.
func (l Lines) Reconciled(fields ...string) Lines {
	return l.Events("RunEnded", fields...).Where(func(line Line) bool { return line["reason"] == nil })
}

// FailedRuns returns the ends of runs that failed, with all the fields.
func (l Lines) FailedRuns(fields ...string) Lines {
	return l.Events("RunEnded", fields...).Where(func(line Line) bool { return line["class"] != nil })
}

// String returns the value of a field, "" if it is missing or not a string.
func (l Line) String(field string) string {
	s, _ := l[field].(string)
	return s
}
