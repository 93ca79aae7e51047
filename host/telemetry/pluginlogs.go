package telemetry

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/thole-dev/thole/host/sanitize"
)

// How much plugins may cause to be logged. Lines beyond it are dropped.
const (
	logLinesPerSecond = 50       // of each plugin
	logBytesPerSecond = 64 << 10 // of each plugin, if all of them together do not exceed the next one
	allLogBytes       = 2 << 20  // per second
	logBurst          = 10       // seconds of these that a plugin may use at once
	// droppedAfter is how long drops are collected for one line of the log.
	droppedAfter = 10 * time.Second
	// lineOverhead is about what the host's own fields of a line take.
	lineOverhead = 512
)

// PluginLogs divides what plugins may cause to be logged: each has an even share,
// so that none can use up another one's.
type PluginLogs struct {
	logger hclog.Logger

	mu   sync.Mutex
	open map[*PluginLog]struct{}
}

// NewPluginLogs returns the logs of no plugin yet. logger receives how much was
// dropped.
func NewPluginLogs(logger hclog.Logger) *PluginLogs {
	return &PluginLogs{logger: logger, open: map[*PluginLog]struct{}{}}
}

// PluginLog is the allowance of one plugin. It is safe for concurrent use.
type PluginLog struct {
	logs         *PluginLogs
	plugin       string
	limited      func() // is called for each line that tells of drops
	lines, bytes *rate.Limiter

	mu           sync.Mutex
	droppedLines int
	droppedBytes int
	telling      *time.Timer // nil while nothing was dropped
}

// Open adds a plugin, until [PluginLog.Close] is called. limited is called when
// lines are dropped, at most once in ten seconds.
func (l *PluginLogs) Open(plugin string, limited func()) *PluginLog {
	p := &PluginLog{
		logs: l, plugin: plugin, limited: limited,
		lines: rate.NewLimiter(logLinesPerSecond, logLinesPerSecond*logBurst),
		bytes: rate.NewLimiter(0, logBytesPerSecond*logBurst),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[p] = struct{}{}
	l.divide()
	return p
}

// Close removes the plugin, and logs what was dropped since that was told last.
func (p *PluginLog) Close() {
	p.logs.mu.Lock()
	delete(p.logs.open, p)
	p.logs.divide()
	p.logs.mu.Unlock()
	p.tell()
}

// divide must be called with the lock held, when the number of plugins has changed.
func (l *PluginLogs) divide() {
	share := min(logBytesPerSecond, allLogBytes/max(1, len(l.open)))
	for p := range l.open {
		p.bytes.SetLimit(rate.Limit(share))
		p.bytes.SetBurst(share * logBurst)
	}
}

// Allow reports whether a line with texts of that many bytes, as
// [sanitize.LogBytes] counts them, may be logged.
func (p *PluginLog) Allow(bytes int) bool {
	bytes += lineOverhead
	now := time.Now()
	if p.lines.AllowN(now, 1) && p.bytes.AllowN(now, bytes) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.droppedLines++
	p.droppedBytes += bytes
	if p.telling == nil {
		p.telling = time.AfterFunc(droppedAfter, p.tell)
	}
	return false
}

// tell logs how much was dropped, if anything was.
func (p *PluginLog) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.telling == nil {
		return
	}
	p.telling.Stop()
	p.limited()
	p.logs.logger.Warn("log lines of the plugin were dropped: it may log 50 lines and its share of the host's log per second; let it log less",
		"plugin", p.plugin, "lines", p.droppedLines, "bytes", p.droppedBytes, "bytesPerSecond", int(p.bytes.Limit()))
	p.droppedLines, p.droppedBytes, p.telling = 0, 0, nil
}

// Logger returns a logger whose lines count as the plugin's.
func (p *PluginLog) Logger(logger hclog.Logger) hclog.Logger { return boundedLogger{logger, p} }

// boundedLogger drops lines beyond the allowance of a plugin. Debugging is not
// bounded: the administrator turns it on.
type boundedLogger struct {
	hclog.Logger
	allowance *PluginLog
}

func (l boundedLogger) With(args ...any) hclog.Logger {
	return boundedLogger{l.Logger.With(args...), l.allowance}
}

func (l boundedLogger) Info(message string, args ...any) {
	if l.IsInfo() && l.allowance.Allow(logBytes(message, args)) {
		l.Logger.Info(message, args...)
	}
}

func (l boundedLogger) Warn(message string, args ...any) {
	if l.IsWarn() && l.allowance.Allow(logBytes(message, args)) {
		l.Logger.Warn(message, args...)
	}
}

func (l boundedLogger) Error(message string, args ...any) {
	if l.allowance.Allow(logBytes(message, args)) {
		l.Logger.Error(message, args...)
	}
}

func logBytes(message string, args []any) int {
	n := sanitize.LogBytes(message)
	for _, a := range args {
		n += sanitize.LogBytes(fmt.Sprint(a))
	}
	return n
}
