package tholetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// names returns the field "name" of lines.
func names(lines Lines) string {
	var all []string
	for _, line := range lines {
		all = append(all, line.String("name"))
	}
	return strings.Join(all, " ")
}

func TestLogIsReadAsItGrows(t *testing.T) {
	l := &Log{path: filepath.Join(t.TempDir(), "log")}
	file, err := os.Create(l.path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write := func(text string) {
		t.Helper()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"name":"first"}` + "\npanic: not JSON\n" + `{"name":"second"}` + "\n" + `{"na`)
	mark := l.Mark()
	if mark != 2 {
		t.Errorf("%d lines, want 2", mark)
	}
	write(`me":"third"}` + "\n")
	if got := names(l.Since(mark)); got != "third" {
		t.Errorf("since the mark: %s", got)
	}
	if tail := l.Tail(1); tail != `{"name":"third"}` {
		t.Errorf("tail %s", tail)
	}
}

func TestLinesAreSelectedByTheirFields(t *testing.T) {
	lines := Lines{
		{"name": "1", "event": "RunEnded", "plugin": "a", "@level": "debug"},
		{"name": "2", "event": "RunEnded", "plugin": "b", "@level": "error", "class": "panic", "reason": "Panic"},
		{"name": "3", "event": "RunEnded", "plugin": "b", "@level": "info", "reason": "Waiting"},
		{"name": "4", "event": "PluginStarted", "plugin": "a", "revision": 1.0},
	}
	for want, got := range map[string]Lines{
		"1 4": lines.With("plugin", "a"),
		"1":   lines.Events("RunEnded", "plugin", "a"),
		"":    lines.Events("PluginStarted", "plugin", "a", "version", "1"),
		"2":   lines.FailedRuns("plugin", "b"),
		"1 ":  append(lines.Reconciled(), Line{}),
	} {
		if names(got) != want {
			t.Errorf("got %q, want %q", names(got), want)
		}
	}
}

func TestErrorsOfClientGoAreLeftOut(t *testing.T) {
	l := &Log{lines: Lines{
		{"name": "1", "@level": "error", "@module": "thole.client-go"},
		{"name": "2", "@level": "error", "@module": "thole.source"},
		{"name": "3", "@level": "warn", "@module": "thole.cache"},
	}}
	if got := names(l.Errors()); got != "2" {
		t.Errorf("got %q", got)
	}
}
