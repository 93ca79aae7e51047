package catalog

import "errors"

// Observer is told what happens to plugins. Its methods may not call the
// catalog.
type Observer interface {
	PluginStarted(g *Generation)
	PluginStopped(plugin string)
	// PluginFailed is told once of each module that does not run; step is
	// from a bounded set, and last is what runs instead, nil if nothing does.
	PluginFailed(plugin, step string, err error, last *Generation)
	// PluginWaits is told once of a module that waits for something.
	PluginWaits(plugin, reason string)
	PluginRolledBack(from, to *Generation, reason string)
}

// report tells the log, the observer and the status how an attempt ended.
func (s *slot) report(m *Module, err error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	before := s.status
	s.status = s.describe(m, err)
	// A module that does not run is the same under whatever runs instead.
	same := before.State == s.status.State && before.LastError == s.status.LastError && (err != nil || before.Generation == s.status.Generation)
	if same {
		s.status.Since = before.Since
	}
	if same && s.told == m.Digest {
		return // a wait that goes on is told once
	}
	s.told = m.Digest
	s.announce(m, err)
}

func (s *slot) announce(m *Module, err error) {
	logger := s.c.Logger.With("plugin", s.name, "digest", m.Digest)
	var wait *WaitError
	var rejected *rejection
	switch waits := errors.As(err, &wait); {
	case err == nil:
		logger.Info("plugin runs", "generation", s.current.Number, "version", s.status.Version, "controllers", s.status.Controllers)
		return
	case waits:
		s.c.Observer.PluginWaits(s.name, err.Error())
		if s.current != nil {
			logger.Warn("new generation waits, the last good one goes on", "running", s.current.Digest, "reason", err.Error())
			return
		}
		logger.Warn("plugin waits", "reason", err.Error())
		return
	case errors.As(err, &rejected): // the log knows
	case s.current != nil:
		logger.Error("new generation refused, the last good one goes on", "step", step(err), "running", s.current.Digest, "error", err)
	default:
		logger.Error("plugin cannot run", "step", step(err), "error", err)
	}
	s.c.Observer.PluginFailed(s.name, step(err), err, s.current)
}
