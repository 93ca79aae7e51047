package webhooks

import (
	"errors"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/certificates"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/telemetry"
)

// directory is a [runner.Directory] with one plugin that does not run.
type directory struct {
	plugin string
	policy config.Policy
}

func (d *directory) Updated() bool { return true }

func (d *directory) Statuses() []catalog.Status {
	return []catalog.Status{{Name: d.plugin, State: catalog.Waiting}}
}

func (d *directory) Status(plugin string) (status catalog.Status, known bool) {
	return d.Statuses()[0], plugin == d.plugin
}

func (d *directory) Policy(plugin string) (policy config.Policy, known bool) {
	return d.policy, plugin == d.plugin
}

func (d *directory) Leads(string) bool      { return true }
func (d *directory) OthersLead(string) bool { return false }

// newTestCapability returns a capability that serves nothing yet.
func newTestCapability(logger hclog.Logger) *capability {
	return &capability{directory: &directory{plugin: "idle"}, logger: logger, metrics: newMetrics(telemetry.NewMetrics()), plugins: newPlugins()}
}

// serves makes the capability one that serves, without a certificate.
func (c *capability) serves() {
	c.registrar = NewRegistrar(RegistrarConfig{})
	c.keeper = certificates.NewKeeper(certificates.KeeperConfig{Namespace: "n", Name: "s"})
	c.server = &Server{}
}

// revisionOf returns a revision of the plugin "p" that is allowed webhooks.
func revisionOf(controllers ...abi.Controller) *runner.Revision {
	return &runner.Revision{
		Revision: events.Revision{Plugin: "p"}, Manifest: &abi.Manifest{Name: "p", Controllers: controllers}, Guest: &sandbox.Guest{},
		Policy: config.Policy{Sections: map[string]config.PolicySection{contract.Name: NewSettings()}},
	}
}

func offering(name string, w contract.Webhooks) abi.Controller {
	return abi.Controller{Name: name, For: kindK.All(), Sections: []abi.Section{w.Section()}}
}

var (
	validating = contract.Webhooks{Validate: []contract.Operation{contract.OperationCreate}}
	converting = contract.Webhooks{Convert: true}
)

// testPlugin is a plugin that runs.
type testPlugin struct {
	*testing.T
	runner.PluginPart
	kept        any
	rev         *runner.Revision
	controllers map[string]runner.ControllerPart
}

func (c *capability) testPlugin(t *testing.T) *testPlugin {
	return &testPlugin{T: t, PluginPart: c.plugin("p"), controllers: map[string]runner.ControllerPart{}}
}

// testHandle is that of a controller.
type testHandle struct {
	runner.Handle
	p   *testPlugin
	rev *dispatch.Revision
}

func (h *testHandle) Revision() *dispatch.Revision { return h.rev }

func (h *testHandle) Resource() object.Resource {
	return object.Resource{Kind: kindK, Namespaced: true}
}

func (h *testHandle) MayWrite() bool { return true }

func (h *testHandle) Kept(*dispatch.Revision) any { return h.p.kept }

// use makes a revision replace the running one, and started starts one of its controllers.
func (p *testPlugin) use(rev *runner.Revision) {
	p.Helper()
	use, err := p.Prepare(p.Context(), rev)
	if err != nil {
		p.Fatal(err)
	}
	p.rev, p.kept = rev, use(runner.Running{})
}

func (p *testPlugin) started(name string) {
	h := &testHandle{p: p}
	for _, m := range p.rev.Manifest.Controllers {
		if m.Name == name {
			h.rev = &dispatch.Revision{Controller: m, Scopes: scope.Controller{For: scope.All(kindK)}}
		}
	}
	p.controllers[name] = p.Controller(h)
	p.controllers[name].Swapped(nil, h.rev)
}

// What is offered and not reviewed is told.
func TestWhatIsNotReviewedIsTold(t *testing.T) {
	logs := logtest.New(hclog.Warn)
	c := newTestCapability(logs.Logger)
	quiet, p := c.testPlugin(t), c.testPlugin(t)
	quiet.use(revisionOf(abi.Controller{Name: "c"}))
	quiet.started("c")
	logs.ExpectNone(t)
	if problem := c.problem("p"); problem != "" {
		t.Errorf("a plugin that offers nothing: %s", problem)
	}
	p.use(revisionOf(offering("c", validating)))
	p.started("c")
	if line := logs.Next(t); line.Message != notServed {
		t.Errorf("logged %s", line)
	}
	if c.problem("p") != notServed || c.problem("idle") != "" || c.certified() != nil || !c.expires().IsZero() {
		t.Error("without an address nothing is told")
	}
	c.serves()
	if got := c.problem("p"); !strings.HasPrefix(got, notRegistered+": ") || c.problem("idle") != "" || c.certified() == nil {
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

// The webhook configurations of a plugin have the webhooks of all its controllers: none is to vanish during a swap.
func TestWhatAPluginOffersIsReplacedAsAWhole(t *testing.T) {
	c := newTestCapability(hclog.NewNullLogger())
	p := c.testPlugin(t)
	names := func() (names string) {
		for _, p := range c.plugins.all() {
			for _, r := range p.Reviewed {
				names += " " + r.Controller
			}
			if !p.Leads() || p.Webhooks == nil || p.Starting {
				t.Errorf("%+v", p)
			}
		}
		return names
	}
	expect := func(want string) {
		t.Helper()
		if got := names(); got != want {
			t.Errorf("offered:%s, want%s", got, want)
		}
	}
	p.use(revisionOf(offering("a", validating), abi.Controller{Name: "quiet"}, offering("b", converting)))
	p.started("b")
	p.started("a")
	expect("")
	p.started("quiet")
	expect(" a b")
	if all := c.plugins.all(); all[0].Reviewed[0].Resource.Kind != kindK || len(all[0].Reviewed[0].Validate) != 1 {
		t.Errorf("%+v", all)
	}
	for name, of := range map[string]contract.Webhooks{"a": validating, "b": converting, "quiet": {}} {
		called := c.plugins.controller(contract.ExportValidate, "p", name)
		if got := called.Offers(called.Revision()); got.Convert != of.Convert || len(got.Validate) != len(of.Validate) {
			t.Errorf("%s offers %+v", name, got)
		}
	}
	p.use(revisionOf(offering("a", validating), offering("d", validating)))
	p.started("a")
	expect(" a b")
	p.controllers["b"].Ended()
	if c.plugins.controller(contract.ExportConvert, "p", "b") != nil || c.plugins.controller(contract.ExportConvert, "p", "a") == nil {
		t.Error("a controller that has ended is called, or another one is not")
	}
	p.started("d")
	expect(" a d")
	p.Stop()
	expect("")
	if c.plugins.controller(contract.ExportValidate, "p", "a") != nil {
		t.Error("a plugin that has stopped is called")
	}
}

// The API server has the objects of a first list converted that are stored in another version.
func TestAPluginConvertsBeforeItRuns(t *testing.T) {
	c := newTestCapability(hclog.NewNullLogger())
	caller := &testHandle{}
	starting := func(rev *runner.Revision) *runner.Starting {
		return &runner.Starting{
			Revision: rev, Resources: map[abi.Kind]object.Resource{kindK: {Kind: kindK}}, Leads: func() bool { return true },
			Caller: func(abi.Controller) runner.Caller { return caller },
		}
	}
	converts := func() bool { return c.plugins.controller(contract.ExportConvert, "p", "c") != nil }
	rev := revisionOf(offering("c", converting), offering("other", validating))
	c.plugins.start(starting(rev))
	if !converts() || c.plugins.controller(contract.ExportConvert, "p", "other") != nil || c.plugins.controller(contract.ExportValidate, "p", "c") != nil {
		t.Error("it does not convert, or does more")
	}
	if all := c.plugins.all(); len(all) != 1 || !all[0].Starting || !all[0].Leads() || len(all[0].Reviewed) != 1 || all[0].Reviewed[0].Resource.Kind != kindK || c.plugins.of("p") != nil {
		t.Errorf("the API server is told %+v", all)
	}
	early := c.plugins.controller(contract.ExportConvert, "p", "c")
	if !early.Offers(nil).Convert {
		t.Error("a conversion is not called")
	}
	p := c.testPlugin(t)
	p.use(rev)
	p.started("c")
	p.started("other")
	if c.plugins.controller(contract.ExportConvert, "p", "c") == early {
		t.Error("another controller than the running one converts")
	}
	if all := c.plugins.all(); len(all) != 1 || all[0].Starting {
		t.Errorf("of the running plugin the API server is told %+v", all)
	}
	p.Stop()
	c.plugins.discard(revisionOf())
	if !converts() {
		t.Error("a revision that is kept to be started again converts nothing meanwhile, or another one was discarded")
	}
	c.plugins.discard(rev)
	if converts() {
		t.Error("a guest that is closed converts")
	}
	c.plugins.start(starting(rev))
	denied := revisionOf(offering("c", converting))
	denied.Policy.Sections = nil
	if c.plugins.start(starting(denied)); converts() {
		t.Error("a plugin converts that its policy does not allow to")
	}
}

// What the API server was told of a plugin is to be deleted when its policy allows it nothing any more, whether it runs or not.
func TestAPluginThatIsNotAllowedWebhooksIsRegisteredWithNone(t *testing.T) {
	c := newTestCapability(hclog.NewNullLogger())
	if all := c.registered(); len(all) != 1 || all[0].Name != "idle" || all[0].Webhooks != nil || !all[0].Leads() {
		t.Errorf("%+v", all)
	}
	if known, ok := c.knownOf("idle"); !ok || known.Webhooks != nil || known.State != "waiting" {
		t.Errorf("%+v, %t", known, ok)
	}
	c.directory.(*directory).policy = revisionOf().Policy
	if all := c.registered(); len(all) != 0 {
		t.Errorf("of a plugin that is allowed webhooks, and does not run: %+v", all)
	}
	if known, ok := c.knownOf("idle"); !ok || known.Webhooks == nil {
		t.Errorf("%+v, %t", known, ok)
	}
	if _, ok := c.knownOf("gone"); ok || c.known("gone") || !c.known("idle") {
		t.Error("what is in the directory is not known, or more")
	}
}

func TestTheSeriesOfAPluginAreThereWhenItStarts(t *testing.T) {
	m := telemetry.NewMetrics()
	at := time.Time{}
	m.Registry.MustRegister(newExpiry(func() time.Time { return at }))
	c := newTestCapability(hclog.NewNullLogger())
	c.metrics = newMetrics(m)
	c.serves()
	c.metrics.serving()
	c.testPlugin(t).use(revisionOf(offering("c", validating)))
	at = time.Unix(1_900_000_000, 0)
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "thole_webhook_") {
			got[f.GetName()] = len(f.GetMetric())
		}
	}
	want := map[string]int{
		"thole_webhook_requests_total": len(Results(contract.ExportValidate)), "thole_webhook_request_duration_seconds": 1,
		"thole_webhook_refused_requests_total": len(Reasons()), "thole_webhook_certificate_expiration_timestamp_seconds": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A host whose address is taken does not start, and one that did not run leaves none behind.
func TestTheCapabilityListensWhenItIsStarted(t *testing.T) {
	settings := NewHostSettings()
	settings.Listen = "127.0.0.1:0"
	made := func() runner.Capability {
		return newCapability(runner.Environment{
			Cluster: &rest.Config{}, Metrics: telemetry.NewMetrics(), Logger: hclog.NewNullLogger(), Section: settings,
		})
	}
	if _, err := made().Start(t.Context(), runner.Host{Directory: &directory{}}); err == nil || !strings.Contains(err.Error(), "webhooks.secret.namespace") {
		t.Errorf("without a pod: %v", err)
	}
	settings.Secret.Namespace, settings.URL = "n", "https://host"
	first := made()
	run, err := first.Start(t.Context(), runner.Host{Directory: &directory{}})
	if err != nil || run == nil || first.Ready() == nil {
		t.Fatalf("%v; ready: %v", err, first.Ready())
	}
	first.Stop()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	settings.Listen = taken.Addr().String()
	second := made()
	if _, err := second.Start(t.Context(), runner.Host{Directory: &directory{}}); err == nil || !strings.Contains(err.Error(), "--webhooks-listen") {
		t.Errorf("an address that is taken: %v", err)
	}
	second.Stop()
	settings.Listen = ""
	third := made()
	if run, err := third.Start(t.Context(), runner.Host{Directory: &directory{}}); err != nil || run != nil || third.Ready() != nil {
		t.Errorf("without an address: %v; ready: %v", err, third.Ready())
	}
	third.Stop()
}
