package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Where the columns begin.
const (
	labelWidth   = 15
	timeWidth    = 10
	subjectWidth = 17
)

// The terminal's codes of the tones.
var colours = map[tone]string{good: "\x1b[32m", wait: "\x1b[33m", bad: "\x1b[31m", quiet: "\x1b[2m"}

const (
	bold  = "\x1b[1m"
	reset = "\x1b[0m"
)

// printer writes the story. Only one goroutine may use it.
type printer struct {
	out    *os.File
	colour bool
	lost   bool // nobody reads any more
	open   bool // the line has only its label yet
}

// newPrinter writes in colour if out is a terminal that wants it.
func newPrinter(out *os.File, noColour bool) *printer {
	return &printer{out: out, colour: isTerminal(out) && !noColour}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *printer) write(text string) {
	if p.lost {
		return
	}
	_, err := p.out.WriteString(text)
	p.lost = err != nil
}

func (p *printer) paint(code, text string) string {
	if !p.colour || code == "" {
		return text
	}
	return code + text + reset
}

// title is the first line.
func (p *printer) title(text string) { p.write(p.paint(bold, text) + "\n") }

// begin writes the label of a step; [printer.end] says how the step went, on
// the same line. What comes in between starts a line of its own.
func (p *printer) begin(label string) {
	p.finish()
	p.write(fmt.Sprintf("  %-*s ", labelWidth, label))
	p.open = true
}

// end completes the line of the step: how it went, and what there is to know.
func (p *printer) end(how, what string) {
	p.open = false
	if what != "" {
		how = fmt.Sprintf("%-21s %s", how, p.paint(colours[quiet], what))
	}
	p.write(how + "\n")
}

// step is begin and end at once.
func (p *printer) step(label, what string) {
	p.begin(label)
	p.end(what, "")
}

// finish ends a line that a step has left open.
func (p *printer) finish() {
	if p.open {
		p.open = false
		p.write("\n")
	}
}

// line writes a line of the story, since is its time.
func (p *printer) line(since time.Duration, l line) {
	p.finish()
	at := p.paint(colours[quiet], fmt.Sprintf("%*s", timeWidth, fmt.Sprintf("%+.2f s", max(0, since.Seconds()))))
	p.write(fmt.Sprintf("%s  %-*s  %s\n", at, subjectWidth, l.subject, p.paint(colours[l.tone], l.text)))
}

// say writes text as it is, after an empty line.
func (p *printer) say(text string) {
	p.finish()
	p.write("\n" + text + "\n")
}

// commands writes lines for the user to copy.
func (p *printer) commands(lines []string) {
	p.write("    " + strings.Join(lines, "\n    ") + "\n")
}
