package telemetry

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
)

func (l *eventLog) turnEnded(e events.TurnEnded) {
	level, text := turnLine(e)
	if e.Muted || !l.logs(e.Plugin, level) {
		return
	}
	fields := append(run(e.Event, e.Run), "duration", e.Duration.Round(time.Microsecond).String(),
		"fuel", e.Fuel, "memoryBytes", e.MemoryBytes)
	if e.Failure.Class == abi.ClassNone {
		l.runs.Log(level, text, append(fields, "objects", e.Objects, "ignored", e.Ignored)...)
		return
	}
	if len(e.Failure.Stack) > 0 {
		fields = append(fields, "stack", e.Failure.Stack)
	}
	fields = printed(e.Failure.Printed, e.Failure.PrintedStack, fields...)
	l.runs.Log(level, text, append(fields, "class", e.Failure.Class, "reason", e.Failure.Reason, "message", e.Failure.Message)...)
}

// turnLine is [runLine] for the end of a turn.
func turnLine(e events.TurnEnded) (level hclog.Level, text string) {
	if level, _ = runLine(e.Failure.Class); e.Failure.Class == abi.ClassNone {
		return level, e.What + " ended"
	}
	return level, e.What + " failed"
}
