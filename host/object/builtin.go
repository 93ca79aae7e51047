package object

import (
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
)

// BuiltIn says whether an API group is Kubernetes' own. The group of a custom
// resource has a dot; those below k8s.io that are custom resources are not
// here.
func BuiltIn(group string) bool {
	return !strings.Contains(group, ".") || slices.Contains(builtInGroups, group)
}

var builtInGroups = []string{
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io",
	"authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
	"flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io",
	"rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
}

// AsksForConditions says whether a controller's manifest names conditions.
func AsksForConditions(c *abi.Controller) bool {
	conditions := c.Conditions
	return conditions.Target != "" || len(conditions.Owned)+len(conditions.Summarized)+len(conditions.NegativePolarity) > 0
}

// HasConditions says whether the host writes conditions for a controller: on
// Kubernetes' own kinds only if the manifest names some, since their APIs
// decide what conditions mean there.
func HasConditions(c *abi.Controller) bool { return !BuiltIn(c.For.Group()) || AsksForConditions(c) }
