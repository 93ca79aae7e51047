package leaderelection

import (
	"cmp"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
	"github.com/thole-dev/thole/host/with/leaderelection/lastgood"
)

// name is that of the capability.
const name = "leaderElection"

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:        name,
		Policy:      func() config.PolicySection { return &Settings{} },
		Config:      func() config.HostSection { return newHostSettings() },
		PluginRules: rules,
		Note:        note,
		New:         newCapability,
	}
}

// rules returns what the account of the host needs to keep the last good module of a plugin in a Secret.
func rules(plugin string, host config.HostSection, namespace string) []rights.Rule {
	s := host.(*HostSettings)
	at := cmp.Or(s.ResourceNamespace, namespace)
	const (
		use    = "the last good module of the plugin"
		onlyIf = "the host runs with --leader-elect: without the rule, /plugins reports that the module is not kept"
	)
	return []rights.Rule{{
		Namespace: at, Resource: "secrets",
		Verbs: []string{rights.Create}, Uses: []string{"create: " + use}, OnlyIf: onlyIf,
	}, {
		Namespace: at, Resource: "secrets", Name: s.lastGoodSecrets() + plugin,
		Verbs: []string{rights.Get, "update"}, Uses: []string{"get, update: " + use}, OnlyIf: onlyIf,
	}}
}

// note returns why a module is in no Secret if it is the last good one of its plugin, "" if it may be.
func note(module []byte) string {
	if large := lastgood.Pack(module).FitsSecret(); large != nil {
		return large.Error() + ": when all pods of the host are replaced, only a cacheDir that lasts has it"
	}
	return ""
}

func newCapability(env runner.Environment) runner.Capability {
	s := env.Section.(*HostSettings)
	if !s.LeaderElect {
		return runner.Capability{}
	}
	r := newReplicas(env, s)
	return runner.Capability{Leaders: r, Start: r.start, Stop: r.stop, Ready: r.canLead, Problem: r.problem}
}
