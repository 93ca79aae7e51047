package daemon

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	kyaml "sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/with"
)

// sections are those of a host with the capability.
func sections() []config.Section {
	return with.List{Capability()}.Sections()
}

func versioned(text string) []byte { return []byte("apiVersion: thole.dev/v1alpha1\n" + text) }

// configured returns the configuration that a file with this text has.
func configured(t *testing.T, text string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Read(file, sections()...)
	if err != nil {
		t.Fatal(err)
	}
	return c.WithDefaults()
}

func wantPolicy(t *testing.T, c config.Config, text string, want Policy) {
	t.Helper()
	p, err := c.ReadPolicy("p", versioned(text))
	if err != nil || !reflect.DeepEqual(p.Sections, map[string]config.PolicySection{"daemon": &want}) {
		t.Errorf("%s: %+v, %v, want %+v", text, p.Sections["daemon"], err, want)
	}
}

func wantRefused(t *testing.T, c config.Config, text, want string) {
	t.Helper()
	if _, err := c.ReadPolicy("p", versioned(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v, want %s", text, err, want)
	}
}

func TestAPolicyHasTheDefaultsUnlessItStatesOthers(t *testing.T) {
	c := configured(t, "")
	defaults := Policy{Number: 1000, Fuel: 100_000_000, StateKiB: 32}
	wantPolicy(t, c, "daemon: {}", defaults)
	wantPolicy(t, c, "daemon: {number: 5, fuel: 1000000, stateKiB: 1}", Policy{Number: 5, Fuel: 1_000_000, StateKiB: 1})
	if got := (Policy{Number: 7}).WithDefaults(); got != (Policy{7, defaults.Fuel, defaults.StateKiB}) {
		t.Errorf("%+v", got)
	}
	if p, err := c.ReadPolicy("p", versioned("")); err != nil || p.Sections != nil {
		t.Errorf("without the field: %+v, %v", p.Sections, err)
	}
}

func TestNumbersThatAreNotValidAreRefused(t *testing.T) {
	c := configured(t, "")
	for text, want := range map[string]string{
		"daemon:":                 `daemon: Required value: write {} for the defaults, or remove the line to allow none`,
		"daemon: true":            `daemon: Invalid value: true: must be a mapping of fields`,
		"daemon: {numbers: 1}":    `unknown field "daemon.numbers", did you mean "daemon.number"?`,
		"daemon: {number: 0}":     `daemon.number: Invalid value: 0: must be between 1 and 1000000; remove it for the default`,
		"daemon: {number: x}":     `daemon.number: Invalid value: "x": must be a whole number`,
		"daemon: {fuel: 999999}":  `daemon.fuel: Invalid value: 999999: must be between 1000000 and 1000000000000`,
		"daemon: {stateKiB: 33}":  `daemon.stateKiB: Invalid value: 33: must be between 1 and 32`,
		"daemon: {number: 1001}":  `daemon.number: Invalid value: 1001: must be at most 1000, the host's limit: lower it, or raise daemon.number in the file of --config`,
		"daemons: true":           `unknown field "daemons", did you mean "daemon"?`,
		"limits: {daemons: 1000}": `unknown field "limits.daemons"`,
	} {
		t.Run(text, func(t *testing.T) { wantRefused(t, c, text, want) })
	}
}

// Whoever may write a plugin may write a policy beside it, and must not have more daemons than the configuration
// allows.
func TestTheConfigurationBoundsPolicies(t *testing.T) {
	c := configured(t, "daemon: {number: 5000, stateKiB: 4}")
	wantPolicy(t, c, "daemon: {}", Policy{Number: 5000, Fuel: 100_000_000, StateKiB: 4})
	wantPolicy(t, c, "daemon: {number: 4000}", Policy{Number: 4000, Fuel: 100_000_000, StateKiB: 4})
	wantRefused(t, c, "daemon: {number: 5001}", "daemon.number: Invalid value: 5001: must be at most 5000, the host's limit")
	wantRefused(t, c, "daemon: {stateKiB: 5}", "daemon.stateKiB: Invalid value: 5: must be at most 4, the host's limit")
	wantPolicy(t, c.Unbounded("p", nil), "daemon: {number: 1000000}", Policy{Number: 1_000_000, Fuel: 1_000_000_000_000, StateKiB: 32})
	unbounded, err := c.ReadUnbounded("p", versioned("daemon: {number: 1000000}"))
	if want := (&Policy{Number: 1_000_000, Fuel: 100_000_000, StateKiB: 4}); err != nil || !reflect.DeepEqual(unbounded.Sections["daemon"], want) {
		t.Errorf("%+v, %v, want %+v", unbounded.Sections["daemon"], err, want)
	}

	printed, err := kyaml.Marshal(c)
	if err != nil || !strings.Contains(string(printed), "\ndaemon:\n  fuel: 100000000\n  number: 5000\n  stateKiB: 4\n") {
		t.Errorf("%s, %v", printed, err)
	}
	wantPolicy(t, configured(t, string(printed)), "daemon: {}", Policy{Number: 5000, Fuel: 100_000_000, StateKiB: 4})
	for text, want := range map[string]string{
		"daemon: {number: 0}":        "daemon.number: Invalid value: 0: must be between 1 and 1000000; remove it for the default",
		"daemon: {number: 10000000}": "daemon.number: Invalid value: 10000000: must be between 1 and 1000000",
		"daemon: {many: 1}":          `unknown field "daemon.many"`,
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Read(file, sections()...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A plugin waits for what its policy lacks.
func TestADaemonNeedsThePolicy(t *testing.T) {
	c := configured(t, "daemon: {number: 5}")
	widget := abi.Kind{APIVersion: "example.com/v1", Kind: "Widget"}
	served := func(k abi.Kind) (object.Resource, bool) { return object.Resource{Kind: k, Namespaced: true}, true }
	m := &abi.Manifest{Controllers: []abi.Controller{{For: widget.All()}, {For: widget.All(), Sections: []abi.Section{{Name: contract.Name, Value: []byte(`{}`)}}}}}
	needs := config.Policy{}.Missing(m, served, c.Sections)
	if text := needs.PolicyText(); text != "{apiVersion: thole.dev/v1alpha1, daemon: {}}" || !needs.Any() {
		t.Errorf("it needs %s", text)
	}
	p := config.Policy{}.With(needs)
	if want := (&Policy{Number: 5, Fuel: 100_000_000, StateKiB: 32}); !reflect.DeepEqual(p.Sections["daemon"], want) {
		t.Errorf("it is given %+v, want %+v", p.Sections["daemon"], want)
	}
	if needs := p.Missing(m, served, c.Sections); needs.Any() {
		t.Errorf("it still needs %s", needs.PolicyText())
	}
	m.Controllers = m.Controllers[:1]
	if needs := (config.Policy{}).Missing(m, served, c.Sections); needs.Any() {
		t.Errorf("a plugin without a daemon needs %s", needs.PolicyText())
	}
}
