package devloop

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// tone is how a line is meant; it decides the colour.
type tone int

const (
	plain tone = iota
	good
	wait
	bad
	faint
)

// The terminal's codes of the tones.
var colours = map[tone]string{good: "\x1b[32m", wait: "\x1b[33m", bad: "\x1b[31m", faint: "\x1b[2m"}

const (
	reset      = "\x1b[0m"
	labelWidth = 9
)

// printer writes the session's lines. Only one goroutine may use it.
type printer struct {
	out    io.Writer
	colour bool
	lost   func() // called when nobody reads any more
}

// line writes one line.
func (p *printer) line(l line) {
	at := p.paint(faint, time.Now().Format(time.TimeOnly))
	p.write(at + "  " + fmt.Sprintf("%-*s", labelWidth, l.label) + "  " + p.paint(l.tone, clean(l.text)) + "\n")
}

// say is [printer.line] for a text that is put together here.
func (p *printer) say(label string, t tone, format string, args ...any) {
	p.line(line{label, fmt.Sprintf(format, args...), t})
}

// text writes lines of others as they are, as far as they are text: who reads
// them for places in files finds these at their beginning.
func (p *printer) text(text string) { p.write(clean(strings.TrimSpace(text)) + "\n") }

func (p *printer) write(text string) {
	if _, err := io.WriteString(p.out, text); err != nil {
		p.lost()
	}
}

func (p *printer) paint(t tone, text string) string {
	code := colours[t]
	if !p.colour || code == "" {
		return text
	}
	return code + text + reset
}

// clean takes the terminal's control sequences out of what others say.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}
