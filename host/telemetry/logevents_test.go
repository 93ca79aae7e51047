package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/logtest"
)

func TestEventsAreLoggedWithTheirFields(t *testing.T) {
	revision := events.Revision{Plugin: "p", Number: 2, Version: "v1", Digest: "d"}
	run := events.Run{Plugin: "p", Controller: "c", Object: "ns/x", Revision: 2, ID: "id"}
	ended := func(f events.Failure) events.RunEnded {
		return events.RunEnded{Run: run, Result: "r", Failure: f, Duration: 1500 * time.Microsecond, Reasons: []abi.Reason{abi.ReasonOwned}, Writes: 3, Attempt: 4, Fuel: 5, MemoryBytes: 6}
	}
	repeated := ended(events.Failure{Class: abi.ClassRetry, Reason: "R", Message: "m"})
	repeated.Repeated = true
	muted, scheduled := ended(events.Failure{Class: abi.ClassWaiting}), ended(events.Failure{})
	muted.Muted, scheduled.Next = true, time.Minute
	ofRun := func(event string, more map[string]any) map[string]any {
		fields := map[string]any{"event": event, "plugin": "p", "controller": "c", "object": "ns/x", "revision": 2, "reconcileID": "id"}
		maps.Copy(fields, more)
		return fields
	}
	ofEnded := func(more map[string]any) map[string]any {
		fields := ofRun("RunEnded", map[string]any{"result": "r", "duration": "1.5ms", "reasons": []abi.Reason{abi.ReasonOwned}, "writes": 3, "attempt": 4, "fuel": int64(5), "memoryBytes": uint64(6)})
		maps.Copy(fields, more)
		return fields
	}
	refused := events.PluginRefused{Plugin: "p", Digest: "d", Step: "parse", Err: errors.New("bad"), Running: &revision}
	rolledBack := refused
	rolledBack.RolledBack = true
	for name, c := range map[string]struct {
		event  events.Event
		level  hclog.Level
		fields map[string]any // nil: nothing is logged
	}{
		"run that succeeded": {scheduled, hclog.Debug, ofEnded(map[string]any{"next": "1m0s"})},
		"run that waits": {
			ended(events.Failure{Class: abi.ClassWaiting, Reason: "R", Message: "m"}), hclog.Info,
			ofEnded(map[string]any{"reason": "R", "message": "m"}),
		},
		"notice of a capability": {
			events.Notice{Plugin: "p", Name: "SinkFull", Warning: true, Line: "events were dropped", Fields: []any{"sink", "s", "events", 7}, Reason: "NotInTheLog"},
			hclog.Warn,
			map[string]any{"event": "SinkFull", "plugin": "p", "sink": "s", "events": 7},
		},
		"wait beyond the allowance": {event: muted},
		"run that is repeated":      {repeated, hclog.Debug, ofEnded(map[string]any{"class": abi.ClassRetry, "reason": "R", "message": "m"})},
		"run that failed": {
			ended(events.Failure{Class: abi.ClassRetry, Reason: "R", Message: "m"}), hclog.Warn,
			ofEnded(map[string]any{"class": abi.ClassRetry, "reason": "R", "message": "m"}),
		},
		"run that is stalled": {
			ended(events.Failure{Class: abi.ClassStalled}), hclog.Warn,
			ofEnded(map[string]any{"class": abi.ClassStalled, "reason": "", "message": ""}),
		},
		"run that broke off": {
			ended(events.Failure{Class: abi.ClassPanic, Stack: []string{"f", "g"}}), hclog.Error,
			ofEnded(map[string]any{"class": abi.ClassPanic, "reason": "", "message": "", "stack": []string{"f", "g"}}),
		},
		"turn": {
			events.TurnEnded{What: "turn", Event: "TurnEnded", Run: run, Duration: 1500 * time.Microsecond, Objects: 2, Ignored: 1, Fuel: 5, MemoryBytes: 6},
			hclog.Debug,
			ofRun("TurnEnded", map[string]any{"duration": "1.5ms", "fuel": int64(5), "memoryBytes": uint64(6), "objects": 2, "ignored": 1}),
		},
		"turn that broke off": {
			events.TurnEnded{What: "turn", Event: "TurnEnded", Run: run, Failure: events.Failure{Class: abi.ClassPanic, Message: "m", Stack: []string{"f"}, Printed: "p"}},
			hclog.Error,
			ofRun("TurnEnded", map[string]any{"duration": "0s", "fuel": 0, "memoryBytes": 0, "class": abi.ClassPanic, "reason": "", "message": "m", "stack": []string{"f"}, "printed": "p"}),
		},
		"run whose effects wait": {
			events.RunPostponed{Run: run, Since: time.Unix(1, 0), Duration: time.Second, For: 3 * time.Second},
			hclog.Debug,
			ofRun("RunPostponed", map[string]any{"for": "3s"}),
		},
		"request of a run":                      {event: events.RequestEnded{Run: run}},
		"turn that failed beyond the allowance": {event: events.TurnEnded{What: "turn", Event: "TurnEnded", Run: run, Failure: events.Failure{Class: abi.ClassRetry}, Muted: true}},
		"line of the guest": {
			events.GuestLogged{Run: run, Level: abi.LogWarn, Message: "m", Fields: []any{"a", "b"}},
			hclog.Warn,
			ofRun("GuestLogged", map[string]any{"a": "b"}),
		},
		"refused plugin": {refused, hclog.Error, map[string]any{
			"event": "PluginRefused", "plugin": "p", "digest": "d", "step": "parse", "error": refused.Err, "running": "d",
		}},
		"refusal of what was rolled back": {event: rolledBack},
		"open circuit breaker": {
			events.PluginQuarantined{Revision: revision, Reason: "R", Controller: "c", Object: "ns/x", Failure: events.Failure{Class: abi.ClassPanic, Message: "m"}},
			hclog.Error,
			map[string]any{
				"event": "PluginQuarantined", "plugin": "p", "revision": 2, "version": "v1", "digest": "d",
				"reason": "R", "nextProbe": time.Time{}, "controller": "c", "object": "ns/x", "class": abi.ClassPanic, "message": "m",
			},
		},
		"plugin that has run": {
			events.PluginStopped{Plugin: "p", Removed: true, Ran: true},
			hclog.Info,
			map[string]any{"event": "PluginStopped", "plugin": "p", "removed": true},
		},
		"plugin that never ran": {event: events.PluginStopped{Plugin: "p", Removed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			log := logtest.New(hclog.Debug)
			LogEvents(log.Logger).Observe(c.event)
			if c.fields == nil {
				log.ExpectNone(t)
				return
			}
			if got := log.Next(t); got.Level != c.level || !fieldsEqual(got.Fields, c.fields) {
				t.Errorf("logged %s\nwant %s %v", got, c.level, c.fields)
			}
		})
	}
}

func TestGuestsLogAtTheirLevels(t *testing.T) {
	log := logtest.New(hclog.Debug)
	for level, want := range map[int32]hclog.Level{
		abi.LogDebug: hclog.Debug, abi.LogInfo: hclog.Info, abi.LogWarn: hclog.Warn, abi.LogError: hclog.Error,
	} {
		LogEvents(log.Logger).Observe(events.GuestLogged{Level: level})
		if got := log.Next(t); got.Level != want {
			t.Errorf("level %d is logged as %s, want %s", level, got.Level, want)
		}
	}
}

func fieldsEqual(a, b map[string]any) bool {
	return maps.EqualFunc(a, b, func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) })
}

// TestValuesOfGuestsDoNotSteerTerminals has a value with an escape sequence, in the
// format that people read.
func TestValuesOfGuestsDoNotSteerTerminals(t *testing.T) {
	var out bytes.Buffer
	logger, err := NewLogger(LogConfig{Level: "info", Format: "text", Output: &out})
	if err != nil {
		t.Fatal(err)
	}
	LogEvents(logger).Observe(events.GuestLogged{Level: abi.LogInfo, Message: "m", Fields: []any{"a", "\x1b[2J"}})
	if got := out.String(); strings.Contains(got, "\x1b") || !strings.Contains(got, "a=") {
		t.Errorf("logged %q", got)
	}
}

// TestLevelsOfPlugins has a plugin that logs more than the host, and one that logs less.
func TestLevelsOfPlugins(t *testing.T) {
	var out bytes.Buffer
	logger, err := NewLogger(LogConfig{Level: "info", Format: "text", Output: &out})
	if err != nil {
		t.Fatal(err)
	}
	log := LogEvents(logger)
	logged := func(event events.Event) bool {
		out.Reset()
		log.Observe(event)
		return out.Len() > 0
	}
	line := func(plugin string, level int32) events.Event {
		return events.GuestLogged{Run: events.Run{Plugin: plugin}, Level: level, Message: "m"}
	}
	ended := func(plugin string, class abi.Class) events.Event {
		return events.RunEnded{Run: events.Run{Plugin: plugin}, Failure: events.Failure{Class: class}}
	}
	scanned := func(plugin string) events.Event {
		return events.TurnEnded{What: "turn", Event: "TurnEnded", Run: events.Run{Plugin: plugin}}
	}
	recovered := events.PluginRecovered{Revision: events.Revision{Plugin: "quiet"}}
	log.Observe(events.LogLevelSet{Plugin: "loud", Level: "debug"})
	log.Observe(events.LogLevelSet{Plugin: "quiet", Level: "error"})
	for _, c := range []struct {
		name  string
		event events.Event
		want  bool
	}{
		{"debug of the host's level", line("other", abi.LogDebug), false},
		{"info of the host's level", line("other", abi.LogInfo), true},
		{"debug of the loud plugin", line("loud", abi.LogDebug), true},
		{"warning of the quiet plugin", line("quiet", abi.LogWarn), false},
		{"error of the quiet plugin", line("quiet", abi.LogError), true},
		{"success of the host's level", ended("other", abi.ClassNone), false},
		{"success of the loud plugin", ended("loud", abi.ClassNone), true},
		{"turn of the host's level", scanned("other"), false},
		{"turn of the loud plugin", scanned("loud"), true},
		{"retry of the quiet plugin", ended("quiet", abi.ClassRetry), false},
		{"crash of the quiet plugin", ended("quiet", abi.ClassPanic), true},
		{"recovery of the quiet plugin", recovered, false},
		{"reset", events.LogLevelSet{Plugin: "quiet"}, true},
		{"warning after the reset", line("quiet", abi.LogWarn), true},
		{"recovery after the reset", recovered, true},
		{"debug after the reset", line("quiet", abi.LogDebug), false},
	} {
		if got := logged(c.event); got != c.want {
			t.Errorf("%s is logged: %t, want %t", c.name, got, c.want)
		}
	}
	if logger.IsDebug() {
		t.Error("the level of the host has changed")
	}
}
