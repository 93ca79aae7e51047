package e2e

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// loadFailures counts the modules of a plugin that failed at a step.
func (p *process) loadFailures(plugin, reason string) int {
	return int(p.Metric(fmt.Sprintf("thole_plugin_load_failures_total{plugin=%q,reason=%q}", plugin, reason)))
}

// expectFailed waits until failed runs of a controller are counted by class,
// which they are when everything else has been told.
func (p *process) expectFailed(t *testing.T, controller, class string) {
	t.Helper()
	series := fmt.Sprintf("thole_reconcile_errors_total{class=%q,controller=%q}", class, controller)
	await.Until(t, "a run of class "+class+" is counted", func() bool { return p.Metric(series) > 0 })
}

// about returns the lines of the log of a level that name a plugin.
func (p *process) about(plugin, level string) (lines []tholetest.Line) {
	for _, line := range p.Log.Since(0) {
		if line["plugin"] == plugin && line["@level"] == level {
			lines = append(lines, line)
		}
	}
	return lines
}

// expectChangesOnly: of what goes on, and is told of several things, a line
// tells a change. No two lines running about the same thing tell the same,
// unless one that says after lies between them.
func expectChangesOnly(t *testing.T, lines []tholetest.Line, message, about, tells, after string) {
	t.Helper()
	told := map[string]string{}
	for _, line := range lines {
		switch thing, now := line.String(about), line.String(tells); {
		case line["@message"] == after:
			delete(told, thing)
		case line["@message"] != message:
		case told[thing] == now:
			t.Errorf("%q of %s %q is told again: %q", message, about, thing, now)
		default:
			told[thing] = now
		}
	}
}

// uninstallCRD removes a CRD and waits until it is gone, so that a test may
// run again.
func uninstallCRD(t *testing.T, name string) {
	t.Helper()
	if err := objects.Resource(crds).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
		return
	}
	await.Until(t, name+" is gone", func() bool {
		_, err := objects.Resource(crds).Get(context.Background(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
