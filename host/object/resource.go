package object

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi"
)

// Resource describes how the API server serves a kind.
type Resource struct {
	Kind       abi.Kind
	GVR        schema.GroupVersionResource
	Namespaced bool
	Status     bool // has a status subresource that can be patched
	Polled     bool // has no watch, so that it is listed at an interval
	ReadOnly   bool // is polled, and has no patch
}

// Path returns the URL path of one object.
func (r Resource) Path(key Key) []string {
	return append(r.Collection(key.Namespace), key.Name)
}

// Collection returns the URL path of the objects in a namespace, or in all
// namespaces if it is "".
func (r Resource) Collection(namespace string) []string {
	path := APIPath(r.GVR.GroupVersion())
	if r.Namespaced && namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return append(path, r.GVR.Resource)
}

// APIPath returns the URL path of an API version.
func APIPath(gv schema.GroupVersion) []string {
	if gv.Group == "" {
		return []string{"/api", gv.Version}
	}
	return []string{"/apis", gv.Group, gv.Version}
}

// UnknownKindError is returned for a kind that the API server does not serve,
// for example because its CRD is not installed yet.
type UnknownKindError struct {
	Kind     abi.Kind
	Versions []string // other versions in which it serves the kind
}

func (e *UnknownKindError) Error() string {
	if len(e.Versions) > 0 {
		return fmt.Sprintf("the API server does not serve %s, but %s of the kind: add the version to its CRD, or let the plugin use one that is served; retrying",
			e.Kind, strings.Join(e.Versions, ", "))
	}
	return fmt.Sprintf("the API server does not serve %s: install its CRD; retrying", e.Kind)
}

// BuiltIn reports whether an API group belongs to Kubernetes itself. The groups
// of custom resources have a dot. Some of them end in k8s.io, too, so that the
// built-in ones with a dot are listed.
func BuiltIn(group string) bool {
	return !strings.Contains(group, ".") || slices.Contains(builtInGroups, group)
}

var builtInGroups = []string{
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io",
	"authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
	"flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io",
	"rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
}

// AsksForConditions reports whether the manifest of a controller names
// conditions.
func AsksForConditions(c *abi.Controller) bool { return !c.Conditions.IsZero() }

// HasConditions reports whether the host writes conditions for a controller. On
// built-in kinds it does so only if the manifest names conditions, because their
// APIs define what conditions mean. It never does if the status is not kept, or is the
// guest's.
func HasConditions(c *abi.Controller) bool {
	return !c.For.MetadataOnly && !GuestOwnsStatus(c) && (!BuiltIn(c.For.Group()) || AsksForConditions(c))
}

// WritesStatus reports whether a controller certainly writes the status of its primary.
func WritesStatus(c *abi.Controller) bool { return GuestOwnsStatus(c) || HasConditions(c) }

// GuestOwnsStatus reports whether the host writes nothing of its own into the status.
func GuestOwnsStatus(c *abi.Controller) bool { return c.StatusOwner == abi.StatusOwnerGuest }
