package e2e

import (
	"net/http"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// TestTheAPIServerIsAway: when the host starts, and in every way in which it
// can go later. The host lives, says so once, and takes up what happened
// meanwhile.
func TestTheAPIServerIsAway(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d, door := namespace(t), newDirectory(t), newDoor(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p := tholeOn(t, door.kubeconfig(), d, ns, "limits: {writesPerSecond: 200, writeBurst: 200}")

	t.Run("from the start", func(t *testing.T) {
		await.Until(t, "the plugin waits", func() bool { return p.Plugin("podmanager").State == "waiting" })
		want := "the API server at " + door.address + " cannot be reached (connect: connection refused); asking again: see that it runs and that --kubeconfig names it"
		if told := p.Plugin("podmanager").LastError; told != want {
			t.Errorf("/plugins says %s", told)
		}
		await.Until(t, "it was tried several times", func() bool {
			return p.Metric(`rest_client_requests_total{code="<error>",host="`+door.address+`",method="GET"}`) > 2
		})
		p.alive(t, http.StatusServiceUnavailable)
		if n := len(p.Log.With("plugin waits", "plugin", "podmanager")); n != 1 {
			t.Errorf("told %d times", n)
		}
		door.open()
		p.alive(t, http.StatusOK)
		p.ready("podmanager", 1)
		p.works(t, ns, "from-the-start")
	})
	mark := 0 // of the log, before the API server went
	for _, away := range []struct {
		name            string
		leave, comeBack func()
		noticed         func() bool
	}{
		{"refusing", door.close, door.open, func() bool {
			kinds := map[string]bool{}
			for _, line := range tholetest.With(p.Log.Since(mark), cannotFollow, "reason", "ConnectionRefused") {
				kinds[line.String("kind")] = true
			}
			return len(kinds) == 2
		}},
		{"silent", door.freeze, door.thaw, func() bool { status, _ := p.Ask("/readyz"); return status == http.StatusServiceUnavailable }},
		{"restarted", func() { done(t, cluster.Restart()) }, func() {}, nil},
	} {
		t.Run(away.name, func(t *testing.T) {
			s := absence{t: t, p: p, ns: ns, name: away.name}
			s.before()
			mark = p.Log.Mark()
			away.leave()
			s.during(away.noticed)
			away.comeBack()
			s.after()
			expectChangesOnly(t, p.Log.Since(mark), cannotFollow, "kind", "reason", "watching the kind again")
		})
	}
	p.stop()
}

const cannotFollow = "cannot watch the kind, retrying"

// absence is what happens to objects around a time without the API server.
type absence struct {
	t        *testing.T
	p        *process
	ns, name string
}

func (s absence) object(suffix string) string { return s.name + "-" + suffix }

func (s absence) before() {
	s.p.works(s.t, s.ns, s.object("changed"))
	s.p.works(s.t, s.ns, s.object("deleted"))
	s.p.works(s.t, s.ns, s.object("podless"))
	// This one may be anywhere on its way when the server goes.
	primary(s.t, podManagers, "PodManager", s.ns, s.object("on-its-way"), map[string]any{"image": "a:1"})
}

// during changes what the host cannot see; noticed is nil if the server is
// back already.
func (s absence) during(noticed func() bool) {
	done(s.t, patchSpec(s.t.Context(), podManagers, s.ns, s.object("changed"), "image", "a:2"))
	remove(s.t, podManagers, s.ns, s.object("deleted"))
	remove(s.t, pods, s.ns, s.object("podless"))
	primary(s.t, podManagers, "PodManager", s.ns, s.object("new"), map[string]any{"image": "a:1"})
	if noticed != nil {
		await.Until(s.t, "the host notices", noticed)
		if get(s.t, podManagers, s.ns, s.object("deleted")) == nil {
			s.t.Error("the host has cleaned up an object while the API server was away from it")
		}
	}
}

func (s absence) after() {
	s.t.Helper()
	await.Until(s.t, "everything is as wanted", func() bool {
		for suffix, wanted := range map[string]string{"changed": "a:2", "podless": "a:1", "on-its-way": "a:1", "new": "a:1"} {
			name := s.object(suffix)
			if image(get(s.t, pods, s.ns, name)) != wanted || !ready(get(s.t, podManagers, s.ns, name)) {
				return false
			}
		}
		gone := s.object("deleted")
		return get(s.t, podManagers, s.ns, gone) == nil && get(s.t, pods, s.ns, gone) == nil
	})
	s.p.alive(s.t, http.StatusOK)
}
