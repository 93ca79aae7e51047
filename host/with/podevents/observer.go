package podevents

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/kubeevents"
	"github.com/thole-dev/thole/host/sanitize"
)

// Reasons of Events on the pod.
const (
	reasonRuns        = "PluginRuns"        // Normal: a revision has started
	reasonRefused     = "PluginRefused"     // its file or policy cannot be used
	reasonWaits       = "PluginWaits"       // for a CRD, a right, the API server
	reasonRolledBack  = "PluginRolledBack"  // the new revision failed more than the one before
	reasonQuarantined = "PluginQuarantined" // its circuit breaker has opened
	reasonRecovered   = "PluginRecovered"   // Normal: its circuit breaker has closed
	reasonRemoved     = "PluginRemoved"     // Normal: its file is gone
	reasonNoRights    = "RightsMissing"     // it runs, and its service account or the host lacks rules
	reasonRights      = "RightsGranted"     // Normal: it has all of them again
	reasonFinalizers  = "FinalizersRemain"  // on objects that nobody cleans up any more
)

// Limits of Events on the pod. They are few, and no plugin may cause that those
// of another are lost: see RATIONALE.md.
const (
	eventsPerSecond    = 10
	eventsBurst        = 100
	separateEvents     = 25       // of one type and reason in 10 minutes; further ones are combined into one
	burstPerPlugin     = 50       // Events
	perPluginPerSecond = 1. / 30. // after the burst
)

// observer reports events as Kubernetes Events on a pod.
type observer struct {
	sender *kubeevents.Sender
	pod    *corev1.ObjectReference
}

var correlation = record.CorrelatorOptions{
	MaxEvents:   separateEvents,
	MessageFunc: func(e *corev1.Event) string { return combinedPrefix + e.Message },
	BurstSize:   burstPerPlugin,
	QPS:         perPluginPerSecond,
	SpamKeyFunc: spamKey,
}

// ownReasons are the reasons of Events that are not those of capabilities.
var ownReasons = []string{
	reasonRuns, reasonRefused, reasonWaits, reasonRolledBack, reasonQuarantined, reasonRecovered, reasonRemoved, reasonNoRights, reasonRights, reasonFinalizers,
}

// spamKey returns what has one allowance. Events of capabilities, which may come every minute, do not use
// up that of the others.
func spamKey(e *corev1.Event) string {
	key := e.Type + " " + pluginOf(e.Message)
	if !slices.Contains(ownReasons, e.Reason) {
		key += " " + e.Reason
	}
	return key
}

// combinedPrefix precedes the last message in an Event that stands for many.
const combinedPrefix = "too many to show each, see /plugins and the log; the last: "

const pluginPrefix = `plugin "`

// pluginOf returns the plugin that a message is about. The message is the only
// field that states it in an Event that stands for many.
func pluginOf(message string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(message, combinedPrefix), pluginPrefix), `"`)
	return name
}

// observe reports an event. Messages contain nothing that a guest has
// read: whoever may read Events here may not be allowed to read that.
func (p *observer) observe(event events.Event) {
	const normal, warning = corev1.EventTypeNormal, corev1.EventTypeWarning
	switch e := event.(type) {
	case events.PluginStarted:
		p.send(e.Plugin, normal, reasonRuns, "runs: ", describe(e.Revision), "")
	case events.PluginRestored:
		p.send(e.Plugin, normal, reasonRuns, "runs: ", describe(e.Revision), "")
	case events.PluginWaiting:
		p.send(e.Plugin, warning, reasonWaits, "waits: ", e.Reason, "")
	case events.PluginRefused:
		p.refused(e)
	case events.PluginRolledBack:
		p.send(e.From.Plugin, warning, reasonRolledBack, "is rolled back from "+describe(e.From)+": ", e.Reason, "; runs again: "+describe(e.To))
	case events.PluginQuarantined:
		p.send(e.Plugin, warning, reasonQuarantined, "fails, objects that fail wait while single runs probe it: ", e.Reason, "")
	case events.PluginRecovered:
		p.send(e.Plugin, normal, reasonRecovered, "runs as before", "", "")
	case events.PluginStopped:
		if e.Removed && e.Ran {
			p.send(e.Plugin, normal, reasonRemoved, "is removed", "", "")
		}
	case events.RightsMissing:
		p.send(e.Plugin, warning, reasonNoRights, "lacks rights: ", strings.Join(e.Missing, "; "), "")
	case events.RightsGranted:
		p.send(e.Plugin, normal, reasonRights, "has all rights that it needs", "", "")
	case events.FinalizersLeft:
		p.send(e.Plugin, warning, reasonFinalizers, leftSummary(e), leftDetails(e), leftRemedy(e))
	case events.Notice:
		p.notice(e)
	}
}

func (p *observer) refused(e events.PluginRefused) {
	if e.RolledBack {
		return // reported as that
	}
	running := "; it does not run"
	if e.Running != nil {
		running = "; keeps running: " + describe(*e.Running)
	}
	reason := strings.TrimPrefix(e.Err.Error(), fmt.Sprintf("plugin %q: ", e.Plugin))
	p.send(e.Plugin, corev1.EventTypeWarning, reasonRefused, "is refused at step "+e.Step+": ", reason, running)
}

func (p *observer) notice(e events.Notice) {
	eventType := corev1.EventTypeNormal
	if e.Warning {
		eventType = corev1.EventTypeWarning
	}
	if e.Reason != "" {
		p.send(e.Plugin, eventType, e.Reason, e.Summary, e.Details, "")
	}
}

// describe names a revision for people.
func describe(r events.Revision) string {
	return fmt.Sprintf("revision %d, version %s, sha256:%s", r.Number, r.Version, r.Digest[:min(len(r.Digest), 12)])
}

func leftSummary(e events.FinalizersLeft) string {
	objects := 0
	for _, l := range e.Left {
		objects += l.Objects
	}
	what := "is removed"
	if !e.Removed {
		what = "no longer has every controller that it had"
	}
	return fmt.Sprintf("%s; finalizers remain that keep %d objects from being deleted: ", what, objects)
}

func leftDetails(e events.FinalizersLeft) string {
	var all []string
	for _, l := range e.Left {
		text := fmt.Sprintf("%s on %d %s", l.Finalizer, l.Objects, l.KindName)
		if l.Deleting > 0 {
			text += fmt.Sprintf(", %d being deleted", l.Deleting)
		}
		examples := strings.Join(l.Examples, ", ")
		if l.Objects > len(l.Examples) {
			examples += ", ..."
		}
		all = append(all, text+" ("+examples+")")
	}
	return strings.Join(all, "; ")
}

// maxCommands is the most that fits into an Event besides the rest, in bytes: a
// command that is cut off would be useless.
const maxCommands = 500

// leftRemedy states both ways to get rid of the finalizers.
func leftRemedy(e events.FinalizersLeft) string {
	back := "put the plugin back"
	if !e.Removed {
		back = "put the former version back"
	}
	commands := strings.Join(e.Commands, " and ")
	if len(commands) > maxCommands {
		commands = "the log has the commands"
	}
	return "; " + back + " to clean up, or give that up: " + commands
}

// send sends an Event. Its message is the name of the plugin followed by head,
// middle and tail; if that is too long, middle is cut, so that tail, which states
// what to do, remains.
func (p *observer) send(plugin, eventType, reason, head, middle, tail string) {
	p.sender.Event(p.pod, eventType, reason, message(pluginPrefix+plugin+`" `+head, middle, tail))
}

// maxMessage is the API's limit in bytes, less what may precede a message.
const maxMessage = 1024 - len(combinedPrefix)

// message joins the parts in one line of printable text.
func message(head, middle, tail string) string {
	head = sanitize.Truncate(sanitize.Line(head), maxMessage/4)
	tail = sanitize.Truncate(sanitize.Line(tail), maxMessage-len(head))
	return head + sanitize.Truncate(sanitize.Line(middle), maxMessage-len(head)-len(tail)) + tail
}
