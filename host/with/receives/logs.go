package receives

import (
	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/thole-dev/thole/host/access"
)

// logs bounds what is logged of requests, of which anybody can send any number.
type logs struct{ refusals *rate.Limiter }

const (
	logsPerSecond = 1
	logsAtOnce    = 10
)

func newLogs() logs { return logs{rate.NewLimiter(logsPerSecond, logsAtOnce)} }

// refused logs that a request was refused, without what it has sent. caller may be nil.
func (l logs) refused(logger hclog.Logger, r *refusal, caller *access.Caller) {
	if !l.refusals.Allow() {
		return
	}
	args := []any{"status", r.status, "plugin", r.plugin}
	if caller != nil {
		args = append(args, "user", caller.Name())
	}
	if r.cause != nil {
		args = append(args, "error", r.cause)
	}
	logger.Info("events from outside are refused", args...)
}
