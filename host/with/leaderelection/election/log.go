package election

import (
	"github.com/go-logr/logr"
	"github.com/hashicorp/go-hclog"
)

// debugOnly is a [logr.LogSink] for what client-go's elector logs. Each attempt of a replica that
// waits is a line, and a lost race an error: what matters is in [Lease.Err] and
// [Config.Changed].
type debugOnly struct{ hclog.Logger }

// Init implements [logr.LogSink].
func (debugOnly) Init(logr.RuntimeInfo) {}

// Enabled implements [logr.LogSink].
func (debugOnly) Enabled(int) bool { return false }

// Info implements [logr.LogSink].
func (debugOnly) Info(int, string, ...any) {}

// Error implements [logr.LogSink].
func (d debugOnly) Error(err error, message string, fields ...any) {
	d.Debug(message, append(fields, "error", err)...)
}

// WithValues implements [logr.LogSink].
func (d debugOnly) WithValues(fields ...any) logr.LogSink { return debugOnly{d.With(fields...)} }

// WithName implements [logr.LogSink].
func (d debugOnly) WithName(string) logr.LogSink { return d }
