package host

import (
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/telemetry"
)

func (h *Host) cacheStats() []telemetry.CacheStats {
	var out []telemetry.CacheStats
	for _, s := range h.cache.Stats() {
		out = append(out, telemetry.CacheStats{Kind: s.Kind.String(), Objects: s.Objects, Bytes: s.Bytes})
	}
	return out
}

func (h *Host) sandboxStats() []telemetry.SandboxStats {
	var out []telemetry.SandboxStats
	for _, g := range h.catalog.Running() {
		s := g.Guest.(*sandbox.Guest).Stats()
		out = append(out, telemetry.SandboxStats{
			Plugin: g.Plugin, Calls: s.Calls, Faults: s.Faults, Idle: s.Idle, Busy: s.Busy, IdleBytes: s.IdleBytes,
			Compiled: s.Compiled, Wakes: s.Wakes,
		})
	}
	return out
}

func (h *Host) memoryStats() telemetry.MemoryStats {
	s := h.sandbox.Memory()
	return telemetry.MemoryStats{LimitBytes: s.LimitBytes, UsedBytes: s.UsedBytes, Refused: s.Refused}
}
