package tholetest

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"sync"
)

// Log is what a process has said. The process itself writes the file: what it
// said before something else that a test has seen is there, and not on its way
// through a pipe.
type Log struct {
	path string

	mu    sync.Mutex
	read  int64 // so many bytes are in lines
	lines []Line
}

// Line is a line of a log by its fields; the message is @message.
type Line map[string]any

// Text returns the log as it is.
func (l *Log) Text() string {
	text, err := os.ReadFile(l.path)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Tail returns the last n lines as they are.
func (l *Log) Tail(n int) string {
	lines := strings.Split(strings.TrimSpace(l.Text()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Mark returns how many lines there are: where to look from for what comes.
func (l *Log) Mark() int { return len(l.Since(0)) }

// Since returns the lines after a mark.
func (l *Log) Since(mark int) []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parse(l.unread())
	return l.lines[mark:len(l.lines):len(l.lines)]
}

// unread returns what was written since, up to the end of a line.
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
	text := make([]byte, info.Size()-l.read)
	n, _ := file.ReadAt(text, l.read)
	return text[:bytes.LastIndexByte(text[:n], '\n')+1]
}

// parse takes lines over; those that are no JSON, as of a panic, are left out.
func (l *Log) parse(text []byte) {
	l.read += int64(len(text))
	for line := range bytes.Lines(text) {
		var fields Line
		if json.Unmarshal(line, &fields) == nil {
			l.lines = append(l.lines, fields)
		}
	}
}

// With returns the lines with a message that have all the fields: name and
// value, name and value.
func (l *Log) With(message string, fields ...string) (lines []Line) {
	return With(l.Since(0), message, fields...)
}

// With returns those of the lines with a message that have all the fields.
func With(lines []Line, message string, fields ...string) (some []Line) {
	for _, line := range lines {
		if line["@message"] == message && line.has(fields) {
			some = append(some, line)
		}
	}
	return some
}

// Errors returns the lines of level error, without those of client-go: it
// calls an error what it tries again, as a request to a server that has too
// much to do.
func (l *Log) Errors() (lines []Line) {
	for _, line := range l.Since(0) {
		if line["@level"] == "error" && line["@module"] != "thole.client-go" {
			lines = append(lines, line)
		}
	}
	return lines
}

func (l Line) has(fields []string) bool {
	for i := 0; i < len(fields); i += 2 {
		if l[fields[i]] != fields[i+1] {
			return false
		}
	}
	return true
}

// String returns a field, "" if it is another thing or not there.
func (l Line) String(field string) string {
	s, _ := l[field].(string)
	return s
}
