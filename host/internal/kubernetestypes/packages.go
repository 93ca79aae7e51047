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
	// Part is a type of the package that the kind does not consist of, but others do.
	Part string
	// Short are the names that lose the kind in them: "PodSpec" is pod.Spec. If it is
	// nil, all of them do.
	Short []string
}

// Packages lists the packages with a kind.
var Packages = []Package{
	{Kind: kind("", "ConfigMap")},
	{Kind: kind("", "Namespace")},
	{Kind: kind("", "PersistentVolumeClaim"), Part: "PersistentVolumeClaimTemplate"},
	{
		Kind: kind("", "Pod"), Part: "PodTemplateSpec",
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
	{Kind: kind("batch", "CronJob")},
	{Kind: kind("batch", "Job"), Part: "JobTemplateSpec"},
	{Kind: kind("networking.k8s.io", "Ingress")},
	{Kind: kind("networking.k8s.io", "NetworkPolicy")},
	{Kind: kind("rbac.authorization.k8s.io", "Role")},
	{Kind: kind("rbac.authorization.k8s.io", "RoleBinding")},
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
