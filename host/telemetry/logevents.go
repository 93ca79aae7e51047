package telemetry

import (
	"cmp"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
)

// LogEvents returns an observer that writes every event to a log. The field
// "event" of a line is the name of the event's type; it and the other fields are
// meant for programs, the message is not. The loggers made of logger must have levels of
// their own ([hclog.LoggerOptions].IndependentLevels), since plugins can have others than the host.
func LogEvents(logger hclog.Logger) events.Observer {
	l := &eventLog{host: logger, plugins: logger.Named("catalog"), runs: logger.Named("dispatch"), guests: logger.Named("dispatch.guest")}
	l.runs.SetLevel(hclog.Trace)
	l.guests.SetLevel(hclog.Trace)
	return l
}

type eventLog struct {
	host, plugins hclog.Logger
	runs, guests  hclog.Logger // of every level: see logs
	levels        sync.Map     // hclog.Level by the name of the plugin, where it is not that of host
}

// logs reports whether a line about the runs of a plugin, or one of the plugin itself, is logged.
func (l *eventLog) logs(plugin string, level hclog.Level) bool {
	if own, ok := l.levels.Load(plugin); ok {
		return level >= own.(hclog.Level)
	}
	return level >= l.host.GetLevel()
}

func (l *eventLog) setLevel(e events.LogLevelSet) {
	if e.Level == "" {
		l.levels.Delete(e.Plugin)
		return
	}
	l.levels.Store(e.Plugin, hclog.LevelFromString(e.Level))
}

// Observe implements [events.Observer].
func (l *eventLog) Observe(event events.Event) {
	switch e := event.(type) {
	case events.HostStarted:
		l.host.Info("host started", "event", "HostStarted", "version", e.Version, "plugins", e.Plugins, "listen", e.Address)
	case events.HostStopped:
		l.host.Info("host stopped", "event", "HostStopped", "error", e.Err)
	case events.PluginStarted:
		var controllers []string
		for _, c := range e.Manifest.Controllers {
			controllers = append(controllers, c.Name)
		}
		l.plugins.Info("plugin started", append(revision("PluginStarted", e.Revision), "controllers", controllers)...)
	case events.PluginRestored:
		l.plugins.Info("the file of the plugin is that of the running revision again", revision("PluginRestored", e.Revision)...)
	case events.PluginWaiting:
		l.plugins.Warn("plugin waits"+keeping(e.Running), running(e.Running,
			"event", "PluginWaiting", "plugin", e.Plugin, "digest", e.Digest, "reason", e.Reason)...)
	case events.PluginRefused:
		if !e.RolledBack { // that has a line of its own
			l.plugins.Error("plugin refused"+keeping(e.Running), running(e.Running,
				printed(e.Printed, nil, "event", "PluginRefused", "plugin", e.Plugin, "digest", e.Digest, "step", e.Step, "error", e.Err)...)...)
		}
	case events.PluginRolledBack:
		l.plugins.Error("plugin rolled back, the new revision fails for more objects than the previous one",
			append(revision("PluginRolledBack", e.From), "toRevision", e.To.Number, "reason", e.Reason)...)
	case events.PluginStopped:
		if !e.Ran {
			return // it was refused or waited, which has a line of its own
		}
		l.plugins.Info("plugin stopped", "event", "PluginStopped", "plugin", e.Plugin, "removed", e.Removed)
	case events.PluginQuarantined:
		l.runs.Error("circuit breaker opened, objects that fail or are new wait while single runs probe the plugin: correct or replace it",
			append(revision("PluginQuarantined", e.Revision), "reason", e.Reason, "nextProbe", e.NextProbe,
				"controller", e.Controller, "object", e.Object, "class", e.Failure.Class, "message", e.Failure.Message)...)
	case events.PluginRecovered:
		if l.logs(e.Plugin, hclog.Info) {
			l.runs.Info("circuit breaker closed, the plugin runs as before", revision("PluginRecovered", e.Revision)...)
		}
	case events.RightsMissing:
		l.plugins.Warn("the plugin lacks rights, and keeps running", "event", "RightsMissing", "plugin", e.Plugin, "missing", e.Missing)
	case events.RightsGranted:
		l.plugins.Info("the plugin has all rights that it needs", "event", "RightsGranted", "plugin", e.Plugin)
	case events.FinalizersLeft:
		for _, f := range e.Left {
			l.plugins.Warn("no controller removes these finalizers any more", "event", "FinalizersLeft",
				"plugin", e.Plugin, "finalizer", f.Finalizer, "kind", f.Kind.String(), "objects", f.Objects, "deleting", f.Deleting,
				"examples", f.Examples, "release", f.Command)
		}
	case events.NoPlugins:
		l.plugins.Warn("there are no plugins: put NAME.wasm into the directory", "event", "NoPlugins", "path", e.Path)
	case events.LogLevelSet:
		l.setLevel(e)
		l.plugins.Info("the log level of the plugin is set", "event", "LogLevelSet", "plugin", e.Plugin, "level", cmp.Or(e.Level, l.host.GetLevel().String()))
	case events.Notice:
		level := hclog.Info
		if e.Warning {
			level = hclog.Warn
		}
		l.plugins.Log(level, e.Line, append([]any{"event", e.Name, "plugin", e.Plugin}, e.Fields...)...)
	case events.RunEnded:
		l.runEnded(e)
	case events.RunPostponed:
		if l.logs(e.Plugin, hclog.Debug) {
			l.runs.Debug("the effects of the run are postponed", append(run("RunPostponed", e.Run), "for", e.For.String())...)
		}
	case events.TurnEnded:
		l.turnEnded(e)
	case events.GuestLogged:
		if level := guestLevel(e.Level); l.logs(e.Run.Plugin, level) {
			l.guests.Log(level, e.Message, append(run("GuestLogged", e.Run), e.Fields...)...)
		}
	}
}

func revision(event string, r events.Revision) []any {
	return []any{"event", event, "plugin", r.Plugin, "revision", r.Number, "version", r.Version, "digest", r.Digest}
}

func run(event string, r events.Run) []any {
	return []any{
		"event", event, "plugin", r.Plugin, "controller", r.Controller, "object", r.Object, "revision", r.Revision, "reconcileID", r.ID,
	}
}

func running(r *events.Revision, fields ...any) []any {
	if r == nil {
		return fields
	}
	return append(fields, "running", r.Digest)
}

// printed adds what the guest printed to fields.
func printed(line string, stack []string, fields ...any) []any {
	if line != "" {
		fields = append(fields, "printed", line)
	}
	if len(stack) > 0 {
		fields = append(fields, "printedStack", stack)
	}
	return fields
}

func keeping(running *events.Revision) string {
	if running == nil {
		return ""
	}
	return ", keeping the previous revision"
}

func (l *eventLog) runEnded(e events.RunEnded) {
	level, text := runLine(e.Failure.Class)
	if e.Repeated {
		level, text = hclog.Debug, "the run is repeated"
	}
	if e.Muted || !l.logs(e.Plugin, level) {
		return // most runs succeed, and their fields are not needed then
	}
	fields := append(run("RunEnded", e.Run),
		"reasons", e.Reasons, "result", e.Result, "duration", e.Duration.Round(time.Microsecond).String(), "writes", e.Writes, "attempt", e.Attempt,
		"fuel", e.Fuel, "memoryBytes", e.MemoryBytes)
	if len(e.Failure.Stack) > 0 {
		fields = append(fields, "stack", e.Failure.Stack)
	}
	fields = printed(e.Failure.Printed, e.Failure.PrintedStack, fields...)
	if e.Next > 0 {
		fields = append(fields, "next", e.Next.String())
	}
	switch e.Failure.Class {
	case abi.ClassNone:
	case abi.ClassWaiting:
		fields = append(fields, "reason", e.Failure.Reason, "message", e.Failure.Message)
	default:
		fields = append(fields, "class", e.Failure.Class, "reason", e.Failure.Reason, "message", e.Failure.Message)
	}
	l.runs.Log(level, text, fields...)
}

// runLine returns how the end of a run is logged. What the plugin decided is a
// warning, what it must not do is an error.
func runLine(class abi.Class) (level hclog.Level, text string) {
	switch class {
	case abi.ClassNone:
		return hclog.Debug, "reconciled"
	case abi.ClassWaiting:
		return hclog.Info, "reconcile waits"
	case abi.ClassRetry, abi.ClassStalled:
		return hclog.Warn, "reconcile failed"
	default:
		return hclog.Error, "reconcile failed"
	}
}

func guestLevel(level int32) hclog.Level {
	switch level {
	case abi.LogDebug:
		return hclog.Debug
	case abi.LogInfo:
		return hclog.Info
	case abi.LogWarn:
		return hclog.Warn
	default:
		return hclog.Error
	}
}
