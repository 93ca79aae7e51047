package e2e

import (
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// The plugin waits an hour after a failure: only the end of the outage can run its
// object again within the time of the test.
func TestBackoffOfAnOutageEndsWithIt(t *testing.T) {
	t.Parallel()
	ns, g, p := startPatient(t)
	create(t, stamps, "Stamp", ns, "one", map[string]any{"text": "works"})
	version := func() string { return field(get(t, stamps, ns, "one"), "status", "version") }
	advances := func() {
		t.Helper()
		last := version()
		await.Until(t, "the plugin writes the status", func() bool { now := version(); return now != "" && now != last })
	}
	for _, later := range []string{"two", "three"} {
		advances()
		// Once the host has served a later object, it has also seen its last write
		// of the first one: it would wait for that otherwise.
		create(t, stamps, "Stamp", ns, later, map[string]any{"text": "works"})
		await.Until(t, "the later object is Ready", func() bool { return ready(get(t, stamps, ns, later)) })
		mark := p.Log.Mark()
		g.close()
		await.Until(t, "the next run fails", func() bool {
			return len(p.Log.Since(mark).FailedRuns("object", ns+"/one")) > 0
		})
		g.open()
		advances()
	}
	p.stop()
}

// startPatient starts a host with the plugin patient behind an open gate.
func startPatient(t *testing.T) (ns string, g *gate, p *process) {
	t.Helper()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, g = namespace(t), newGate(t)
	d := newDirectory(t)
	d.install("patient", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"patient"))
	g.open()
	p = start(t, d, ns, "", withKubeconfig(g.kubeconfig()))
	p.awaitRunning("patient", 1)
	return ns, g, p
}

func TestAttemptsOfThePluginEndInStalled(t *testing.T) {
	t.Parallel()
	ns, _, p := startPatient(t)
	create(t, stamps, "Stamp", ns, "one", map[string]any{"text": "fails"})
	await.Until(t, "the object is Stalled", func() bool {
		return condition(get(t, stamps, ns, "one"), "Stalled")["status"] == "True"
	})
	const want = "the text says so (not tried again after 2 attempts)"
	if got := condition(get(t, stamps, ns, "one"), "Ready"); got["message"] != want {
		t.Errorf("Ready is %v, want the message %q", got, want)
	}
	failures := func() float64 { return p.Metrics().Sum("thole_reconcile_errors_total") }
	await.Until(t, "two failures are counted", func() bool { return failures() >= 2 })
	if n := failures(); n != 2 {
		t.Errorf("%v runs failed, want 2", n)
	}
	must(t, patchSpec(t.Context(), stamps, ns, "one", "text", "works"))
	await.Until(t, "the corrected object is Ready", func() bool { return ready(get(t, stamps, ns, "one")) })
	p.stop()
}
