package host

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// The hosts of this package have no capabilities. A plugin, or a policy, that names one is refused by the name,
// and the plugin is loaded without it.
func TestWhatNamesACapabilityThatIsAwayIsRefused(t *testing.T) {
	r := start(t, controlPlane(t), nil)
	refused := func(name, want string) {
		t.Helper()
		r.expectState(name, func(s catalog.Status) bool {
			return s.State == catalog.Failed && strings.Contains(s.LastError, want)
		})
	}
	r.install("labinstance", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/labinstance"))
	refused("labinstance", `, which is not a capability of this host either`)
	policy := filepath.Join(r.dir, "ttl.yaml")
	writeText(t, policy, "apiVersion: thole.dev/v1alpha1\nabsent: {}\n")
	r.install("ttl", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/ttl"))
	refused("ttl", `unknown field "absent"`)
	writeText(t, policy, "apiVersion: thole.dev/v1alpha1\n")
	r.expectState("ttl", func(s catalog.Status) bool { return s.State == catalog.Waiting }) // for what its policy does not allow
}
