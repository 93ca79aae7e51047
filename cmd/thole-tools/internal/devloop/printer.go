package devloop

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/sanitize"
)

// line is one line of a session.
type line struct {
	label, text string
	tone        tone
}

// tone is how a line is meant; it decides the colour.
type tone int

const (
	plain tone = iota
	good
	wait
	bad
	faint
)

// colours are the terminal's codes of the tones.
var colours = map[tone]string{good: "\x1b[32m", wait: "\x1b[33m", bad: "\x1b[31m", faint: "\x1b[2m"}

const (
	resetColour = "\x1b[0m"
	labelWidth  = 9
)

// printer writes the lines of a session. It must not be used concurrently.
type printer struct {
	out    io.Writer
	colour bool
	lost   func() // called when the output was closed
}

func (p *printer) lines(all []line) {
	for _, l := range all {
		at := p.paint(faint, time.Now().Format(time.TimeOnly))
		p.write(at + "  " + fmt.Sprintf("%-*s", labelWidth, l.label) + "  " + p.paint(l.tone, sanitize.Line(l.text)) + "\n")
	}
}

func (p *printer) say(label string, t tone, format string, args ...any) {
	p.lines([]line{{label, fmt.Sprintf(format, args...), t}})
}

// text writes the output of others, without control characters. It begins at the
// first column, where editors look for positions in files.
func (p *printer) text(text string) { p.write(sanitize.Lines(strings.TrimSpace(text)) + "\n") }

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
	return code + text + resetColour
}

// describeEvent describes an event of the host, in no line if it is not shown.
func describeEvent(event events.Event) []line {
	one := func(label string, t tone, format string, args ...any) []line {
		return []line{{label, fmt.Sprintf(format, args...), t}}
	}
	switch e := event.(type) {
	case events.PluginStarted:
		return one("runs", good, "%s", describeRevision(e.Revision))
	case events.PluginRestored:
		return one("runs", good, "%s, as before", describeRevision(e.Revision))
	case events.PluginWaiting:
		return one("waits", wait, "%s: %s%s", e.Plugin, oneLine(e.Reason), keepingRevision(e.Running))
	case events.PluginRefused:
		if !e.RolledBack {
			return one("refused", bad, "%s: %s%s%s", e.Step, oneLine(e.Err.Error()), printed(e.Printed), keepingRevision(e.Running))
		}
	case events.PluginRolledBack:
		return one("rollback", bad, "to revision %d: %s", e.To.Number, oneLine(e.Reason))
	case events.PluginStopped:
		if e.Ran {
			return one("stopped", plain, "%s", e.Plugin)
		}
	case events.PluginQuarantined:
		return one("breaker", bad, "open, objects that fail wait while single runs probe %s: %s", e.Plugin, oneLine(e.Reason))
	case events.PluginRecovered:
		return one("breaker", good, "closed, %s runs as before", e.Plugin)
	case events.FinalizersLeft:
		return one("left", wait, "finalizers that no controller removes any more; to release them: %s", strings.Join(e.Commands, " and "))
	case events.RunEnded:
		return []line{{"reconcile", describeRun(e), runTone(e)}}
	case events.TurnEnded:
		return describeTurn(e)
	case events.GuestLogged:
		return []line{describeGuestLine(e)}
	}
	return nil
}

func describeRevision(r events.Revision) string {
	version := ""
	if r.Version != "" {
		version = ", version " + r.Version
	}
	return fmt.Sprintf("%s revision %d%s, digest %s", r.Plugin, r.Number, version, runner.ShortDigest(r.Digest))
}

func keepingRevision(running *events.Revision) string {
	if running == nil {
		return ""
	}
	return fmt.Sprintf("; keeping revision %d, digest %s", running.Number, runner.ShortDigest(running.Digest))
}

// describeRun describes how a run ended, and when the object runs again.
func describeRun(e events.RunEnded) string {
	result := strings.ReplaceAll(e.Result, "_", " ")
	switch e.Failure.Class {
	case abi.ClassNone:
	case abi.ClassWaiting:
		result = "waiting"
	default:
		result = "failed (" + string(e.Failure.Class) + ")"
	}
	writes := fmt.Sprintf("%d writes", e.Writes)
	switch e.Writes {
	case 0:
		writes = "nothing to write"
	case 1:
		writes = "1 write"
	}
	parts := []string{e.Object + ": " + result, writes, shortDuration(e.Duration)}
	if e.Attempt > 0 {
		parts = append(parts, fmt.Sprintf("attempt %d", e.Attempt))
	}
	if e.Next > 0 {
		parts = append(parts, "again in "+shortDuration(e.Next))
	}
	text := strings.Join(parts, ", ")
	if e.Failure.Reason != "" {
		text += "; " + e.Failure.Reason
		if message := oneLine(e.Failure.Message); message != "" {
			text += ": " + message
		}
	}
	return text + printed(e.Failure.Printed)
}

// describeTurn describes a call for no object, unless it has found nothing: it may be made each second.
func describeTurn(e events.TurnEnded) []line {
	switch {
	case e.Failure.Class != abi.ClassNone:
		text := fmt.Sprintf("%s: failed (%s), %s; %s: %s", e.Object, e.Failure.Class, shortDuration(e.Duration), e.Failure.Reason, oneLine(e.Failure.Message))
		return []line{{e.What, text + printed(e.Failure.Printed), bad}}
	case e.Objects+e.Ignored == 0:
		return nil
	}
	text := fmt.Sprintf("%s: %d objects, %s", e.Object, e.Objects, shortDuration(e.Duration))
	if e.Ignored > 0 {
		text += fmt.Sprintf("; %d that are not followed", e.Ignored)
	}
	return []line{{e.What, text, plain}}
}

// printed describes what the guest printed as it failed.
func printed(text string) string {
	if text == "" {
		return ""
	}
	return "; it printed: " + oneLine(text)
}

func runTone(e events.RunEnded) tone {
	switch {
	case e.Failure.Class == abi.ClassWaiting:
		return wait
	case e.Failure.Class != abi.ClassNone:
		return bad
	case e.Writes == 0:
		return faint
	}
	return plain
}

func describeGuestLine(e events.GuestLogged) line {
	level, t := "", faint
	switch {
	case e.Level >= abi.LogError:
		level, t = "error: ", bad
	case e.Level == abi.LogWarn:
		level, t = "warn: ", wait
	}
	return line{"log", e.Object + ": " + level + e.Message + describeFields(e.Fields), t}
}

// describeLog describes a line that the host logged beside its events.
func describeLog(l logLine) []line {
	t := plain
	switch {
	case l.level >= hclog.Error:
		t = bad
	case l.level == hclog.Warn:
		t = wait
	}
	return []line{{"host", l.message + describeFields(l.fields), t}}
}

func describeFields(fields []any) string {
	var out strings.Builder
	for i := 0; i+1 < len(fields); i += 2 {
		fmt.Fprintf(&out, " %v=%v", fields[i], fields[i+1])
	}
	return out.String()
}

// shortDuration is as precise as people need it.
func shortDuration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// oneLine replaces line ends and repeated spaces by single spaces.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// shellWord is a text as a shell takes it for one word.
func shellWord(s string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%:,"
	if strings.Trim(s, safe) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
