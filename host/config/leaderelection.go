package config

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// LeaderElection is how replicas of the host share the plugins. Its fields have the names
// and meanings of those of kube-controller-manager.
type LeaderElection struct {
	// LeaderElect lets replicas share the plugins: each plugin runs in one of them, and the
	// others keep it ready. Without it there must be one replica.
	LeaderElect bool `json:"leaderElect,omitempty"`
	// LeaseDuration is after what time without a renewal another replica takes a Lease over;
	// whole seconds, default 15s.
	LeaseDuration Duration `json:"leaseDuration,omitzero"`
	// RenewDeadline is for how long a replica that cannot renew a Lease may write; default
	// 10s. It must be less than leaseDuration.
	RenewDeadline Duration `json:"renewDeadline,omitzero"`
	// RetryPeriod is how often a Lease is renewed, default 2s.
	RetryPeriod Duration `json:"retryPeriod,omitzero"`
	// ResourceName is the beginning of the names of the Leases; default thole.
	ResourceName string `json:"resourceName,omitempty"`
	// ResourceNamespace is that of the Leases; default the namespace of the pod.
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
	// Shards is over how many Leases the plugins are spread that have none of their own;
	// default 4.
	Shards int `json:"shards,omitempty"`
}

// LastGoodSecrets is the beginning of the names of the Secrets with the last good modules, which end
// with the names of the plugins.
func (l LeaderElection) LastGoodSecrets() string { return l.ResourceName + "-last-good-" }

// maxShards bounds the requests for Leases that are renewed.
const maxShards = 64

func (l *LeaderElection) numbers() []number {
	return []number{
		numberOf("leaderElection.leaseDuration", &l.LeaseDuration.Duration, 15*time.Second, time.Second, time.Hour),
		numberOf("leaderElection.renewDeadline", &l.RenewDeadline.Duration, 10*time.Second, 100*time.Millisecond, time.Hour),
		numberOf("leaderElection.retryPeriod", &l.RetryPeriod.Duration, 2*time.Second, 10*time.Millisecond, time.Hour),
		numberOf("leaderElection.shards", &l.Shards, 4, 1, maxShards),
	}
}

// problems returns what is wrong with a leader election whose defaults are filled in.
func (l *LeaderElection) problems() (problems []error) {
	at := field.NewPath("leaderElection")
	invalid := func(name string, value any, format string, args ...any) {
		problems = append(problems, field.Invalid(at.Child(name), value, fmt.Sprintf(format, args...)))
	}
	if l.LeaseDuration.Duration%time.Second != 0 {
		invalid("leaseDuration", l.LeaseDuration.String(), "must be whole seconds")
	}
	if l.RenewDeadline.Duration >= l.LeaseDuration.Duration {
		invalid("renewDeadline", l.RenewDeadline.String(), "must be less than leaseDuration, which is %s", l.LeaseDuration)
	}
	if l.RetryPeriod.Duration*6/5 >= l.RenewDeadline.Duration {
		invalid("retryPeriod", l.RetryPeriod.String(), "1.2 times it must be less than renewDeadline, which is %s", l.RenewDeadline)
	}
	if len(validation.IsDNS1123Subdomain(l.ResourceName)) > 0 || len(l.ResourceName) > maxResourceName {
		invalid("resourceName", l.ResourceName, "must be a DNS subdomain of at most %d characters", maxResourceName)
	}
	if l.ResourceNamespace != "" && namespaceProblem(l.ResourceNamespace) != "" {
		invalid("resourceNamespace", l.ResourceNamespace, dnsLabel)
	}
	return problems
}

// maxResourceName leaves room for the name of a plugin.
const maxResourceName = 100
