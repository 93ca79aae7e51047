package http

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/with/http/egress"
)

// Settings are what a plugin may send, as its policy has it. The configuration has the hosts in allow, by the name of
// the plugin.
type Settings struct {
	// Hosts names the hosts to which the plugin may send requests, of those that its manifest declares. The allow
	// of the configuration must have them too: of each entry, the host, scheme, methods, secretRef with its header,
	// addresses and proxy must be those of an entry there, or part of them.
	Hosts egress.Entries `json:"hosts,omitempty"`
	// Requests and RequestsPerSecond are those of the configuration, which has their defaults. The policy may lower
	// them.
	Requests          int     `json:"requests,omitempty"`
	RequestsPerSecond float32 `json:"requestsPerSecond,omitempty"`
}

// HostSettings are the limits of the requests of one plugin, as the file of --config has them.
type HostSettings struct {
	// Requests is how many requests of the plugin wait for an answer at once; default 16. As many calls may run
	// beyond limits.instances, so that those that wait do not keep others from running.
	Requests int `json:"requests,omitempty"`
	// RequestsPerSecond is how many of them are sent in a second, redirects included; default 50. After a pause
	// Requests may be sent at once.
	RequestsPerSecond float32 `json:"requestsPerSecond,omitempty"`
}

const defaultRequests = 16

func newHostSettings() *HostSettings {
	return &HostSettings{Requests: defaultRequests, RequestsPerSecond: 50}
}

func (s *HostSettings) settings() *Settings {
	return &Settings{Requests: s.Requests, RequestsPerSecond: s.RequestsPerSecond}
}

// Bounds implements [config.Bounding].
func (s *HostSettings) Bounds() config.PolicySection { return s.settings() }

// Problems implements [config.HostSection]: the numbers are all that there is.
func (*HostSettings) Problems(*field.Path) []error { return nil }

// Numbers implements [config.Bounded].
func (s *Settings) Numbers(at *field.Path) []config.Number {
	return []config.Number{
		config.NumberOf(at.Child("requests"), &s.Requests, 1, 1000),
		config.NumberOf(at.Child("requestsPerSecond"), &s.RequestsPerSecond, 0.1, 10_000),
	}
}

// Problems implements [config.PolicySection].
func (s *Settings) Problems(at *field.Path, plugin string, ceiling config.Ceiling) []error {
	at = at.Child("hosts")
	if problems := s.Hosts.Problems(at); problems != nil {
		return problems
	}
	return HostProblems(at, plugin, ceiling, s.Hosts)
}

// HostProblems returns an error for every entry that is more than allow lets the plugin reach, by its own requests or
// by those that the host sends because of its policy. The entries have been checked, and at is the path of their list.
func HostProblems(at *field.Path, plugin string, ceiling config.Ceiling, entries egress.Entries) (problems []error) {
	section, all := ceiling.SectionOf(contract.Name, plugin)
	allowed, _ := section.(egress.Entries)
	for i, e := range entries {
		if !all && !allowed.Cover(e) {
			problems = append(problems, config.NotAllowed(at.Index(i), plugin, contract.Name, egress.Entries{e}))
		}
	}
	return problems
}

// Secrets implements [config.PolicySection].
func (s *Settings) Secrets() []rights.SecretRef { return s.Hosts.Secrets() }

// Waiting implements [config.WaitingSection].
func (s *Settings) Waiting() int { return s.Requests }

// missing returns the settings that a manifest needs. A host with a wildcard stands for all hosts that somebody allows,
// and not for all that there are.
func missing(has config.PolicySection, written bool, m *abi.Manifest) config.MissingSection {
	s := *has.(*Settings)
	more := s.Hosts.Missing(m)
	if more == nil {
		return config.MissingSection{}
	}
	_, exact := more.WithoutWildcards()
	s.Hosts = slices.Concat(s.Hosts, more)
	text := fmt.Sprintf("{hosts: %s}", s.Hosts)
	if written {
		text = fmt.Sprintf("{hosts: %s, requests: %d, requestsPerSecond: %v}", s.Hosts, s.Requests, s.RequestsPerSecond)
	}
	return config.MissingSection{Value: &s, Text: text, Allow: s.Hosts, Wildcard: !exact}
}
