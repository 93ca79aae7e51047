package page

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"

	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/telemetry"
)

// The page of a host has what the host has reported since its start, and nothing of it runs after the end.
func TestThePageIsOfAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := telemetry.NewMetrics()
		metrics.Controller("p/c", 3)
		c := Capability().New(runner.Environment{
			Metrics: metrics, Logger: hclog.NewNullLogger(), Version: "v1", Pod: &corev1.ObjectReference{Name: "thole-1"},
		})
		if _, err := c.Start(t.Context(), runner.Host{
			Plugins:  func() []runner.PluginStatus { return nil },
			LastRuns: func() map[string][]dispatch.LastRun { return nil },
		}); err != nil {
			t.Fatal(err)
		}
		c.Observe(events.PluginStarted{Revision: events.Revision{Plugin: "loaded", Number: 1}})
		time.Sleep(time.Minute) // fake time
		w := httptest.NewRecorder()
		c.Views["/ui"].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui", nil))
		for _, part := range []string{"v1 · thole-1", "up 60s", `href="ui/plugins/loaded"`} {
			if !strings.Contains(w.Body.String(), part) {
				t.Errorf("the page does not have %q: %s", part, w.Body)
			}
		}
		c.Stop() // else the test does not end
	})
}
