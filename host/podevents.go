package host

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/internal/printable"
)

// podEvents tells what happens to plugins by Events on the pod that the host
// runs in: `kubectl describe pod` shows them. Outside of a pod it tells
// nothing. Its methods may be called concurrently and do not wait.
type podEvents struct {
	*broadcast                         // nil outside of a pod
	pod        *corev1.ObjectReference // with its uid, without which kubectl does not show them
}

// Reasons of Events on the pod.
const (
	reasonRuns        = "PluginRuns"        // Normal: it has started, or was swapped
	reasonRefused     = "PluginRefused"     // its file or policy cannot be used
	reasonWaits       = "PluginWaits"       // for a CRD, a right, the API server
	reasonRolledBack  = "PluginRolledBack"  // the new generation failed more than the one before
	reasonQuarantined = "PluginQuarantined" // its circuit breaker has opened
	reasonRecovered   = "PluginRecovered"   // Normal: its circuit breaker has closed
	reasonRemoved     = "PluginRemoved"     // Normal: its file is gone
	reasonFinalizers  = "FinalizersRemain"  // on objects that nobody cleans up any more
)

// Events on the pod are few, so that one of a plugin must not be lost for what
// others have to tell: see RATIONALE.md. They do not wait behind those about
// objects.
const (
	podEventsPerSecond = 10
	podEventsAtOnce    = 100
	toldApart          = 25       // Events of one type and reason in 10 minutes; further ones share one
	tellsAtOnce        = 50       // of one plugin
	tellsPerSecond     = 1. / 30. // of one plugin, after that
)

// newPodEvents starts them; pod is nil outside of a pod.
func newPodEvents(cluster *rest.Config, pod *corev1.ObjectReference) (*podEvents, error) {
	if pod == nil {
		return &podEvents{}, nil
	}
	sink, err := newSink(cluster, podEventsPerSecond, podEventsAtOnce)
	if err != nil {
		return nil, err
	}
	return startPodEvents(sink, pod), nil
}

func startPodEvents(sink record.EventSink, pod *corev1.ObjectReference) *podEvents {
	return &podEvents{pod: pod, broadcast: startBroadcast(sink, record.CorrelatorOptions{
		MaxEvents:   toldApart,
		MessageFunc: func(e *corev1.Event) string { return combined + e.Message },
		BurstSize:   tellsAtOnce,
		QPS:         tellsPerSecond,
		SpamKeyFunc: func(e *corev1.Event) string { return e.Type + " " + pluginOf(e.Message) },
	})}
}

// combined is before the last message of an Event that many share.
const combined = "more than can be told apart, /plugins and the log have all; the last: "

// pluginOf returns the plugin that a message is about, which begins with it.
// An Event that many share has nothing else that tells.
func pluginOf(message string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(message, combined), prefix), `"`)
	return name
}

// prefix is before the plugin's name.
const prefix = `plugin "`

// stop sends what is waiting, for a short time.
func (p *podEvents) stop() {
	if p.broadcast != nil {
		p.broadcast.stop()
	}
}

// PluginStarted tells that a generation has started or taken the place of
// another one.
func (p *podEvents) PluginStarted(g *catalog.Generation) {
	p.tell(g.Plugin, corev1.EventTypeNormal, reasonRuns, "runs: ", generationName(g), "")
}

// PluginFailed tells that a module or its policy cannot be used, with the step
// of the load that found it. last goes on, nil if nothing does. That it was
// rolled back is told by [podEvents.PluginRolledBack].
func (p *podEvents) PluginFailed(plugin, step string, err error, last *catalog.Generation) {
	if step == catalog.StepProbation {
		return
	}
	stays := "; it does not run"
	if last != nil {
		stays = "; goes on: " + generationName(last)
	}
	p.tell(plugin, corev1.EventTypeWarning, reasonRefused, "is refused at step "+step+": ", strings.TrimPrefix(err.Error(), fmt.Sprintf("plugin %q: ", plugin)), stays)
}

// PluginWaits tells what a module waits for before it can run.
func (p *podEvents) PluginWaits(plugin, reason string) {
	p.tell(plugin, corev1.EventTypeWarning, reasonWaits, "waits: ", reason, "")
}

// PluginRolledBack tells that a generation was given up for the one before.
// reason is in the host's words: the guest's may hold what it has read, and
// whoever may read Events here may not read that.
func (p *podEvents) PluginRolledBack(from, to *catalog.Generation, reason string) {
	p.tell(from.Plugin, corev1.EventTypeWarning, reasonRolledBack, "is rolled back from "+generationName(from)+": ", reason,
		"; runs again: "+generationName(to))
}

// PluginQuarantined tells that a plugin's circuit breaker has opened; reason
// as in [podEvents.PluginRolledBack].
func (p *podEvents) PluginQuarantined(plugin, reason string) {
	p.tell(plugin, corev1.EventTypeWarning, reasonQuarantined, "fails, its objects wait while single runs probe it: ", reason, "")
}

// PluginRecovered tells that a plugin's circuit breaker has closed.
func (p *podEvents) PluginRecovered(plugin string) {
	p.tell(plugin, corev1.EventTypeNormal, reasonRecovered, "runs as before", "", "")
}

// PluginRemoved tells that a plugin's file is gone and nothing of it runs.
func (p *podEvents) PluginRemoved(plugin string) {
	p.tell(plugin, corev1.EventTypeNormal, reasonRemoved, "is removed", "", "")
}

// Remains tells of finalizers that nobody takes off any more, if there are any.
func (p *podEvents) Remains(r remains) {
	if len(r.left) > 0 {
		p.tell(r.plugin, corev1.EventTypeWarning, reasonFinalizers, r.summary(), r.details(), r.remedy())
	}
}

// tell sends an Event. After the plugin's name its message is head, middle and
// tail; of what is too long the middle is cut, so that what to do stays.
func (p *podEvents) tell(plugin, eventType, reason, head, middle, tail string) {
	if p.pod != nil {
		p.recorder.Event(p.pod, eventType, reason, message(prefix+plugin+`" `+head, middle, tail))
	}
}

// messageLimit is the API's, in bytes, less what may come before a message.
const messageLimit = 1024 - len(combined)

// message joins the parts in one line of what can be printed: a text of a
// guest must not steer the reader's terminal.
func message(head, middle, tail string) string {
	head, middle, tail = printable.Line(head), printable.Line(middle), printable.Line(tail)
	head = cut(head, messageLimit/4)
	tail = cut(tail, messageLimit-len(head))
	return head + cut(middle, messageLimit-len(head)-len(tail)) + tail
}

// cut shortens s to limit bytes of valid UTF-8, with an ellipsis if that fits.
func cut(s string, limit int) string {
	const ellipsis = "..."
	switch {
	case len(s) <= limit:
		return s
	case limit <= len(ellipsis):
		return ""
	}
	return strings.ToValidUTF8(s[:limit-len(ellipsis)], "") + ellipsis
}

// generationName names a generation for people: which, and of which file.
func generationName(g *catalog.Generation) string {
	return fmt.Sprintf("generation %d, version %s, sha256:%s", g.Number, g.Manifest.Version, g.Digest[:min(len(g.Digest), 12)])
}
