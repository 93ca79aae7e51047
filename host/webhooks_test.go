package host

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/certificates"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/webhook"
)

// What is offered and not reviewed is told.
func TestWhatIsNotReviewedIsTold(t *testing.T) {
	m := &abi.Manifest{Controllers: []abi.Controller{{Sections: []abi.Section{contract.Webhooks{Validate: []contract.Operation{contract.OperationCreate}}.Section()}}}}
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

// It is no line of the log alone: /plugins and the page have it as long as it lasts.
func TestACertificateThatHasExpiredIsAProblem(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for now, want := range map[time.Time]string{
		at.Add(-time.Second): "",
		at:                   "expired at 2026-11-20T10:00:00Z, so that the API server cannot ask it: no right",
	} {
		if got := expired(at, now, errors.New("no right")); (got == "") != (want == "") || !strings.HasSuffix(got, want) {
			t.Errorf("at %s: %q", now, got)
		}
	}
	if got := expired(time.Time{}, at, nil); got != "" {
		t.Errorf("without one: %q", got)
	}
}
