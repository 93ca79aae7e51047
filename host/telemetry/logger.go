package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
	"github.com/hashicorp/go-hclog"
	"k8s.io/klog/v2"
)

// LogConfig configures the log of the host.
type LogConfig struct {
	Level  string // trace, debug, info, warn, error
	Format string // json or text
	Output io.Writer
}

// NewLogger returns the root logger. Each line has the fields @timestamp, @level,
// @module and @message, and the names and values of the call, in the form of the schema.
func NewLogger(c LogConfig) (hclog.Logger, error) {
	level := hclog.LevelFromString(c.Level)
	if level == hclog.NoLevel {
		return nil, fmt.Errorf("log level %q: not one of trace, debug, info, warn, error", c.Level)
	}
	if c.Format != "json" && c.Format != "text" {
		return nil, fmt.Errorf("log format %q: not one of json, text", c.Format)
	}
	return schemaLogger{hclog.New(&hclog.LoggerOptions{
		Name:       "thole",
		Level:      level,
		Output:     c.Output,
		JSONFormat: c.Format == "json",

		IndependentLevels: true, // for LogEvents
	})}, nil
}

// BridgeKubernetes makes klog and slog write to logger, which client-go logs
// through. It changes process-wide state, and must be called once, before any
// client is created.
func BridgeKubernetes(logger hclog.Logger) {
	klog.SetLoggerWithOptions(logr.New(&logrSink{logger: logger.Named("client-go")}), klog.ContextualLogger(true))
	slog.SetDefault(slog.New(logr.ToSlogHandler(logr.New(&logrSink{logger: logger.Named("slog")}))))
}

// logrSink is a logr.LogSink that writes to hclog: V(0) at level info, V(1) to
// V(3) at debug, and higher ones at trace.
type logrSink struct {
	logger hclog.Logger
}

var _ logr.LogSink = (*logrSink)(nil)

func (s *logrSink) Init(logr.RuntimeInfo) {}

func (s *logrSink) Enabled(v int) bool { return s.logger.GetLevel() <= levelOf(v) }

func (s *logrSink) Info(v int, message string, pairs ...any) {
	if strings.HasPrefix(message, unsolicited) {
		message = unsolicited
	}
	s.logger.Log(levelOf(v), message, libraryFields(pairs)...)
}

// unsolicited is how net/http begins to log what a server sends behind its answer. What follows are
// bytes of that, which may be those of a credential.
const unsolicited = "Unsolicited response received on idle HTTP channel"

func (s *logrSink) Error(err error, message string, pairs ...any) {
	s.logger.Error(message, append(libraryFields(pairs), "error", err)...)
}

func (s *logrSink) WithValues(pairs ...any) logr.LogSink {
	return &logrSink{logger: s.logger.With(libraryFields(pairs)...)}
}

func (s *logrSink) WithName(name string) logr.LogSink {
	return &logrSink{logger: s.logger.Named(name)}
}

func levelOf(v int) hclog.Level {
	switch {
	case v <= 0:
		return hclog.Info
	case v <= 3:
		return hclog.Debug
	default:
		return hclog.Trace
	}
}

// WithLogger returns a context with logger for the contextual logging of
// client-go.
func WithLogger(ctx context.Context, logger hclog.Logger) context.Context {
	return klog.NewContext(ctx, logr.New(&logrSink{logger: logger}))
}
