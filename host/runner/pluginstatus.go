package runner

import (
	"maps"
	"slices"
	"strings"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/sanitize"
)

// PluginStatus is an entry of /plugins.
type PluginStatus struct {
	catalog.Status
	// Breaker is that of the running revision; nil while none runs.
	Breaker *dispatch.BreakerStatus `json:"breaker,omitempty"`
	// Sandbox is what the running revision has in memory; nil while none runs.
	Sandbox *SandboxStatus `json:"sandbox,omitempty"`
	// Leader is the replica that leads the plugin; "" if none does, or there is one replica.
	Leader string `json:"leader,omitempty"`
	// CannotFollow describes each kind whose changes do not reach the running
	// revision now, and why: for want of a right, or of the API server.
	CannotFollow []string `json:"cannotFollow,omitempty"`
	// MissingRights has for each rule that the service account of the plugin lacks, or the
	// host for it, who lacks it and what to add.
	MissingRights []string `json:"missingRights,omitempty"`
	// WaitsFor is what the plugin waits for now, at its start or because its informers
	// are late, for people.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Problems has what is wrong with what capabilities do for the plugin, by their names.
	Problems map[string]string `json:"problems,omitempty"`
	// CacheProblem is why the compiled code of the plugin may be missing on disk, so that it is compiled
	// again at each start of the host; "" if it is there.
	CacheProblem string `json:"cacheProblem,omitempty"`
	// Capabilities has what they show of the plugin, by their names.
	Capabilities map[string]any `json:"capabilities,omitempty"`
	// Usage is how much of its limits of bytes the plugin has used up; nil while nothing of
	// it runs.
	Usage *effect.Usage `json:"usage,omitempty"`
}

// SandboxStatus shows whether a plugin is in use.
type SandboxStatus struct {
	Busy     int  `json:"busy"`     // instances with a call in progress
	Idle     int  `json:"idle"`     // instances without
	Compiled bool `json:"compiled"` // false: unused for minutes, the next call loads the code from the cache
}

// Problem returns the last error with its step, what the plugin cannot follow, the
// rights that it lacks, what is wrong with what capabilities do for it and what it waits for, in
// one line; "" if there is no problem.
func (p *PluginStatus) Problem() string {
	var problems []string
	switch {
	case p.LastError != "" && p.FailedStep != "":
		problems = append(problems, p.FailedStep+": "+p.LastError)
	case p.LastError != "":
		problems = append(problems, p.LastError)
	}
	for _, kind := range p.CannotFollow {
		problems = append(problems, "cannot follow "+kind)
	}
	problems = append(problems, p.MissingRights...)
	for _, name := range slices.Sorted(maps.Keys(p.Problems)) {
		problems = append(problems, p.Problems[name])
	}
	if p.CacheProblem != "" {
		problems = append(problems, p.CacheProblem)
	}
	if p.WaitsFor != "" {
		problems = append(problems, "waits for "+p.WaitsFor)
	}
	return strings.Join(strings.Fields(sanitize.Line(strings.Join(problems, "; "))), " ")
}

// ShortDigest returns as much of a digest as people compare.
func ShortDigest(digest string) string { return digest[:min(len(digest), 12)] }
