package main

import (
	"time"

	"github.com/thole-dev/thole/sdk"
)

// This file has what depends on the time: for a run, and for the scans that find the instances for which
// something is due. A run requests the next one at the right time itself. The scans are the second way to
// the same: they find what has been edited, or has been missed.

const (
	schedulerInterval = 30 * time.Second
	cleanupInterval   = 5 * time.Minute
	defaultRetention  = time.Hour // of a policy without config
)

// What is due for an instance: the signals of the scans.
const (
	dueStart   = "start"
	dueTimeout = "timeout"
	dueCleanup = "cleanup"
)

// scheduler finds the instances whose start has come or whose time is over.
func scheduler(s *sdk.Scanning) error { return signalDue(s, 0, Pending, Running) }

// cleanupScan finds the instances whose retention is over.
func cleanupScan(s *sdk.Scanning) error {
	config, err := configOf(s)
	if err != nil {
		return err
	}
	return signalDue(s, config.Retention.Duration, Completed, Failed, Timeout)
}

// signalDue signals what is due for the instances in some phases.
func signalDue(s *sdk.Scanning, retention time.Duration, phases ...Phase) error {
	for _, phase := range phases {
		found, err := sdk.Primaries[Spec, Status](s, sdk.Query{FieldSelector: byPhase.Field + "=" + string(phase)})
		if err != nil {
			return err
		}
		for _, lab := range found {
			if what := due(lab.Spec, lab.Status, retention, s.Now); what != "" && !lab.Deleting() {
				s.Signal(lab.Namespace, lab.Name, what)
			}
		}
	}
	return nil
}

// due returns what is due for an instance, "" if nothing is.
func due(spec Spec, status Status, retention time.Duration, now time.Time) string {
	switch status.Phase {
	case Pending:
		if spec.check() == nil && shouldStartNow(spec, now) {
			return dueStart
		}
	case Running:
		if isExpired(status, now) {
			return dueTimeout
		}
	case Provisioning: // its Pod makes it due
	case Completed, Failed, Timeout:
		if isOver(status, retention, now) {
			return dueCleanup
		}
	}
	return ""
}

// shouldStartNow reports whether the start of an instance has come.
func shouldStartNow(s Spec, now time.Time) bool { return !s.ScheduledStart.Time().After(now) }

// isExpired reports whether the time of an instance that runs is over.
func isExpired(s Status, now time.Time) bool { return !s.ExpiresAt.Time().After(now) }

// isOver reports whether the retention of an instance that has ended is over.
func isOver(s Status, retention time.Duration, now time.Time) bool {
	return !s.EndedAt.Time().Add(retention).After(now)
}

// configOf reads the configuration in a run or in a scan.
func configOf(from interface{ Config(into sdk.Value) error }) (Config, error) {
	config := Config{Retention: sdk.DurationOf(defaultRetention)}
	err := from.Config(&config)
	return config, err
}
