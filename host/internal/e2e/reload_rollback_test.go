package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
)

// A module that loads, but traps for every object, is replaced by the previous
// revision, which serves all objects again. The module is not tried again until the
// file changes or an administrator asks for it.
func TestRevisionThatTrapsIsRolledBack(t *testing.T) {
	t.Parallel()
	r := newReloaded(t)
	p, good := r.dir.plugins[1], *r.dir.plugins[1]
	stop := r.keepChanging()
	mark := r.host.Log.Mark()
	r.dir.replace(p, r.dir.modules.trap)
	r.expectRolledBack(mark, 1)
	r.expectServedBy(t, &good)

	t.Run("changed policy does not try the module again", func(t *testing.T) {
		mark := r.host.Log.Mark()
		replaceFile(t, r.dir.policyFile(p), []byte(policyWith("new policy")))
		await.Until(t, "the policy is in force", func() bool {
			return field(r.expectServedBy(t, &good), "status", "note") == "new policy"
		})
		if s := r.host.Plugin(p.name()); s.Rollbacks != 1 || s.State != "degraded" {
			t.Errorf("after a change of its policy the plugin is %+v", s)
		}
		if failed := r.host.Log.Since(mark).FailedRuns(); len(failed) != 0 {
			t.Errorf("failed runs: %v", failed)
		}
		r.dir.removePolicy(p)
	})
	t.Run("another module that traps is rolled back", func(t *testing.T) {
		mark := r.host.Log.Mark()
		r.dir.replace(p, r.dir.modules.trap)
		r.expectRolledBack(mark, 2)
		r.expectServedBy(t, &good)
	})
	t.Run("SIGHUP tries the module again", func(t *testing.T) {
		mark := r.host.Log.Mark()
		r.host.Signal(syscall.SIGHUP)
		r.expectRolledBack(mark, 3)
		r.expectServedBy(t, &good)
	})
	t.Run("module that works is kept", func(t *testing.T) {
		r.dir.replace(p, r.dir.modules.plain)
		r.expectServedBy(t, p)
		if s := r.host.Plugin(p.name()); s.State != "running" || s.LastError != "" || s.Rollbacks != 3 {
			t.Errorf("the plugin is %+v", s)
		}
	})
	t.Run("rollback leads to the newest revision that worked", func(t *testing.T) {
		newest := *p
		mark := r.host.Log.Mark()
		r.dir.replace(p, r.dir.modules.trap)
		r.expectRolledBack(mark, 4)
		r.expectServedBy(t, &newest)
		r.dir.replace(p, r.dir.modules.plain)
		r.expectServedBy(t, p)
	})
	stop()
	await.Until(t, "every object is as the last version wants it", func() bool {
		for _, o := range list(t, r.kind, r.ns) {
			if !r.isFrom(&o, p.version) {
				return false
			}
		}
		return true
	})
	if n := r.host.Metrics().Sum("controller_runtime_reconcile_errors_total", "controller", soakName(0)+"/main"); n != 0 {
		t.Errorf("%v runs of the other plugin failed", n)
	}
	r.host.stop()
}

// expectRolledBack expects that the reloaded plugin has been rolled back so many
// times, the last time after the mark, and that this is reported everywhere.
func (r *reloaded) expectRolledBack(mark, times int) {
	r.t.Helper()
	name := soakName(1)
	await.Until(r.t, fmt.Sprintf("there are %d rollbacks", times), func() bool { return r.host.Plugin(name).Rollbacks == times })
	s := r.host.Plugin(name)
	if s.State != "degraded" || s.FailedStep != "probation" || s.LastError == "" {
		r.t.Errorf("/plugins shows %+v", s)
	}
	r.t.Log(s.LastError)
	lines := r.host.Log.Since(mark).Events("PluginRolledBack", "plugin", name)
	if len(lines) != 1 || lines[0]["toRevision"] != float64(s.Revision) || lines[0].String("reason") == "" {
		r.t.Errorf("the rollback to revision %d is logged as %v", s.Revision, lines)
	}
	await.Until(r.t, "the rollback is counted", func() bool {
		// A change of the policy beside a rejected module counts as a failure of the
		// module once more.
		return int(r.host.Metrics().Sum("thole_plugin_rollbacks_total", "plugin", name)) == times &&
			r.host.loadFailures(name, "probation") >= times
	})
	awaitPodEvent(r.t, r.pod, "Warning", "PluginRolledBack", fmt.Sprintf("plugin %q", name))
}
