package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// The circuit breaker of a plugin that panics for every object opens. Another
// plugin works as before. Every object becomes Ready once the objects are
// corrected, and once the plugin is replaced.
func TestCircuitBreakerOpensForPluginThatPanicsForEveryObject(t *testing.T) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	installCRD(t, "host/internal/e2e/testdata/badinput/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	d.install("mood", wasmbuild.Build(t, wasmbuild.TinyGo, "host/internal/e2e/testdata/badinput"))
	p := start(t, d, ns, "")
	p.awaitRunning("podmanager", 1)
	p.awaitRunning("mood", 1)
	if b := p.breaker("mood"); b.State != "closed" || b.Since.IsZero() || b.Reason != "" {
		t.Errorf("at first the breaker is %+v", b)
	}

	var names []string
	for i := range 15 {
		name := fmt.Sprintf("bad-%d", i)
		names = append(names, name)
		createMood(t, ns, name, "panic")
	}
	p.expectMoodOpen(t, 0)
	p.expectPanicReported(t, ns, names)
	for _, name := range []string{"one", "two", "three"} {
		expectServed(t, ns, name)
	}
	if s := p.breaker("podmanager").State; s != "closed" {
		t.Errorf("the breaker of the other plugin is %s", s)
	}
	createMood(t, ns, "good", "good")
	await.Until(t, "a good object of the same plugin is Ready", func() bool { return ready(get(t, moods, ns, "good")) })
	p.expectHealth(t, http.StatusOK)

	setMood(t, ns, names, "good")
	p.expectMoodsReady(t, ns, len(names)+1)
	await.Until(t, "the breaker is closed", func() bool { return p.breaker("mood").State == "closed" })
	// It may have closed after the first good runs and opened again.
	opened := p.openings()
	if closed := p.Log.Events("PluginRecovered", "plugin", "mood"); len(closed) != opened {
		t.Errorf("the breaker has opened %d times and is logged to have closed %d times", opened, len(closed))
	}

	setMood(t, ns, names, "panic")
	p.expectMoodOpen(t, opened)
	kind := abi.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Mood"}
	d.install("mood", emptyPlugin("mood", abi.Controller{Name: "mood", For: kind.All()}))
	p.awaitRunning("mood", 2)
	p.expectMoodsReady(t, ns, len(names)+1)
	if b := p.breaker("mood"); b.State != "closed" || b.LastFault.Class != "" {
		t.Errorf("the breaker of the new revision is %+v", b)
	}
}

// One tenant has objects for which the plugin panics, and touches them without a pause. While the
// breaker is open, the objects of another tenant, old and new, are served in seconds.
func TestBadObjectsOfATenantDelayNoOtherTenant(t *testing.T) {
	t.Parallel()
	installCRD(t, "host/internal/e2e/testdata/badinput/crd.yaml")
	bad, good, d := namespace(t), namespace(t), newDirectory(t)
	d.install("mood", wasmbuild.Build(t, wasmbuild.TinyGo, "host/internal/e2e/testdata/badinput"))
	p := start(t, d, "", fmt.Sprintf("allow: {namespaces: {mood: [%s, %s]}}", bad, good))
	p.awaitRunning("mood", 1)
	createMood(t, good, "old", "good")
	await.Until(t, "the object has run", func() bool { return ready(get(t, moods, good, "old")) })

	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("bad-%d", i))
		createMood(t, bad, names[i], "panic")
	}
	p.expectMoodOpen(t, 0)
	defer touch(t, bad, names)()
	for round := range 3 {
		began := time.Now()
		must(t, patchSpec(t.Context(), moods, good, "old", "ballast", strings.Repeat("x", round+1)))
		createMood(t, good, fmt.Sprint("new-", round), "good")
		await.Until(t, "the new object is Ready", func() bool { return ready(get(t, moods, good, fmt.Sprint("new-", round))) })
		await.Until(t, "the old object is served", func() bool { return ready(get(t, moods, good, "old")) })
		if waited := time.Since(began); waited > 5*time.Second {
			t.Errorf("they waited for %s", waited)
		}
	}
	if state := p.breaker("mood").State; state == "closed" {
		t.Error("the breaker has closed")
	}
}

// touch changes objects one after the other until the returned function is called.
func touch(t *testing.T, ns string, names []string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			if err := patchSpec(ctx, moods, ns, names[n%len(names)], "ballast", fmt.Sprint(n)); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

func setMood(t *testing.T, ns string, names []string, mood string) {
	t.Helper()
	for _, name := range names {
		must(t, patchSpec(t.Context(), moods, ns, name, "mood", mood))
	}
}

// breaker returns the circuit breaker of a plugin that runs.
func (p *process) breaker(plugin string) (b tholetest.Breaker) {
	p.tb.Helper()
	await.Until(p.tb, "/plugins shows the breaker of "+plugin, func() bool {
		shown := p.Plugin(plugin).Breaker
		if shown != nil {
			b = *shown
		}
		return shown != nil
	})
	return b
}

// openings returns how often the breaker of mood has opened.
func (p *process) openings() int {
	return int(p.Metrics().Sum("thole_breaker_openings_total", "plugin", "mood"))
}

// expectMoodOpen waits until the breaker of mood has opened more often than before,
// and expects that this is reported in /plugins, the log and the metrics.
func (p *process) expectMoodOpen(t *testing.T, before int) {
	t.Helper()
	opened := 0
	await.Until(t, "the breaker opens", func() bool { opened = p.openings(); return opened > before })
	var b tholetest.Breaker
	await.Until(t, "the breaker is open", func() bool { b = p.breaker("mood"); return b.State == "open" })
	if !strings.Contains(b.Reason, "objects failed through the plugin itself") || b.NextProbe.Before(b.Since) {
		t.Errorf("the breaker is %+v", b)
	}
	await.Until(t, "every opening is logged", func() bool {
		lines := p.Log.Events("PluginQuarantined", "plugin", "mood", "controller", "mood", "class", "panic")
		return len(lines) == opened && lines[opened-1].String("reason") != "" && strings.Contains(lines[opened-1].String("object"), "/bad-")
	})
	await.Until(t, "the metrics have the state", func() bool {
		state := func(s string) float64 { return p.Metrics().Sum("thole_breaker_state", "plugin", "mood", "state", s) }
		return state("closed") == 0 && state("open")+state("half-open") == 1
	})
}

// expectPanicReported expects that the condition of an object, the log and /plugins
// name the panic and where it happened, and that the latter two have what the run
// used.
func (p *process) expectPanicReported(t *testing.T, ns string, names []string) {
	t.Helper()
	var message string
	await.Until(t, "a condition has the reason Panic", func() bool {
		for _, name := range names {
			if ready := condition(get(t, moods, ns, name), "Ready"); ready["reason"] == "Panic" {
				message, _ = ready["message"].(string)
				return true
			}
		}
		return false
	})
	f := p.breaker("mood").LastFault
	if f.Class != "panic" || f.Controller != "mood" || !strings.HasPrefix(f.Object, ns+"/bad-") ||
		f.Fuel == 0 || f.MemoryBytes == 0 || len(f.Stack) == 0 {
		t.Errorf("/plugins shows the fault %+v", f)
	}
	runs := p.Log.Events("RunEnded", "plugin", "mood", "class", "panic")
	if len(runs) == 0 {
		t.Fatal("no run with a panic is logged")
	}
	run := runs[0]
	fuel, _ := run["fuel"].(float64)
	memory, _ := run["memoryBytes"].(float64)
	if fuel == 0 || memory == 0 || !strings.Contains(fmt.Sprint(run["stack"]), "main.reconcile") {
		t.Errorf("the run is logged as %v", run)
	}
	for where, text := range map[string]string{"condition": message, "log": run.String("message")} {
		if !strings.Contains(text, "main.reconcile") {
			t.Errorf("the message in the %s is %q", where, text)
		}
	}
	const said = "this mood is too bad" // it may be anything that the plugin has read
	_, plugins := p.Get("/plugins")
	if strings.Contains(message, said) || strings.Contains(plugins, said) || !strings.Contains(run.String("printed"), said) {
		t.Errorf("the panic's text is in the log as %q, in the condition as %q, in /plugins as\n%s", run.String("printed"), message, plugins)
	}
	for _, name := range names {
		for _, e := range eventsAbout(t, ns, name) {
			if strings.Contains(e.Message, said) {
				t.Errorf("the panic's text is in the Event %s: %s", e.Reason, e.Message)
			}
		}
	}
	t.Log(message)
}

func (p *process) expectMoodsReady(t *testing.T, ns string, n int) {
	t.Helper()
	await.Until(t, "every object is Ready", func() bool {
		all := list(t, moods, ns)
		return len(all) == n && !slices.ContainsFunc(all, func(o unstructured.Unstructured) bool { return !ready(&o) })
	})
}
