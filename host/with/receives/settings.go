package receives

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
)

// HostSettings are how events from outside are received, as the file of --config has it.
type HostSettings struct {
	// Audiences are those that the token of a caller may be for. Default: thole.dev.
	Audiences []string `json:"audiences,omitempty"`
	// EventsPerSecond is how many events one plugin receives in a second; default 1000. The policy of a plugin may
	// lower it. After a pause as many as that come at once, or a batch of 256. More are refused with 429, for
	// whoever sends them to send them again.
	EventsPerSecond float32 `json:"eventsPerSecond,omitempty"`
}

// Settings are what the policy of a plugin has: of [HostSettings], what it may lower.
type Settings struct {
	// EventsPerSecond is how many events the plugin receives in a second; the default is that of the
	// configuration.
	EventsPerSecond float32 `json:"eventsPerSecond,omitempty"`
}

const (
	defaultAudience = "thole.dev"
	maxAudiences    = 16
	defaultRate     = 1000
)

func newHostSettings() config.HostSection {
	return &HostSettings{Audiences: []string{defaultAudience}, EventsPerSecond: defaultRate}
}

func newSettings() config.PolicySection { return &Settings{EventsPerSecond: defaultRate} }

// Bounds implements [config.Bounding].
func (s *HostSettings) Bounds() config.PolicySection {
	return &Settings{EventsPerSecond: s.EventsPerSecond}
}

// Numbers implements [config.Bounded].
func (s *Settings) Numbers(at *field.Path) []config.Number {
	return []config.Number{config.NumberOf(at.Child("eventsPerSecond"), &s.EventsPerSecond, 0.1, 100_000)}
}

// Problems implements [config.HostSection]. The numbers are those of [HostSettings.Bounds].
func (s *HostSettings) Problems(at *field.Path) (problems []error) {
	at = at.Child("audiences")
	switch n := len(s.Audiences); {
	case n == 0:
		problems = append(problems, field.Required(at, "name an audience, such as "+defaultAudience))
	case n > maxAudiences:
		problems = append(problems, field.TooMany(at, n, maxAudiences))
	}
	for i, audience := range s.Audiences {
		if audience == "" {
			problems = append(problems, field.Required(at.Index(i), "name an audience, such as "+defaultAudience))
		}
	}
	return problems
}

// Problems implements [config.PolicySection]: the numbers are all that there is.
func (*Settings) Problems(*field.Path, string, config.Ceiling) []error { return nil }

// Secrets implements [config.PolicySection].
func (*Settings) Secrets() []rights.SecretRef { return nil }
