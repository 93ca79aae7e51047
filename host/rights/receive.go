package rights

import (
	"slices"

	"github.com/thole-dev/thole/abi"
)

// ReceiveRules returns what the host needs to receive the events of a plugin from outside, whoever the
// plugin acts as: it asks who sends them, and what that may make run.
func ReceiveRules(m *abi.Manifest) []Rule {
	if !slices.ContainsFunc(m.Controllers, func(c abi.Controller) bool { return len(c.Receives) > 0 }) {
		return nil
	}
	return rules([]grant{
		{target: target{group: "authentication.k8s.io", resource: "tokenreviews"}, verb: Create, use: "find out who sends events"},
		{target: target{group: "authorization.k8s.io", resource: "subjectaccessreviews"}, verb: Create, use: "find out what they may make run"},
	})
}
