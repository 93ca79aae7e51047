package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole/cmd/internal/words"
)

// record is one line of the host's log.
type record struct {
	Level  string `json:"@level"`
	Text   string `json:"@message"`
	Error  any    `json:"error"`
	Listen string `json:"listen"`
	Plugin string `json:"plugin"`
	words.Run

	// Of a plugin.
	Version    string `json:"version"`
	Generation int    `json:"generation"`
	Step       string `json:"step"`
}

const (
	levelWarn         = "warn"
	levelError        = "error"
	longestRecordLine = 1 << 20
)

// complaint says whether the host is not content.
func (r *record) complaint() bool { return r.Level == levelWarn || r.Level == levelError }

// String is the record for people, on one line.
func (r *record) String() string {
	parts := []string{r.Text, r.Object, r.Reason, r.Message}
	if r.Error != nil {
		parts = append(parts, fmt.Sprint(r.Error))
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return words.OneLine(strings.Join(parts, ": "))
}

// recordWriter splits what is written to it into records; lines that are none
// are left out, the log file has them.
type recordWriter struct {
	rest []byte
	each func(*record)
}

func (w *recordWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte{'\n'})
		if !found {
			break
		}
		w.rest = rest
		w.line(line)
	}
	if len(w.rest) > longestRecordLine {
		w.rest = nil
	}
	return len(p), nil
}

func (w *recordWriter) line(line []byte) {
	var r record
	err := json.Unmarshal(line, &r)
	// Another message may have a field of ours in another type; the rest is
	// decoded.
	var mismatch *json.UnmarshalTypeError
	if (err == nil || errors.As(err, &mismatch)) && r.Text != "" {
		w.each(&r)
	}
}
