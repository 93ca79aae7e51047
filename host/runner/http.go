package runner

import (
	"github.com/thole-dev/thole/host/egress"
)

// This file makes the client by which a revision sends HTTP requests.

// secretReader returns what reads the Secrets with the credentials of hosts, nil if the policy
// names none.
func (r *Runner) secretReader(rev *Revision) (egress.SecretReader, error) {
	if len(rev.Policy.HTTP.Secrets()) == 0 {
		return nil, nil
	}
	return egress.NewSecretReader(r.Cluster, rev.Policy.Account(), "thole/"+r.Version+" plugin/"+rev.Plugin)
}

// newHTTP returns the client of a revision, nil if it sends no requests. What earlier ones have left of
// the limits is kept.
func (r *Runner) newHTTP(rev *Revision, p *plugin, secrets egress.SecretReader) *egress.Client {
	if !rev.Manifest.UsesHTTP() {
		return nil
	}
	policy := rev.Policy
	hosts := make([]string, len(policy.HTTP))
	for i, e := range policy.HTTP {
		hosts[i] = e.Host
	}
	return egress.New(egress.Config{
		Plugin:    rev.Plugin,
		Entries:   policy.HTTP,
		DryRun:    policy.DryRun,
		State:     p.requests,
		AtOnce:    policy.Limits.HTTPRequests,
		PerSecond: policy.Limits.HTTPRequestsPerSecond,
		Secrets:   secrets,
		Observe:   r.Metrics.HTTP(rev.Plugin, hosts, egress.Codes()),
		Logger:    p.log.Logger(r.Logger.Named("http").With("plugin", rev.Plugin)),
	})
}
