package telemetry

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/internal/logtest"
)

// passed is what one plugin has logged.
type passed struct{ lines, bytes, droppedLines, droppedBytes int }

// logs lets a plugin log lines of that many bytes, so many a second.
func (p *passed) logs(l *PluginLog, seconds, perSecond, size int) {
	for range seconds * perSecond {
		if l.Allow(size) {
			p.lines, p.bytes = p.lines+1, p.bytes+size+lineOverhead
		} else {
			p.droppedLines, p.droppedBytes = p.droppedLines+1, p.droppedBytes+size+lineOverhead
		}
		time.Sleep(time.Second / time.Duration(perSecond)) // fake time
	}
}

// TestPluginLogsAreBounded for each plugin and for all of them, whatever the size of
// the lines, and what a modest plugin logs beside others is not dropped.
func TestPluginLogsAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ plugins, perSecond, size int }{
		"many short lines":       {3, 1000, 10},
		"long lines":             {3, 100, 60 << 10},
		"lines beyond any burst": {3, 10, 4 << 20},
		"many plugins":           {100, 20, 20 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const seconds = 60
				logs := logtest.New(hclog.Warn)
				all := NewPluginLogs(logs.Logger)
				var open []*PluginLog
				for range c.plugins {
					open = append(open, all.Open("hog", func() {}))
				}
				l := all.Open("modest", func() { t.Error("lines of the modest plugin were dropped") })
				hogs := make([]passed, c.plugins)
				for i := range hogs {
					go hogs[i].logs(open[i], seconds, c.perSecond, c.size)
				}
				var modest passed
				modest.logs(l, seconds, 10, 500)
				synctest.Wait()
				for _, l := range append(open, l) {
					l.Close()
				}
				total := modest.bytes
				for i, h := range hogs {
					if h.lines > logLinesPerSecond*(seconds+logBurst) || h.bytes > logBytesPerSecond*(seconds+logBurst) {
						t.Errorf("plugin %d logged %d lines, %d bytes in %d s", i, h.lines, h.bytes, seconds)
					}
					total += h.bytes
				}
				if total > allLogBytes*(seconds+logBurst) {
					t.Errorf("%d bytes in %d s", total, seconds)
				}
				if modest.droppedLines > 0 {
					t.Errorf("%d lines of the modest plugin were dropped", modest.droppedLines)
				}
			})
		})
	}
}

// TestDroppedLinesAreToldOnce in ten seconds, with how many they were.
func TestDroppedLinesAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := logtest.New(hclog.Warn)
		limited := 0
		l := NewPluginLogs(logs.Logger).Open("p", func() { limited++ })
		var p passed
		p.logs(l, 25, 200, 100)
		l.Close()
		l.Close()
		lines, bytes, told := 0, 0, logs.All()
		for _, line := range told {
			lines, bytes = lines+line.Fields["lines"].(int), bytes+line.Fields["bytes"].(int)
		}
		if len(told) != 3 || limited != 3 || lines != p.droppedLines || bytes != p.droppedBytes || lines == 0 {
			t.Errorf("told %d times, counted %d times: %d lines, %d bytes; dropped %+v", len(told), limited, lines, bytes, p)
		}
	})
}

func TestLoggerOfAPluginIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, own := logtest.New(hclog.Info), logtest.New(hclog.Info)
		l := NewPluginLogs(own.Logger).Open("p", func() {})
		logger := l.Logger(logs.Logger).With("object", "a/b")
		for range 1000 {
			logger.Debug("not logged, not counted")
			logger.Info("a", "text", strings.Repeat("x", 10<<10))
			logger.Warn("b", "text", strings.Repeat("\x00", 10<<10))
		}
		l.Close()
		if n := len(logs.All()); n < 10 || n > 30 {
			t.Errorf("%d lines were logged, want some 20 of 35 KiB on average", n)
		}
		own.ExpectNext(t, hclog.Warn, "plugin", "p")
	})
}
