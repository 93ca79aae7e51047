// Package logtest collects what is logged, for tests. They look at levels and
// fields: the texts of messages are for people and may change.
package logtest

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/internal/await"
)

// Log has the lines that were logged and not yet read by the test.
type Log struct {
	Logger hclog.Logger
	lines  chan Line
}

// Line is a line of a log.
type Line struct {
	Level   hclog.Level
	Message string
	Fields  map[string]any
}

// New returns an empty log of that level. More than a thousand unread lines block
// the logger.
func New(level hclog.Level) *Log {
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: level, Output: io.Discard, IndependentLevels: true})
	l := &Log{Logger: logger, lines: make(chan Line, 1000)}
	logger.RegisterSink(sink{l, level})
	return l
}

type sink struct {
	log   *Log
	level hclog.Level
}

// Accept implements [hclog.SinkAdapter].
func (s sink) Accept(_ string, level hclog.Level, message string, args ...any) {
	if level < s.level {
		return
	}
	line := Line{level, message, map[string]any{}}
	for i := 0; i+1 < len(args); i += 2 {
		line.Fields[fmt.Sprint(args[i])] = args[i+1]
	}
	s.log.lines <- line
}

// Next returns the next line, which may still have to be logged.
func (l *Log) Next(tb testing.TB) Line {
	tb.Helper()
	select {
	case line := <-l.lines:
		return line
	case <-time.After(await.Limit):
		tb.Fatalf("nothing was logged within %s", await.Limit)
		return Line{}
	}
}

// All returns the lines that were logged so far.
func (l *Log) All() (all []Line) {
	for len(l.lines) > 0 {
		all = append(all, <-l.lines)
	}
	return all
}

// ExpectNone fails the test if a line was logged.
func (l *Log) ExpectNone(tb testing.TB) {
	tb.Helper()
	if all := l.All(); len(all) > 0 {
		tb.Errorf("logged: %v", all)
	}
}

// ExpectNext fails the test unless the next line has that level and a field with
// that value. An error matches its text.
func (l *Log) ExpectNext(tb testing.TB, level hclog.Level, field string, value any) {
	tb.Helper()
	if line := l.Next(tb); line.Level != level || fmt.Sprint(line.Fields[field]) != fmt.Sprint(value) {
		tb.Errorf("logged: %v, want level %s and %s=%v", line, level, field, value)
	}
}

func (l Line) String() string { return fmt.Sprintf("%s: %s %v", l.Level, l.Message, l.Fields) }
