package config

import (
	"strings"
	"testing"
	"time"
)

func TestLeaderElectionHasTheDefaultsOfKubeControllerManager(t *testing.T) {
	c := Config{}.WithDefaults().LeaderElection
	want := LeaderElection{
		LeaseDuration: Duration{15 * time.Second}, RenewDeadline: Duration{10 * time.Second}, RetryPeriod: Duration{2 * time.Second},
		ResourceName: "thole", Shards: 4,
	}
	if c != want {
		t.Errorf("got %+v, want %+v", c, want)
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
			if _, err := Read(write(t, "leaderElection: {"+text+"}")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLeaderElectionThatIsNotValid(t *testing.T) {
	const at = "leaderElection."
	for text, want := range map[string]string{
		"leaseDuration: 0s":                             at + `leaseDuration: Invalid value: "0s": must be between 1s and 1h0m0s; remove it for the default`,
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
		"shards: 0":                                     at + "shards: Invalid value: 0: must be between 1 and 64; remove it for the default",
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
			_, err := Read(write(t, "leaderElection: {"+text+"}"))
			wantProblems(t, err, want)
		})
	}
}
