package sandbox

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/thole-dev/thole/host/sandbox/meter"
)

const (
	trapPrefix  = "wasm error: "
	startFailed = " failed: "
	stackHeader = "\nwasm stack trace:\n\t"
	goTrace     = "\n\nGo runtime stack trace:"
)

// trapOf is the engine's name of the trap.
func trapOf(err error) string {
	text, _, _ := strings.Cut(err.Error(), stackHeader)
	if _, trap, ok := strings.Cut(text, trapPrefix); ok {
		return trap
	}
	_, trap, ok := strings.Cut(text, startFailed) // a stack overflow has no prefix of its own
	if ok {
		return trap
	}
	return text
}

// stackOf names the functions that were active, innermost first. Standard Go
// keeps its stacks to itself and prints them; of other guests the engine knows.
func stackOf(err error, stderr []byte) []string {
	if frames := goroutine(string(stderr)); frames != nil {
		return frames
	}
	_, trace, ok := strings.Cut(err.Error(), stackHeader)
	if !ok {
		return nil
	}
	trace, _, _ = strings.Cut(trace, goTrace)
	frames := strings.Split(trace, "\n\t")
	for i, frame := range frames {
		frame = strings.TrimPrefix(strings.TrimSpace(frame), ".")
		frames[i] = frameTypes.ReplaceAllString(frame, "")
	}
	return slices.DeleteFunc(frames, meter.Added)
}

const mostFrames = 30 // as the engine has it

// goroutine takes the functions out of the first trace in what standard Go
// prints when it panics: a line "main.run(0x1, ...)" for each, the place
// indented below.
func goroutine(stderr string) []string {
	_, trace, ok := strings.Cut(stderr, "\ngoroutine ")
	if !ok {
		return nil
	}
	trace, _, _ = strings.Cut(trace, "\n\n")
	var frames []string
	for _, line := range strings.Split(trace, "\n")[1:] {
		if line == "" || line[0] == '\t' || len(frames) == mostFrames {
			continue
		}
		if end := strings.LastIndexByte(line, '('); end > 0 {
			line = line[:end]
		}
		frames = append(frames, line)
	}
	return frames
}

// frameTypes is the signature behind a function's name, as in
// "main.(*worker).run(i32,i64) i32".
var frameTypes = regexp.MustCompile(`\([a-z0-9,]*\)( [(),a-z0-9]+)?$`)

// openings begin the line in which a runtime tells why it gives up.
var openings = [][]byte{[]byte("panic: "), []byte("fatal error: "), []byte("runtime: goroutine stack exceeds"), []byte("runtime: out of memory")}

// lastWords is the line with which the guest's runtime gave up, from stderr
// (standard Go) or stdout (TinyGo), bounded.
func (f *Fault) lastWords() string {
	for _, written := range [][]byte{f.Stderr, f.Stdout} {
		for line := range bytes.Lines(written) {
			for _, opening := range openings {
				if bytes.HasPrefix(line, opening) {
					return bounded(line)
				}
			}
		}
	}
	return ""
}

const mostWords = 512 // bytes

func bounded(line []byte) string {
	line = bytes.TrimSpace(line[:min(len(line), mostWords)])
	return strings.ToValidUTF8(string(line), "\uFFFD")
}
