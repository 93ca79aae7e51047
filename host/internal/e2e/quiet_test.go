package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

const scenarioData = "host/internal/scenario/testdata/"

// What an object does by itself, by its timers and its daemon, is counted and not logged: a run
// is a line of level debug, and a step that gives no signal is neither a run nor a line.
func TestTimersAndDaemonsAreCountedAndNotLogged(t *testing.T) {
	t.Parallel()
	clocks := schema.GroupVersionResource{Group: "scenario.thole.dev", Version: "v1", Resource: "clocks"}
	pulses := schema.GroupVersionResource{Group: "scenario.thole.dev", Version: "v1", Resource: "pulses"}
	ns, d := namespace(t), newDirectory(t)
	for _, name := range []string{"clock", "pulse"} {
		installCRD(t, scenarioData+name+"/crd.yaml")
		d.install(name, wasmbuild.Build(t, wasmbuild.TinyGo, scenarioData+name))
	}
	d.installPolicy("pulse", "daemon: {}\nallow: [{groups: [''], kinds: [ConfigMap], verbs: [get, list, watch, create, patch, delete]}]")
	p := start(t, d, ns, allowAll)
	p.awaitRunning("clock", 1)
	p.awaitRunning("pulse", 1)
	create(t, clocks, "Clock", ns, "c", map[string]any{"phase": "one"})
	create(t, pulses, "Pulse", ns, "p", map[string]any{})
	number := func(gvr schema.GroupVersionResource, name, field string) int64 {
		n, _, _ := unstructured.NestedInt64(get(t, gvr, ns, name).Object, "status", field)
		return n
	}
	await.Until(t, "the daemon waits for its feed, and the timer has been due", func() bool {
		return number(pulses, "p", "steps") == 3 && number(clocks, "c", "tocks") == 2
	})
	logged := func(mark int, plugin string) tholetest.Lines {
		return p.Log.Since(mark).Where(func(line tholetest.Line) bool {
			return line["plugin"] == plugin && line["@level"] != "debug" && line["@level"] != "trace"
		})
	}

	t.Run("a timer", func(t *testing.T) {
		runs := func() float64 {
			return p.Metrics().Sum("controller_runtime_reconcile_total", "controller", "clock/clock", "result", "success")
		}
		mark, before := p.Log.Mark(), runs()
		await.Until(t, "the timer has run the object three times more", func() bool { return runs() >= before+3 })
		if lines := logged(mark, "clock"); len(lines) != 0 {
			t.Errorf("runs by a timer are logged: %v", lines)
		}
		if lines := p.Log.Since(mark).Reconciled("object", ns+"/c", "@level", "debug"); len(lines) < 3 {
			t.Errorf("%d runs are logged with level debug", len(lines))
		}
	})

	t.Run("a daemon", func(t *testing.T) {
		steps := func() float64 {
			return p.Metrics().Sum("thole_daemon_steps_total", "controller", "pulse", "result", "success")
		}
		runs := func() float64 {
			return p.Metrics().Sum("controller_runtime_reconcile_total", "controller", "pulse/pulse")
		}
		mark, before := p.Log.Mark(), runs()
		// The daemon has read the feed, whose text stays as it is.
		_, err := clients.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "p-feed"}}, metav1.CreateOptions{})
		must(t, err)
		for i := range 3 {
			after := steps()
			must(t, patch(t.Context(), configMaps, ns, "p-feed", fmt.Sprintf(`{"data":{"other":"%d"}}`, i)))
			await.Until(t, "the daemon has made a step", func() bool { return steps() > after })
		}
		if n := runs() - before; n != 0 {
			t.Errorf("steps without a signal have led to %g runs", n)
		}
		if lines := p.Log.Since(mark).Events("RunEnded", "plugin", "pulse"); len(lines) != 0 {
			t.Errorf("steps without a signal have ended runs: %v", lines)
		}
		if lines := logged(mark, "pulse"); len(lines) != 0 {
			t.Errorf("steps without a signal are logged: %v", lines)
		}
	})
	p.stop()
	p.expectNoErrors()
}
