package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// A plugin stores as much as its policy allows, also after a restart of the host. Its
// objects tell why it goes no further, and it goes on when some of what it has stored is gone.
func TestAPluginStoresNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	installCRD(t, "host/internal/e2e/testdata/badinput/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("mood", wasmbuild.Build(t, wasmbuild.TinyGo, "host/internal/e2e/testdata/badinput"))
	d.installPolicy("mood", "limits: {storedMiB: 3}\n")
	p := start(t, d, ns, "")
	p.awaitRunning("mood", 1)
	const objects = 6
	for i := range objects {
		createMood(t, ns, fmt.Sprint("huge-", i), "huge child")
	}
	// states returns the objects that are Ready, and those that are refused.
	states := func() (ready, refused []string) {
		for i := range objects {
			o := get(t, moods, ns, fmt.Sprint("huge-", i))
			if o == nil {
				continue
			}
			c := condition(o, "Ready")
			message, _ := c["message"].(string)
			switch {
			case c["status"] == "True":
				ready = append(ready, o.GetName())
			case c["reason"] == "StoredLimit" && strings.Contains(message, "limits.storedMiB"):
				refused = append(refused, o.GetName())
			}
		}
		return ready, refused
	}
	await.Until(t, "three are stored, and the others tell why not", func() bool {
		ready, refused := states()
		return len(ready) == 3 && len(refused) == 3
	})
	if n := p.Metrics().Sum("thole_plugin_limit_hits_total", "plugin", "mood", "limit", "stored"); n < 3 {
		t.Errorf("%v hits", n)
	}
	p.stop()

	p = start(t, d, ns, "")
	p.awaitRunning("mood", 1)
	await.Until(t, "the restarted host has counted what is stored", func() bool {
		n := p.Metrics().Sum("thole_plugin_stored_bytes", "plugin", "mood")
		return n > 2.9e6 && n < 3.3e6
	})
	ready, refused := states()
	if len(ready) != 3 || len(refused) != 3 {
		t.Errorf("after a restart %d are stored, %d are not", len(ready), len(refused))
	}
	for _, name := range ready[:2] {
		remove(t, moods, ns, name)
	}
	await.Until(t, "two others are stored", func() bool {
		ready, _ := states()
		return len(ready) == 3
	})
	p.stop()
}

// A plugin replaces a large object by a small one and back, again and again. It never has
// much stored, and is stopped when it has written as much as its policy allows.
func TestAPluginReplacesNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"badinput/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("mood", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"badinput"))
	d.installPolicy("mood", "limits: {churnMiB: 3}\n")
	p, proxy := startWithProxy(t, d, ns, "")
	p.awaitRunning("mood", 1)
	createMood(t, ns, "replaced", "huge child")
	hits := func() float64 {
		return p.Metrics().Sum("thole_plugin_limit_hits_total", "plugin", "mood", "limit", "churn")
	}
	for i := 0; hits() == 0; i++ {
		if i == 12 {
			t.Fatalf("the plugin has written 6 MiB in %d writes", proxy.Succeeded("configmaps").Writes())
		}
		await.Until(t, "the object is Ready, or the limit is reached", func() bool {
			return hits() > 0 || ready(get(t, moods, ns, "replaced"))
		})
		must(t, patchSpec(t.Context(), moods, ns, "replaced", "mood", []string{"good", "huge child"}[i%2]))
	}
	await.Until(t, "the log tells which limit it is", func() bool {
		return len(p.Log.Events("RunEnded", "plugin", "mood", "reason", "ChurnLimit")) > 0
	})
	p.stop()
}
