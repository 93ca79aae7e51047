package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// TestAGenerationThatTrapsIsRolledBack: a module that loads and traps on every
// object is given up for the generation before, which serves all of them again,
// and is not tried again until the file changes.
func TestAGenerationThatTrapsIsRolledBack(t *testing.T) {
	r := newReplaced(t)
	p, good := r.dir.plugins[1], *r.dir.plugins[1]
	stop := r.keepChanging()
	mark := r.host.Log.Mark()
	r.dir.replace(p, r.dir.modules.trap)
	r.expectRolledBack(mark, 1)
	r.expectServes(t, &good)

	t.Run("not tried again", func(t *testing.T) {
		mark := r.host.Log.Mark()
		r.dir.put(r.dir.policyFile(p), []byte(policyOf("looked at again")))
		await.Until(t, "the policy is in force", func() bool {
			return field(r.expectServes(t, &good), "status", "note") == "looked at again"
		})
		if s := r.host.Plugin(soakName(1)); s.Rollbacks != 1 || s.State != "degraded" {
			t.Errorf("after a change of its policy the plugin is %+v", s)
		}
		if n := len(tholetest.With(r.host.Log.Since(mark), "reconcile failed")); n != 0 {
			t.Errorf("%d runs failed", n)
		}
		r.dir.noPolicy(p)
	})
	t.Run("another one that traps", func(t *testing.T) {
		mark := r.host.Log.Mark()
		r.dir.replace(p, r.dir.modules.trap)
		r.expectRolledBack(mark, 2)
		r.expectServes(t, &good)
	})
	t.Run("when it is told to", func(t *testing.T) {
		mark := r.host.Log.Mark()
		r.host.Signal(syscall.SIGHUP)
		r.expectRolledBack(mark, 3)
		r.expectServes(t, &good)
	})
	t.Run("one that works", func(t *testing.T) {
		r.dir.replace(p, r.dir.modules.plain)
		r.expectServes(t, p)
		if s := r.host.Plugin(soakName(1)); s.State != "running" || s.LastError != "" || s.Rollbacks != 3 {
			t.Errorf("the plugin is %+v", s)
		}
	})
	t.Run("to the one before, not the one before that", func(t *testing.T) {
		sound := *p
		mark := r.host.Log.Mark()
		r.dir.replace(p, r.dir.modules.trap)
		r.expectRolledBack(mark, 4)
		r.expectServes(t, &sound)
		r.dir.replace(p, r.dir.modules.plain)
		r.expectServes(t, p)
	})
	stop()
	await.Until(t, "every object is as the new version wants", func() bool {
		for _, o := range list(t, r.kind, r.ns) {
			if !r.asWanted(&o, p.version) {
				return false
			}
		}
		return true
	})
	_, text := r.host.Ask("/metrics")
	if n := metrics(text).sum("controller_runtime_reconcile_errors_total", fmt.Sprintf("controller=%q", soakName(0)+"/main")); n != 0 {
		t.Errorf("%v runs of the neighbour failed", n)
	}
	r.host.stop()
}

// expectRolledBack: the plugin that is replaced has been rolled back so often,
// which is told in all places.
func (r *replaced) expectRolledBack(mark, times int) {
	r.t.Helper()
	name := soakName(1)
	await.Until(r.t, fmt.Sprintf("/plugins tells of rollback %d", times), func() bool { return r.host.Plugin(name).Rollbacks == times })
	s := r.host.Plugin(name)
	if s.State != "degraded" || s.RejectedFor != "probation" || s.LastError == "" {
		r.t.Errorf("/plugins says %+v", s)
	}
	r.t.Log(s.LastError)
	if lines := tholetest.With(r.host.Log.Since(mark), "rolled back to the generation before, the new one does worse", "plugin", name); len(lines) != 1 {
		r.t.Errorf("the log tells it in %d lines", len(lines))
	}
	await.Until(r.t, "it is counted", func() bool {
		// A policy for a module that was rolled back counts once more.
		return int(r.host.Metric(fmt.Sprintf("thole_plugin_rollbacks_total{plugin=%q}", name))) == times &&
			r.host.loadFailures(name, "probation") >= times
	})
	r.expectEvent(r.t, "PluginRolledBack")
}
