package kubernetestypes

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Package is a package of sdk/kubernetes.
type Package struct {
	// Kind is the kind of the package.
	Kind schema.GroupVersionKind
	// Parts are types that belong to the kind, and that other kinds consist of, too.
	Parts []string
	// Short are the names that lose the kind in them: "PodSpec" is pod.Spec. If it is
	// nil, all of them do.
	Short []string
}

// Packages lists the packages with a kind.
var Packages = []Package{
	{Kind: kind("", "ConfigMap")},
	{Kind: kind("", "Namespace")},
	{Kind: kind("", "PersistentVolumeClaim"), Parts: []string{"PersistentVolumeClaimTemplate"}},
	{
		Kind: kind("", "Pod"), Parts: []string{"PodTemplateSpec"},
		// Without it, SecurityContext and PodSecurityContext would have one name, and
		// the types of an affinity names of two forms.
		Short: []string{"PodSpec", "PodStatus", "PodCondition", "PodTemplateSpec"},
	},
	{Kind: kind("", "Secret")},
	{Kind: kind("", "Service")},
	{Kind: kind("", "ServiceAccount")},
	{Kind: kind("apps", "DaemonSet")},
	{Kind: kind("apps", "Deployment")},
	{Kind: kind("apps", "StatefulSet")},
	{Kind: schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}},
	{Kind: kind("batch", "CronJob")},
	{Kind: kind("batch", "Job"), Parts: []string{"JobTemplateSpec"}},
	{Kind: kind("coordination.k8s.io", "Lease")},
	{Kind: kind("networking.k8s.io", "Ingress")},
	{Kind: kind("networking.k8s.io", "NetworkPolicy")},
	{Kind: kind("policy", "PodDisruptionBudget")},
	{Kind: kind("rbac.authorization.k8s.io", "ClusterRole")},
	{Kind: kind("rbac.authorization.k8s.io", "ClusterRoleBinding")},
	{Kind: kind("rbac.authorization.k8s.io", "Role"), Parts: []string{"PolicyRule"}},
	{Kind: kind("rbac.authorization.k8s.io", "RoleBinding"), Parts: []string{"RoleRef", "Subject"}},
}

func kind(group, name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}
}

// shared is the name of the package with the types that several kinds have, and that
// belong to none.
const shared = "shared"

// importPath is that of the folder of the packages.
const importPath = "github.com/thole-dev/thole/sdk/kubernetes"

// name returns the name of the package.
func (p Package) name() string { return strings.ToLower(p.Kind.Kind) }

// short returns the name of a type in the package.
func (p Package) short(name string) string {
	rest := strings.Replace(name, p.Kind.Kind, "", 1)
	if rest == "" || p.Short != nil && !slices.Contains(p.Short, name) {
		return name
	}
	return rest
}
