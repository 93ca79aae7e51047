package host

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/certificates"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/webhook"
)

// What is offered and not reviewed is told.
func TestWhatIsNotReviewedIsTold(t *testing.T) {
	m := &abi.Manifest{Controllers: []abi.Controller{{Validate: []abi.Operation{abi.OperationCreate}}}}
	log := &log{}
	logger := hclog.New(&hclog.LoggerOptions{Output: log})
	var none *webhooks
	none.observe(events.PluginStarted{Revision: events.Revision{Plugin: "quiet"}, Manifest: &abi.Manifest{}}, logger)
	none.observe(events.PluginStarted{Revision: events.Revision{Plugin: "p"}, Manifest: m}, logger)
	if text := log.String(); strings.Count(text, notServed) != 1 || !strings.Contains(text, "plugin=p") {
		t.Errorf("logged %s", text)
	}
	if none.problem("p", true) != notServed || none.problem("quiet", false) != "" {
		t.Error("without an address nothing is told")
	}
	w := &webhooks{registrar: webhook.NewRegistrar(webhook.RegistrarConfig{}), keeper: certificates.NewKeeper(certificates.KeeperConfig{Namespace: "n", Name: "s"})}
	if got := w.problem("p", true); !strings.HasPrefix(got, notRegistered+": ") || w.problem("quiet", false) != "" {
		t.Errorf("before there is a certificate the problem is %q", got)
	}
}
