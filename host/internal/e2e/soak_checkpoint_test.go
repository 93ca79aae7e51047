package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// checkpoint waits until every object is as the running revision of its plugin
// wants it, and expects that no recorded version of an object is wrong. Nothing
// must change meanwhile.
func (s *soak) checkpoint(when string) {
	s.t.Helper()
	s.dir.logf("checkpoint %s", when)
	for _, p := range s.dir.plugins {
		s.awaitConverged(when, p)
	}
	if wrong := s.recorder.check(); len(wrong) > 0 {
		s.t.Fatalf("%s: %d problems: %s", when, len(wrong), firstLines(wrong))
	}
}

// awaitConverged waits until all objects of a plugin are as they must be. If the
// present files are valid, they must run. Otherwise the previous revision keeps
// running: one that was valid at some time since the last checkpoint, under the
// present policy if that is valid.
func (s *soak) awaitConverged(when string, p *soakPlugin) {
	s.t.Helper()
	var outdated []string
	var version, note string
	s.t.Cleanup(func() {
		if s.t.Failed() && len(outdated) > 0 {
			s.t.Logf("%s, %s: %d objects are outdated: %s", when, p.name(), len(outdated), firstLines(outdated))
		}
	})
	versions, notes := p.versions, p.notes
	if p.valid() {
		versions = map[string]bool{p.version: true}
	}
	if p.policyValid {
		notes = map[string]bool{p.note: true}
	}
	await.Within(s.t, 5*await.Limit, fmt.Sprintf("%s: the objects of %s are of %v and %q; %v",
		when, p.name(), slices.Collect(maps.Keys(versions)), slices.Collect(maps.Keys(notes)), p), func() bool {
		state := s.host.Plugin(p.name())
		switch {
		case state.State == "loading" || state.State == "draining":
			return false
		case p.valid() && (!state.Serving() || state.LastError != ""):
			return false // it must run
		case !p.present && state.Name != "":
			return false // it must be gone
		case p.present && !p.valid() && state.LastError == "":
			return false // it must be refused
		case !state.Serving():
			outdated, version = nil, ""
			return !p.keepsRunning // without a running revision the objects stay as they are
		}
		outdated, version, note = s.recorder.outdated(p.index, versions, notes)
		return len(outdated) == 0 && s.host.runsVersion(p.name(), version)
	})
	p.settle(version, note)
}

func (p *soakPlugin) String() string {
	return fmt.Sprintf("file present %t, loadable %t, policy valid %t, keeps running %t",
		p.present, p.loadable, p.policyValid, p.keepsRunning)
}

// runsVersion reports whether the metrics show that version of a plugin as running.
func (p *process) runsVersion(plugin, version string) bool {
	return p.Metrics().Sum("thole_plugin_info", "plugin", plugin, "version", version) == 1
}

// expectFirstUndisturbed expects that the first plugin, whose files never changed,
// was loaded once and that none of its runs failed.
func (s *soak) expectFirstUndisturbed() {
	s.t.Helper()
	m, controller := s.host.Metrics(), soakName(0)+"/main"
	for _, name := range []string{"controller_runtime_reconcile_errors_total", "thole_reconcile_errors_total"} {
		if n := m.Sum(name, "controller", controller); n != 0 {
			s.t.Errorf("%s of the plugin that never changed: %v", name, n)
		}
	}
	if n := m.Sum("controller_runtime_reconcile_total", "controller", controller); n < float64(s.objects/soakPlugins) {
		s.t.Errorf("only %v runs of the plugin that never changed", n)
	}
	if p := s.host.Plugin(soakName(0)); p.State != "running" || p.Revision != 1 || p.LastError != "" {
		s.t.Errorf("the plugin that never changed is %+v", p)
	}
	for i := range soakPlugins {
		name, controller := soakName(i), soakName(i)+"/main"
		// Loads are counted in the log, because a removed plugin has no metrics.
		s.t.Logf("%s: %v runs, %v failed; started %d times, refused %d times", name,
			m.Sum("controller_runtime_reconcile_total", "controller", controller),
			m.Sum("controller_runtime_reconcile_errors_total", "controller", controller),
			len(s.host.Log.Events("PluginStarted", "plugin", name)), len(s.host.Log.Events("PluginRefused", "plugin", name)))
	}
}

// expectOnlyFileErrors expects that the host has logged no error except for refused
// plugins and for the directory while it was away.
func (s *soak) expectOnlyFileErrors() {
	s.t.Helper()
	others := s.host.Log.Errors().Where(func(line tholetest.Line) bool {
		return line["event"] != "PluginRefused" && line["@module"] != "thole.source"
	})
	if len(others) > 0 {
		s.t.Errorf("%d errors in the log that are not about files, the first: %v", len(others), others[0])
	}
}

// firstLines joins the first lines of a long list.
func firstLines(lines []string) string { return strings.Join(lines[:min(len(lines), 20)], "\n\t") }
