package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// breaker is what /plugins tells of one.
type breaker struct {
	State, Reason    string
	Since, NextProbe time.Time
	LastFault        struct {
		Controller, Object, Class, Message string
		Stack                              []string
		Fuel                               int64
		MemoryBytes                        uint64
	}
}

// breaker returns that of a plugin that runs.
func (p *process) breaker(plugin string) (b breaker) {
	p.t.Helper()
	await.Until(p.t, "/plugins tells of the breaker of "+plugin, func() bool {
		var all []struct {
			Name    string
			Breaker *breaker
		}
		_, body := p.Ask("/plugins")
		if json.Unmarshal([]byte(body), &all) != nil {
			return false
		}
		for _, s := range all {
			if s.Name == plugin && s.Breaker != nil {
				b = *s.Breaker
				return true
			}
		}
		return false
	})
	return b
}

// TestABrokenPluginIsSlowedDown has one that panics for every object, and a
// neighbour: its breaker opens, the neighbour works as ever, and everything is
// Ready once the objects are corrected, and again once the plugin is replaced.
func TestABrokenPluginIsSlowedDown(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	installCRD(t, "host/internal/e2e/testdata/badinput/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	d.install("mood", wasmbuild.Build(t, wasmbuild.TinyGo, "host/internal/e2e/testdata/badinput"))
	p := thole(t, d, ns, "limits: {writesPerSecond: 200, writeBurst: 200}")
	p.ready("podmanager", 1)
	p.ready("mood", 1)
	if b := p.breaker("mood"); b.State != "closed" || b.Since.IsZero() || b.Reason != "" {
		t.Errorf("at first the breaker is %+v", b)
	}

	var names []string
	for i := range 15 {
		name := fmt.Sprintf("bad-%d", i)
		names = append(names, name)
		primary(t, moods, "Mood", ns, name, map[string]any{"mood": "panic"})
	}
	p.expectOpen(t, 0)
	p.expectToldAsPanic(t, ns, names)
	for _, name := range []string{"one", "two", "three"} {
		p.works(t, ns, name)
	}
	if s := p.breaker("podmanager").State; s != "closed" {
		t.Errorf("the neighbour's breaker is %s", s)
	}
	primary(t, moods, "Mood", ns, "good", map[string]any{"mood": "good"})
	await.Until(t, "a good object is Ready between the bad ones", func() bool { return ready(get(t, moods, ns, "good")) })
	p.alive(t, 200)

	for _, name := range names {
		done(t, patchSpec(t.Context(), moods, ns, name, "mood", "good"))
	}
	p.expectAllReady(t, ns, len(names)+1)
	await.Until(t, "the breaker is closed", func() bool { return p.breaker("mood").State == "closed" })
	// It may have closed for the first ones and opened for the others.
	opened := int(p.Metric(openings))
	if n := len(p.Log.With("circuit breaker closed, the plugin runs as before", "plugin", "mood")); n != opened {
		t.Errorf("%d lines say that it closed, which had opened %d times", n, opened)
	}

	for _, name := range names {
		done(t, patchSpec(t.Context(), moods, ns, name, "mood", "panic"))
	}
	p.expectOpen(t, opened)
	d.install("mood", plugin("mood", abi.Controller{Name: "mood", For: abi.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Mood"}}))
	p.ready("mood", 2)
	p.expectAllReady(t, ns, len(names)+1)
	if b := p.breaker("mood"); b.State != "closed" || b.LastFault.Class != "" {
		t.Errorf("the breaker of the new generation is %+v", b)
	}
}

// openings counts those of the breaker of mood.
const openings = `thole_breaker_openings_total{plugin="mood"}`

// expectOpen waits until the breaker of mood has opened more often than that,
// and returns how often.
func (p *process) expectOpen(t *testing.T, before int) (opened int) {
	t.Helper()
	await.Until(t, "the breaker opens", func() bool { opened = int(p.Metric(openings)); return opened > before })
	var b breaker
	await.Until(t, "it is open", func() bool { b = p.breaker("mood"); return b.State == "open" })
	if !strings.Contains(b.Reason, "objects failed through the plugin itself") || b.NextProbe.Before(b.Since) {
		t.Errorf("the breaker is %+v", b)
	}
	await.Until(t, "a line for each says that it opened", func() bool {
		lines := slices.DeleteFunc(p.about("mood", "error"), func(line tholetest.Line) bool {
			return !strings.HasPrefix(line.String("@message"), "circuit breaker opened")
		})
		return len(lines) == opened
	})
	await.Until(t, "the metrics tell it", func() bool {
		return p.Metric(`thole_breaker_state{plugin="mood",state="closed"}`) == 0 &&
			p.Metric(`thole_breaker_state{plugin="mood",state="open"}`)+p.Metric(`thole_breaker_state{plugin="mood",state="half-open"}`) == 1
	})
	return opened
}

// expectToldAsPanic: an object that ran, the log and /plugins name the panic,
// where it was and what it took.
func (p *process) expectToldAsPanic(t *testing.T, ns string, names []string) {
	t.Helper()
	var message string
	await.Until(t, "an object tells the panic", func() bool {
		at := slices.IndexFunc(names, func(name string) bool {
			return condition(get(t, moods, ns, name), "Ready")["reason"] == "Panic"
		})
		if at >= 0 {
			message, _ = condition(get(t, moods, ns, names[at]), "Ready")["message"].(string)
		}
		return at >= 0
	})
	f := p.breaker("mood").LastFault
	if f.Class != "panic" || f.Controller != "mood" || !strings.HasPrefix(f.Object, ns+"/bad-") || f.Fuel == 0 || f.MemoryBytes == 0 || len(f.Stack) == 0 {
		t.Errorf("/plugins tells of %+v", f)
	}
	lines := p.Log.With("reconcile failed", "plugin", "mood", "class", "panic")
	if len(lines) == 0 {
		t.Fatal("the log does not tell it")
	}
	line := lines[0]
	if fuel, _ := line["fuel"].(float64); fuel == 0 || line["memoryBytes"] == nil || !strings.Contains(fmt.Sprint(line["stack"]), "main.reconcile") {
		t.Errorf("the log tells %v", line)
	}
	for who, text := range map[string]string{"object": message, "log": line.String("message")} {
		if !strings.Contains(text, "this mood is too bad") || !strings.Contains(text, "main.reconcile") {
			t.Errorf("the %s says %q", who, text)
		}
	}
	t.Log(message)
}

func (p *process) expectAllReady(t *testing.T, ns string, n int) {
	t.Helper()
	await.Until(t, "every object is Ready", func() bool {
		all := list(t, moods, ns)
		return len(all) == n && !slices.ContainsFunc(all, func(o unstructured.Unstructured) bool { return !ready(&o) })
	})
}
