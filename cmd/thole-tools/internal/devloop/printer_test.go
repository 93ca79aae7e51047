package devloop

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
)

var toneNames = map[tone]string{good: "good: ", wait: "wait: ", bad: "bad: ", faint: "faint: "}

// expectLines compares lines with "label: tone: text"; the tone "plain" is left out.
func expectLines(t *testing.T, got []line, want ...string) {
	t.Helper()
	var texts []string
	for _, l := range got {
		texts = append(texts, l.label+": "+toneNames[l.tone]+l.text)
	}
	if !slices.Equal(texts, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(texts, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestDescribeEvent(t *testing.T) {
	revision := events.Revision{Plugin: "p", Number: 2, Version: "0.1.0", Digest: "0123456789abcdef"}
	unversioned := revision
	unversioned.Version = ""
	running := &events.Revision{Plugin: "p", Number: 1, Digest: "fedcba9876543210"}
	run := events.Run{Plugin: "p", Controller: "c", Object: "default/a", Revision: 2}
	for name, c := range map[string]struct {
		event events.Event
		want  []string
	}{
		"reconciled": {
			events.RunEnded{Run: run, Result: "success", Duration: 1500 * time.Millisecond, Writes: 2},
			[]string{"reconcile: default/a: success, 2 writes, 1.5 s"},
		},
		"nothing to write, again later": {
			events.RunEnded{Run: run, Result: "requeue_after", Duration: 212 * time.Microsecond, Next: 30 * time.Second},
			[]string{"reconcile: faint: default/a: requeue after, nothing to write, 1 ms, again in 30 s"},
		},
		"failed": {
			events.RunEnded{
				Run: run, Result: "error", Duration: 12 * time.Millisecond, Writes: 1, Attempt: 3, Next: 90 * time.Second,
				Failure: events.Failure{Class: abi.ClassRetry, Reason: "NoAnswer", Message: "it is\n  away"},
			},
			[]string{"reconcile: bad: default/a: failed (retry), 1 write, 12 ms, attempt 3, again in 1m30s; NoAnswer: it is away"},
		},
		"waiting": {
			events.RunEnded{Run: run, Result: "waiting", Duration: 12 * time.Millisecond, Writes: 1, Failure: events.Failure{Class: abi.ClassWaiting, Reason: "PodTerminating"}},
			[]string{"reconcile: wait: default/a: waiting, 1 write, 12 ms; PodTerminating"},
		},
		"scan that has found nothing": {events.TurnEnded{What: "scan", Run: run}, nil},
		"scan": {
			events.TurnEnded{What: "scan", Run: events.Run{Object: "scan/due"}, Duration: 3 * time.Millisecond, Objects: 2, Ignored: 1},
			[]string{"scan: scan/due: 2 objects, 3 ms; 1 that are not followed"},
		},
		"scan that failed": {
			events.TurnEnded{What: "scan", Run: events.Run{Object: "scan/due"}, Duration: 3 * time.Millisecond, Failure: events.Failure{Class: abi.ClassRetry, Reason: "NoSite", Message: "it is\n  away"}},
			[]string{"scan: bad: scan/due: failed (retry), 3 ms; NoSite: it is away"},
		},
		"guest's debug line": {
			events.GuestLogged{Run: run, Level: abi.LogDebug, Message: "greeted", Fields: []any{"name", "world", "guest.object", "x"}},
			[]string{"log: faint: default/a: greeted name=world guest.object=x"},
		},
		"guest's warning": {events.GuestLogged{Run: run, Level: abi.LogWarn, Message: "odd"}, []string{"log: wait: default/a: warn: odd"}},
		"guest's error":   {events.GuestLogged{Run: run, Level: abi.LogError, Message: "no"}, []string{"log: bad: default/a: error: no"}},
		"started":         {events.PluginStarted{Revision: revision}, []string{"runs: good: p revision 2, version 0.1.0, digest 0123456789ab"}},
		"unversioned":     {events.PluginStarted{Revision: unversioned}, []string{"runs: good: p revision 2, digest 0123456789ab"}},
		"restored":        {events.PluginRestored{Revision: unversioned}, []string{"runs: good: p revision 2, digest 0123456789ab, as before"}},
		"waits for a CRD": {
			events.PluginWaiting{Plugin: "p", Reason: "a/v1, Kind=B is not served"},
			[]string{"waits: wait: p: a/v1, Kind=B is not served"},
		},
		"new one waits": {
			events.PluginWaiting{Plugin: "p", Reason: "B is not served", Running: running},
			[]string{"waits: wait: p: B is not served; keeping revision 1, digest fedcba987654"},
		},
		"refused": {
			events.PluginRefused{Plugin: "p", Step: "verify", Err: errors.New("no\nexport")},
			[]string{"refused: bad: verify: no export"},
		},
		"new one refused": {
			events.PluginRefused{Plugin: "p", Step: "verify", Err: errors.New("no export"), Running: running},
			[]string{"refused: bad: verify: no export; keeping revision 1, digest fedcba987654"},
		},
		"refused after a rollback": {events.PluginRefused{Plugin: "p", Step: "run", Err: errors.New("x"), RolledBack: true}, nil},
		"rolled back": {
			events.PluginRolledBack{From: revision, To: *running, Reason: "3 of 3 runs failed"},
			[]string{"rollback: bad: to revision 1: 3 of 3 runs failed"},
		},
		"stopped":      {events.PluginStopped{Plugin: "p", Ran: true}, []string{"stopped: p"}},
		"never ran":    {events.PluginStopped{Plugin: "p", Removed: true}, nil},
		"host started": {events.HostStarted{}, nil},
	} {
		t.Run(name, func(t *testing.T) { expectLines(t, describeEvent(c.event), c.want...) })
	}
}

func TestPrinter(t *testing.T) {
	var out strings.Builder
	p := &printer{out: &out}
	p.say("log", bad, "red \x1b[31mtext\nnext\r")
	if got := out.String(); !strings.HasSuffix(got, "  log        red  [31mtext next \n") {
		t.Errorf("without colour: %q", got)
	}
	out.Reset()
	p.text("main.go:1:\tfirst\x1b\nsecond\n\n")
	if got := out.String(); got != "main.go:1:\tfirst \nsecond\n" {
		t.Errorf("output of others: %q", got)
	}
	out.Reset()
	p.colour = true
	p.say("log", bad, "text")
	if got := out.String(); !strings.HasPrefix(got, "\x1b[2m") || !strings.HasSuffix(got, "  log        \x1b[31mtext\x1b[0m\n") {
		t.Errorf("with colour: %q", got)
	}
	lost := false
	(&printer{out: closedOutput{}, lost: func() { lost = true }}).text("x")
	if !lost {
		t.Error("a closed output is not reported")
	}
}

type closedOutput struct{}

func (closedOutput) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{"/tmp/a-1/k": "/tmp/a-1/k", "/a b": "'/a b'", "/it's": `'/it'\''s'`} {
		if got := shellWord(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}
