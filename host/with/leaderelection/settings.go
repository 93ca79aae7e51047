package leaderelection

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
)

// HostSettings are how replicas of the host share the plugins, as the file of --config has it. The fields have the
// names and meanings of those of kube-controller-manager.
type HostSettings struct {
	// LeaderElect lets replicas share the plugins: each plugin runs in one of them, and the
	// others keep it ready. Without it there must be one replica.
	LeaderElect bool `json:"leaderElect,omitempty"`
	// LeaseDuration is after what time without a renewal another replica takes a Lease over;
	// whole seconds, default 15s.
	LeaseDuration config.Duration `json:"leaseDuration,omitzero"`
	// RenewDeadline is for how long a replica that cannot renew a Lease may write; default
	// 10s. It must be less than leaseDuration.
	RenewDeadline config.Duration `json:"renewDeadline,omitzero"`
	// RetryPeriod is how often a Lease is renewed, default 2s.
	RetryPeriod config.Duration `json:"retryPeriod,omitzero"`
	// ResourceName is the beginning of the names of the Leases; default thole.
	ResourceName string `json:"resourceName,omitempty"`
	// ResourceNamespace is that of the Leases; default the namespace of the pod.
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
	// Shards is over how many Leases the plugins are spread that have none of their own;
	// default 4.
	Shards int `json:"shards,omitempty"`
}

func newHostSettings() *HostSettings {
	return &HostSettings{
		LeaseDuration: config.Duration{Duration: 15 * time.Second}, RenewDeadline: config.Duration{Duration: 10 * time.Second},
		RetryPeriod: config.Duration{Duration: 2 * time.Second}, ResourceName: "thole", Shards: 4,
	}
}

// lastGoodSecrets is the beginning of the names of the Secrets with the last good modules, which end
// with the names of the plugins.
func (s *HostSettings) lastGoodSecrets() string { return s.ResourceName + "-last-good-" }

// Flags implements [config.Flagged].
func (s *HostSettings) Flags() []config.Flag {
	flag := func(name string, field any, usage string) config.Flag {
		return config.Flag{Name: "leader-elect" + name, Field: field, Usage: usage}
	}
	return []config.Flag{
		flag("", &s.LeaderElect, "share the plugins with other replicas: each runs in one of them"),
		flag("-lease-duration", &s.LeaseDuration, "after what time without a renewal another replica takes over"),
		flag("-renew-deadline", &s.RenewDeadline, "for how long a replica may write that cannot renew a Lease"),
		flag("-retry-period", &s.RetryPeriod, "how often a Lease is renewed"),
		flag("-resource-namespace", &s.ResourceNamespace, "namespace of the Leases; default: that of the pod"),
	}
}

const (
	// maxShards bounds the requests for Leases that are renewed.
	maxShards = 64
	// maxResourceName leaves room for the name of a plugin.
	maxResourceName = 100
)

// Problems implements [config.HostSection].
func (s *HostSettings) Problems(at *field.Path) (problems []error) {
	invalid := func(name string, value any, format string, args ...any) {
		problems = append(problems, field.Invalid(at.Child(name), value, fmt.Sprintf(format, args...)))
	}
	for _, n := range []config.Number{
		config.NumberOf(at.Child("leaseDuration"), &s.LeaseDuration.Duration, time.Second, time.Hour),
		config.NumberOf(at.Child("renewDeadline"), &s.RenewDeadline.Duration, 100*time.Millisecond, time.Hour),
		config.NumberOf(at.Child("retryPeriod"), &s.RetryPeriod.Duration, 10*time.Millisecond, time.Hour),
		config.NumberOf(at.Child("shards"), &s.Shards, 1, maxShards),
	} {
		if err := n.Validate(); err != nil {
			problems = append(problems, err)
		}
	}
	if s.LeaseDuration.Duration%time.Second != 0 {
		invalid("leaseDuration", s.LeaseDuration.String(), "must be whole seconds")
	}
	if s.RenewDeadline.Duration >= s.LeaseDuration.Duration {
		invalid("renewDeadline", s.RenewDeadline.String(), "must be less than leaseDuration, which is %s", s.LeaseDuration)
	}
	if s.RetryPeriod.Duration*6/5 >= s.RenewDeadline.Duration {
		invalid("retryPeriod", s.RetryPeriod.String(), "1.2 times it must be less than renewDeadline, which is %s", s.RenewDeadline)
	}
	if len(validation.IsDNS1123Subdomain(s.ResourceName)) > 0 || len(s.ResourceName) > maxResourceName {
		invalid("resourceName", s.ResourceName, "must be a DNS subdomain of at most %d characters", maxResourceName)
	}
	if wrong := validation.IsDNS1123Label(s.ResourceNamespace); s.ResourceNamespace != "" && len(wrong) > 0 {
		invalid("resourceNamespace", s.ResourceNamespace, "must be a DNS label: %s", wrong[0])
	}
	return problems
}

// Settings are what the policy of a plugin has.
type Settings struct {
	// OwnLease gives the plugin a Lease of its own, instead of one that it shares with other
	// plugins: it fails over by itself.
	OwnLease bool `json:"ownLease,omitempty"`
}

// Problems implements [config.PolicySection].
func (*Settings) Problems(*field.Path, string, config.Ceiling) []error { return nil }

// Secrets implements [config.PolicySection].
func (*Settings) Secrets() []rights.SecretRef { return nil }

func hasOwnLease(p config.Policy) bool {
	s, _ := p.Sections[name].(*Settings)
	return s != nil && s.OwnLease
}
