package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// checkpoint waits until every object is as the last valid generation of its
// plugin wants. Nobody changes anything meanwhile.
func (s *soak) checkpoint(when string) {
	s.t.Helper()
	s.dir.say("checkpoint %s", when)
	for _, p := range s.dir.plugins {
		s.converge(when, p)
	}
	if wrong := s.witness.judge(); len(wrong) > 0 {
		s.t.Fatalf("%s, of %d things that are wrong: %s", when, len(wrong), head(wrong))
	}
}

// converge waits until all objects of one plugin are as they should be. What
// lies there must run if it can; else the generation before goes on, which is
// one that was valid at some time, under the policy that lies there if that is
// valid.
func (s *soak) converge(when string, p *soakPlugin) {
	s.t.Helper()
	name := soakName(p.index)
	var late []string
	var version, note string
	s.t.Cleanup(func() {
		if s.t.Failed() && len(late) > 0 {
			s.t.Logf("%s, %s: %d objects are late: %s", when, name, len(late), head(late))
		}
	})
	versions, notes := p.versions, p.notes
	if p.valid() {
		versions = map[string]bool{p.version: true}
	}
	if p.allowed {
		notes = map[string]bool{p.note: true}
	}
	await.Within(s.t, 5*await.Limit, fmt.Sprintf("%s, %s is as its last valid generation wants: %s of %v and %q",
		when, name, p, slices.Collect(maps.Keys(versions)), slices.Collect(maps.Keys(notes))), func() bool {
		state := s.host.Plugin(name)
		switch {
		case state.State == "loading" || state.State == "draining":
			return false
		case p.valid() && (!serves(state.State) || state.LastError != ""):
			return false // it must run
		case !p.present && state.Name != "":
			return false // it must go
		case p.present && !p.valid() && state.LastError == "":
			return false // it must be refused
		case !serves(state.State):
			late, version = nil, ""
			return !p.goesOn // nothing runs, so nothing is expected
		}
		late, version, note = s.witness.behind(p.index, versions, notes)
		return len(late) == 0 && s.host.tellsVersion(name, version)
	})
	p.settled(version, note)
}

// serves says whether a plugin in that state has a generation that runs.
func serves(state string) bool {
	return slices.Contains([]string{"running", "degraded", "quarantined"}, state)
}

func (p *soakPlugin) String() string {
	return fmt.Sprintf("present %t, sound %t, allowed %t, goes on %t", p.present, p.sound, p.allowed, p.goesOn)
}

// tellsVersion says whether metrics name that version as the running one.
func (p *process) tellsVersion(plugin, version string) bool {
	_, text := p.Ask("/metrics")
	return metrics(text).sum("thole_plugin_info", fmt.Sprintf("plugin=%q", plugin), fmt.Sprintf("version=%q", version)) == 1
}

// runsVersion says whether a plugin runs at the version of its file.
func (p *process) runsVersion(plugin *soakPlugin) bool {
	return p.tellsVersion(soakName(plugin.index), plugin.version)
}

// expectUntouched: the plugin that nobody touched was loaded once, and none of
// its runs failed.
func (s *soak) expectUntouched() {
	s.t.Helper()
	_, text := s.host.Ask("/metrics")
	m, name := metrics(text), soakName(0)
	controller := fmt.Sprintf("controller=%q", name+"/main")
	for _, series := range []string{"controller_runtime_reconcile_errors_total", "thole_reconcile_errors_total"} {
		if n := m.sum(series, controller); n != 0 {
			s.t.Errorf("%s of the plugin that was never touched: %v", series, n)
		}
	}
	if n := m.sum("controller_runtime_reconcile_total", controller); n < float64(s.objects/soakPlugins) {
		s.t.Errorf("only %v runs of the plugin that was never touched", n)
	}
	if p := s.host.Plugin(name); p.State != "running" || p.Generation != 1 || p.LastError != "" {
		s.t.Errorf("the plugin that was never touched is %+v", p)
	}
	for i := range soakPlugins {
		name, controller := soakName(i), fmt.Sprintf("controller=%q", soakName(i)+"/main")
		// Not from metrics: a plugin that is removed takes its own along.
		refused := 0
		for _, told := range soakTold {
			refused += len(s.host.Log.With(told, "plugin", name))
		}
		s.t.Logf("%s: %v runs, %v of them failed; started %d times, refused %d times", name,
			m.sum("controller_runtime_reconcile_total", controller), m.sum("controller_runtime_reconcile_errors_total", controller),
			len(s.host.Log.With("plugin runs", "plugin", name)), refused)
	}
}

// soakTold are the errors that bad files lead to.
var soakTold = []string{
	"new generation refused, the last good one goes on", "plugin cannot run",
	"cannot read the plugin directory, keeping the running plugins: create it, or let the user that the host runs as read it",
}

// expectOnlyRefusals: the host has logged no error but of bad files.
func (s *soak) expectOnlyRefusals() {
	s.t.Helper()
	others := slices.DeleteFunc(s.host.Log.Errors(), func(line tholetest.Line) bool {
		return slices.Contains(soakTold, line.String("@message"))
	})
	if len(others) > 0 {
		s.t.Errorf("%d errors in the log that no file is to blame for, the first: %v", len(others), others[0])
	}
}

// head is the beginning of a list.
func head(lines []string) string { return strings.Join(lines[:min(len(lines), 20)], "\n\t") }
