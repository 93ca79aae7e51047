package devloop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/cmd/internal/words"
)

// Modules of the host's log.
const (
	guestModule    = "dispatch.guest"
	dispatchModule = "dispatch"
)

// clientModules log what client-go says: it calls an error what it tries
// again, and information what is its own affair.
var clientModules = []string{"client-go", "slog"}

// line is one line of the session: a label, and what there is to say.
type line struct {
	label, text string
	tone        tone
}

// interesting says whether a record is told at all.
func interesting(r *record) bool {
	switch {
	case slices.Contains(clientModules, r.module):
		return r.level >= hclog.Error
	case r.module == guestModule, r.text == words.Reconciled:
		return true
	case r.text == words.HostStarts, r.text == words.HostStopped:
		return false
	}
	return r.level >= hclog.Info
}

// tell is a record for people.
func tell(r *record) line {
	switch r.text {
	case words.Reconciled, words.ReconcileWaits, words.ReconcileFailed:
		return line{"reconcile", outcome(r), reconcileTone(r)}
	case words.PluginRuns:
		return line{"runs", runs(r), good}
	case words.PluginWaits:
		return line{"waits", r.field("plugin") + ": " + words.OneLine(r.field("reason")), wait}
	case words.NewWaits:
		return line{"waits", words.OneLine(r.field("reason")) + "; the last good one goes on: digest " + short(r.field("running")), wait}
	case words.PluginFails:
		return line{"refused", r.field("step") + ": " + words.OneLine(r.field("error")), bad}
	case words.NewRefused:
		return line{"refused", r.field("step") + ": " + words.OneLine(r.field("error")) + "; the last good one goes on: digest " + short(r.field("running")), bad}
	case words.RolledBack:
		return line{"rollback", fmt.Sprintf("to generation %d: %s", r.number("to"), words.OneLine(r.field("reason"))), bad}
	case words.PluginStopped:
		return line{"stopped", r.field("plugin"), plain}
	}
	if r.module == guestModule {
		return line{"log", said(r), toneOf(r.level, faint)}
	}
	return line{"host", r.text + details(r), toneOf(r.level, plain)}
}

func runs(r *record) string {
	version := ""
	if v := r.field("version"); v != "" {
		version = ", version " + v
	}
	return fmt.Sprintf("%s generation %d%s, digest %s", r.field("plugin"), r.number("generation"), version, short(r.field("digest")))
}

// short is as much of a digest as people compare.
func short(digest string) string { return digest[:min(12, len(digest))] }

func toneOf(level hclog.Level, otherwise tone) tone {
	switch {
	case level >= hclog.Error:
		return bad
	case level == hclog.Warn:
		return wait
	}
	return otherwise
}

func reconcileTone(r *record) tone {
	switch {
	case r.text == words.ReconcileFailed:
		return bad
	case r.text == words.ReconcileWaits:
		return wait
	case r.number("writes") == 0:
		return faint
	}
	return plain
}

// outcome says how a reconcile ended, and when the object's next one is.
func outcome(r *record) string {
	return words.Run{
		Object: strings.TrimPrefix(r.field("object"), "/"), Result: r.field("result"), Class: r.field("class"),
		Writes: r.number("writes"), Attempt: r.number("attempt"), Duration: r.field("duration"), Next: r.field("next"),
		Reason: r.field("reason"), Message: r.field("message"),
	}.Tell(r.text)
}

// ofEveryRun are the fields that dispatch adds to all that is logged of a run.
var ofEveryRun = []string{"plugin", "controller", "object", "generation", "reconcileID"}

// said is a line that the plugin logged.
func said(r *record) string {
	text := strings.TrimPrefix(r.field("object"), "/") + ": "
	if r.level >= hclog.Warn {
		text += r.level.String() + ": "
	}
	return text + r.text + details(r)
}

// details are the fields of a record, without those that only tell which run
// it was.
func details(r *record) string {
	var out strings.Builder
	for _, f := range r.fields {
		if !slices.Contains(ofEveryRun, f.name) || r.module != guestModule && f.name == "object" {
			fmt.Fprintf(&out, " %s=%v", f.name, f.value)
		}
	}
	return out.String()
}
