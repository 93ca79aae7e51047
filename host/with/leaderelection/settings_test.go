package leaderelection

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/with"
	"github.com/thole-dev/thole/host/with/leaderelection/lastgood"
)

func sections() []config.Section { return with.List{Capability()}.Sections() }

// read reads the file of a configuration.
func read(t *testing.T, text string) (config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Read(file, sections()...)
}

func TestLeaderElectionHasTheDefaultsOfKubeControllerManager(t *testing.T) {
	got := config.Config{Sections: sections()}.WithDefaults().Values[name].(*HostSettings)
	want := HostSettings{
		LeaseDuration: config.Duration{Duration: 15 * time.Second}, RenewDeadline: config.Duration{Duration: 10 * time.Second},
		RetryPeriod: config.Duration{Duration: 2 * time.Second}, ResourceName: "thole", Shards: 4,
	}
	if *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
}

func TestLeaderElectionThatIsValid(t *testing.T) {
	for name, text := range map[string]string{
		"on":                       "leaderElect: true",
		"off, with durations":      "leaseDuration: 60s",
		"as short as it can be":    "leaseDuration: 1s, renewDeadline: 100ms, retryPeriod: 10ms",
		"just below":               "leaseDuration: 10s, renewDeadline: 9999ms, retryPeriod: 8332ms",
		"as long as it can be":     "leaseDuration: 1h, renewDeadline: 59m59s, retryPeriod: 40m",
		"fractions of seconds":     "renewDeadline: 7.5s, retryPeriod: 1.25s",
		"whole seconds as minutes": "leaseDuration: 0.5m",
		"one shard":                "shards: 1",
		"most shards":              "shards: 64",
		"a name with dots":         "resourceName: a.b-c.1",
		"the longest name":         "resourceName: " + strings.Repeat("n", 100),
		"the longest namespace":    "resourceNamespace: " + strings.Repeat("n", 63),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(t, "leaderElection: {"+text+"}"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLeaderElectionThatIsNotValid(t *testing.T) {
	const at = "leaderElection."
	for text, want := range map[string]string{
		"leaseDuration: 0s":                             at + `leaseDuration: Invalid value: "0s": must be between 1s and 1h0m0s`,
		"leaseDuration: 999ms":                          at + `leaseDuration: Invalid value: "999ms": must be between 1s and 1h0m0s`,
		"leaseDuration: 3601s":                          at + `leaseDuration: Invalid value: "1h0m1s": must be between 1s and 1h0m0s`,
		"leaseDuration: -15s":                           at + `leaseDuration: Invalid value: "-15s": must be between`,
		"leaseDuration: 15.5s":                          at + `leaseDuration: Invalid value: "15.5s": must be whole seconds`,
		"leaseDuration: 15":                             at + "leaseDuration: Invalid value: 15: must be a duration with its unit",
		"leaseDuration: 10s":                            at + `renewDeadline: Invalid value: "10s": must be less than leaseDuration, which is 10s`,
		"renewDeadline: 15s":                            at + `renewDeadline: Invalid value: "15s": must be less than leaseDuration, which is 15s`,
		"renewDeadline: 99ms":                           at + `renewDeadline: Invalid value: "99ms": must be between 100ms and 1h0m0s`,
		"renewDeadline: 2s":                             at + `retryPeriod: Invalid value: "2s": 1.2 times it must be less than renewDeadline, which is 2s`,
		"retryPeriod: 9s":                               at + `retryPeriod: Invalid value: "9s": 1.2 times it must be less than renewDeadline, which is 10s`,
		"retryPeriod: 8334ms":                           at + `retryPeriod: Invalid value: "8.334s": 1.2 times it`,
		"renewDeadline: 6s, retryPeriod: 5s":            at + `retryPeriod: Invalid value: "5s": 1.2 times it must be less than renewDeadline, which is 6s`,
		"retryPeriod: 9ms":                              at + `retryPeriod: Invalid value: "9ms": must be between 10ms and 1h0m0s`,
		"shards: 0":                                     at + "shards: Invalid value: 0: must be between 1 and 64",
		"shards: 65":                                    at + "shards: Invalid value: 65: must be between 1 and 64",
		"shards: -1":                                    at + "shards: Invalid value: -1: must be between 1 and 64",
		"shards: 1.5":                                   at + "shards: Invalid value",
		"resourceName: A":                               at + `resourceName: Invalid value: "A": must be a DNS subdomain of at most 100 characters`,
		"resourceName: a_b":                             at + `resourceName: Invalid value: "a_b": must be a DNS subdomain`,
		"resourceName: a/b":                             at + `resourceName: Invalid value: "a/b": must be a DNS subdomain`,
		"resourceNamespace: a.b":                        at + `resourceNamespace: Invalid value: "a.b": must be a DNS label`,
		"resourceNamespace: a, x":                       `unknown field "leaderElection.x"`,
		"leaderelect: true":                             `unknown field "leaderElection.leaderelect", did you mean "leaderElection.leaderElect"?`,
		"resourceLock: leases":                          `unknown field "leaderElection.resourceLock"`,
		"leaderElect: \"yes\"":                          at + "leaderElect: Invalid value",
		"resourceName: " + strings.Repeat("n", 101):     "must be a DNS subdomain of at most 100 characters",
		"resourceNamespace: " + strings.Repeat("n", 64): "must be a DNS label",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := read(t, "leaderElection: {"+text+"}")
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestAPolicyGivesAPluginALeaseOfItsOwn(t *testing.T) {
	c := config.Config{Sections: sections()}.WithDefaults()
	for text, want := range map[string]bool{"": false, "leaderElection: {}": false, "leaderElection: {ownLease: true}": true} {
		p, err := c.ReadPolicy("p", []byte("apiVersion: thole.dev/v1alpha1\n"+text))
		if err != nil || hasOwnLease(p) != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	if _, err := c.ReadPolicy("p", []byte("apiVersion: thole.dev/v1alpha1\nleaderElection: {leaderElect: true}")); err == nil {
		t.Error("a policy has a field of the configuration")
	}
}

// The Secrets are where the Leases are, or in the namespace of the account of the host.
func TestTheHostNeedsTheSecretOfThePlugin(t *testing.T) {
	for at, s := range map[string]*HostSettings{"ns": newHostSettings(), "leases": {ResourceName: "thole", ResourceNamespace: "leases"}} {
		all := rules("p", s, "ns")
		if len(all) != 2 {
			t.Fatalf("%+v", all)
		}
		create, update := all[0], all[1]
		if create.Namespace != at || create.Name != "" || create.Verbs[0] != rights.Create || update.Namespace != at || update.Name != "thole-last-good-p" {
			t.Errorf("%s: %+v", at, all)
		}
	}
}

// What no Secret holds is reported before it is rolled back to.
func TestAModuleThatNoSecretHoldsIsNoted(t *testing.T) {
	large := make([]byte, lastgood.MaxSecret+1<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large) // never fails
	if text := note(large[:1<<10]); text != "" {
		t.Errorf("a small one: %q", text)
	}
	if text := note(large); !strings.Contains(text, "compressed, and a Secret holds 1023 KiB: when all pods") {
		t.Errorf("a large one: %q", text)
	}
}
