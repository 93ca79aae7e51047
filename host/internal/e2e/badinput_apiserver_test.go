package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// The API server is unavailable when the host starts, and later in every way in
// which it can become unavailable. The host stays live, reports each outage once,
// and catches up with what happened meanwhile.
func TestHostRecoversFromOutagesOfTheAPIServer(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d, g := namespace(t), newDirectory(t), newGate(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p := start(t, d, ns, "", withKubeconfig(g.kubeconfig()))

	t.Run("at the start", func(t *testing.T) {
		await.Until(t, "the plugin waits", func() bool { return p.Plugin("podmanager").State == "waiting" })
		want := "the API server at " + g.address + " cannot be reached (connect: connection refused), " +
			"trying again: check that it runs and that --kubeconfig names it"
		if got := p.Plugin("podmanager").LastError; got != want {
			t.Errorf("lastError is %s\nwant %s", got, want)
		}
		await.Until(t, "several attempts have failed", func() bool {
			return p.Metrics().Sum("rest_client_requests_total", "code", "<error>", "host", g.address, "method", "GET") > 2
		})
		p.expectHealth(t, http.StatusServiceUnavailable)
		if waits := p.Log.Events("PluginWaiting", "plugin", "podmanager"); len(waits) != 1 {
			t.Errorf("one reason to wait is logged as %v", waits)
		}
		g.open()
		p.expectHealth(t, http.StatusOK)
		p.awaitRunning("podmanager", 1)
		expectServed(t, ns, "at-the-start")
	})
	// watchFailures returns the log of the informers since a mark.
	watchFailures := func(mark int) tholetest.Lines { return p.Log.Since(mark).With("@module", "thole.cache") }
	mark := 0
	for _, c := range []struct {
		name       string
		begin, end func()
		noticed    func() bool // by the host; nil if the outage is over after begin
	}{
		{"connections refused", g.close, g.open, func() bool {
			problems := p.Plugin("podmanager").CannotFollow
			return len(problems) == 2 && strings.Contains(problems[0], "connection refused") &&
				len(watchFailures(mark).With("reason", "ConnectionRefused")) == 2
		}},
		{"no response", g.freeze, g.thaw, func() bool {
			status, _ := p.Get("/readyz")
			return status == http.StatusServiceUnavailable
		}},
		{"restart", func() { must(t, cluster.Restart()) }, func() {}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := outage{t: t, ns: ns, prefix: strings.ReplaceAll(c.name, " ", "-")}
			o.createObjects()
			mark = p.Log.Mark()
			c.begin()
			o.changeObjects()
			if c.noticed != nil {
				await.Until(t, "the host notices the outage", c.noticed)
				o.expectNoCleanup()
			}
			c.end()
			o.expectConverged()
			p.expectHealth(t, http.StatusOK)
			await.Until(t, "both kinds are watched again", func() bool { return len(p.Plugin("podmanager").CannotFollow) == 0 })
			expectNoRepetition(t, watchFailures(mark), "kind", "reason")
		})
	}
	p.stop()
}

// outage changes objects while the host cannot reach the API server.
type outage struct {
	t          *testing.T
	ns, prefix string
}

func (o outage) name(suffix string) string { return o.prefix + "-" + suffix }

// createObjects creates objects before the outage.
func (o outage) createObjects() {
	for _, suffix := range []string{"changed", "deleted", "podless"} {
		expectServed(o.t, o.ns, o.name(suffix))
	}
	// The outage begins at any moment of the run for this one.
	createPodManager(o.t, o.ns, o.name("in-progress"), "a:1")
}

// changeObjects changes objects during the outage.
func (o outage) changeObjects() {
	must(o.t, patchSpec(o.t.Context(), podManagers, o.ns, o.name("changed"), "image", "a:2"))
	remove(o.t, podManagers, o.ns, o.name("deleted"))
	remove(o.t, pods, o.ns, o.name("podless"))
	createPodManager(o.t, o.ns, o.name("new"), "a:1")
}

func (o outage) expectNoCleanup() {
	if get(o.t, podManagers, o.ns, o.name("deleted")) == nil {
		o.t.Error("the host has cleaned up an object during the outage: the test does not separate it from the API server")
	}
}

// expectConverged waits until the host has caught up.
func (o outage) expectConverged() {
	o.t.Helper()
	await.Until(o.t, "every object is as wanted", func() bool {
		for suffix, image := range map[string]string{"changed": "a:2", "podless": "a:1", "in-progress": "a:1", "new": "a:1"} {
			if !served(o.t, o.ns, o.name(suffix), image) {
				return false
			}
		}
		return get(o.t, podManagers, o.ns, o.name("deleted")) == nil && get(o.t, pods, o.ns, o.name("deleted")) == nil
	})
}
