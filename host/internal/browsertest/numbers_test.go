package browsertest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// The page of a plugin shows what /metrics has.
func testNumbers(t *testing.T, s *scene) {
	b := newTab(t)
	const rows = `[...document.querySelectorAll("#controllers tbody tr")].map((row) => [row.querySelector("th"),
		...["Queued", "Running", "Runs", "Errors"].map((name) => row.querySelector("[data-label=" + name + "]"))].map((cell) => cell.innerText).join(" "))`
	for plugin, controllers := range map[string][]string{"billing": {"invoices", "settings"}, "podmanager": {"podmanager"}} {
		var shown, want []string
		if !await.Poll(await.Limit, func() bool { // a page may be a second old, and something may run meanwhile
			want = fromMetrics(s.Metrics(), plugin, controllers)
			b.open(s, "/ui/plugins/"+plugin)
			shown = eval[[]string](b, rows)
			return slices.Equal(shown, want)
		}) {
			t.Errorf("the page of %s shows %q, the metrics have %q", plugin, shown, want)
		}
		if m := s.Metrics(); m.Sum("controller_runtime_reconcile_errors_total", "controller", plugin+"/"+controllers[0]) == 0 {
			t.Errorf("%s has no errors to show", plugin)
		}
	}
}

func fromMetrics(m tholetest.Metrics, plugin string, controllers []string) (rows []string) {
	for _, name := range controllers {
		id := plugin + "/" + name
		rows = append(rows, fmt.Sprintf("%s %.0f %.0f of %.0f %.0f %.0f", name, m.Sum("workqueue_depth", "name", id),
			m.Sum("controller_runtime_active_workers", "controller", id), m.Sum("controller_runtime_max_concurrent_reconciles", "controller", id),
			m.Sum("controller_runtime_reconcile_total", "controller", id), m.Sum("controller_runtime_reconcile_errors_total", "controller", id)))
	}
	return rows
}
