package e2e

import (
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

var tasks = schema.GroupVersionResource{Group: "scenario.thole.dev", Version: "v1", Resource: "tasks"}

// Two replicas have the same scan. Whoever leads makes it, also after the other one was killed, and counts
// the objects.
func TestTheReplicaThatLeadsScans(t *testing.T) {
	t.Parallel()
	const agenda = "host/internal/scenario/testdata/agenda"
	installCRD(t, agenda+"/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	policy, err := os.ReadFile("../scenario/testdata/agenda/policy.yaml")
	must(t, err)
	d.installFile("agenda.yaml", string(policy))
	d.install("agenda", wasmbuild.Build(t, wasmbuild.TinyGo, agenda))
	replica := func() *process {
		return start(t, d, ns, allowAll, func(h *tholetest.Host) {
			h.Args = append(append(h.Args, "--leader-elect", "--leader-elect-resource-namespace="+ns), failOverSizeOf(t).elect...)
		})
	}
	expect := func(p *process, scans, objects bool) {
		t.Helper()
		await.Until(t, "the metrics show who leads", func() bool {
			m := p.Metrics()
			return m.Sum("thole_scans_total") > 0 == scans && m.Sum("thole_objects") > 0 == objects
		})
	}
	awaitStarted := func(name string) {
		t.Helper()
		await.Until(t, name+" is started", func() bool { return field(get(t, tasks, ns, name), "status", "phase") == "Running" })
	}
	create(t, tasks, "Task", ns, "first", map[string]any{"start": "2026-01-01T00:00:00Z"})
	leader := replica()
	awaitStarted("first")
	standby := replica()
	await.Until(t, "the other replica could take over", func() bool { return standby.Plugin("agenda").State == "standby" })
	expect(leader, true, true)
	expect(standby, false, false)
	leader.kill()
	create(t, tasks, "Task", ns, "second", map[string]any{"start": time.Now().UTC().Format(time.RFC3339)})
	awaitStarted("second")
	expect(standby, true, true)
	for _, name := range []string{"first", "second"} {
		if runs := get(t, tasks, ns, name).Object["status"].(map[string]any)["runs"]; runs != int64(1) {
			t.Errorf("%s was started %v times", name, runs)
		}
	}
}
