package inspect

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// resource is the resource of a kind.
type resource struct {
	object.Resource
	guessed bool
	status  *object.Schema // of a custom kind; nil: not known
	err     error          // why the cluster offers no informer of the kind: see cache.Followable
}

// find looks up the resources of kinds in a cluster. Without a cluster, and for
// kinds that it does not serve, they are guessed.
func find(ctx context.Context, cluster *rest.Config, kinds []abi.Kind) (map[abi.Kind]resource, error) {
	found := map[abi.Kind]resource{}
	for _, kind := range kinds {
		found[kind] = guess(kind)
	}
	if cluster == nil {
		return found, nil
	}
	c, err := cache.New(cache.Config{REST: cluster})
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	for _, kind := range kinds {
		served, err := c.Followable(ctx, kind)
		_, unknown := errors.AsType[*object.UnknownKindError](err)
		_, unlistable := errors.AsType[*cache.NotListableError](err)
		switch {
		case unknown:
			found[kind] = resource{Resource: found[kind].Resource, guessed: found[kind].guessed, err: err}
		case err != nil && !unlistable:
			return nil, err
		default:
			found[kind] = resource{Resource: served, err: err}
		}
	}
	return found, nil
}

// guess derives the resource from the kind. That is exact for built-in kinds.
// The resource of a custom kind may have any name.
func guess(kind abi.Kind) resource {
	gvk := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	r := resource{Resource: object.Resource{Kind: kind, Status: true, Namespaced: !slices.Contains(clusterScoped, kind.Group()+"/"+kind.Kind)}, guessed: true}
	r.Polled, r.ReadOnly = r.isPolled(), r.isPolled()
	r.GVR, _ = meta.UnsafeGuessKindToResource(gvk)
	if known, err := scheme.Scheme.New(gvk); err == nil {
		_, r.Status = reflect.TypeOf(known).Elem().FieldByName("Status")
		r.guessed = false
	}
	return r
}

// isPolled reports whether a kind is the built-in one that can be listed and not watched. It
// cannot be written either.
func (r resource) isPolled() bool {
	return r.Kind == abi.Kind{APIVersion: "v1", Kind: "ComponentStatus"}
}

// clusterScoped are the built-in kinds that are not namespaced, and can be listed.
var clusterScoped = []string{
	"/ComponentStatus", "/Namespace", "/Node", "/PersistentVolume",
	"admissionregistration.k8s.io/MutatingAdmissionPolicy", "admissionregistration.k8s.io/MutatingAdmissionPolicyBinding",
	"admissionregistration.k8s.io/MutatingWebhookConfiguration",
	"admissionregistration.k8s.io/ValidatingAdmissionPolicy", "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding",
	"admissionregistration.k8s.io/ValidatingWebhookConfiguration",
	"apiextensions.k8s.io/CustomResourceDefinition", "apiregistration.k8s.io/APIService",
	"certificates.k8s.io/CertificateSigningRequest", "certificates.k8s.io/ClusterTrustBundle",
	"flowcontrol.apiserver.k8s.io/FlowSchema", "flowcontrol.apiserver.k8s.io/PriorityLevelConfiguration",
	"internal.apiserver.k8s.io/StorageVersion", "networking.k8s.io/IngressClass", "networking.k8s.io/IPAddress", "networking.k8s.io/ServiceCIDR",
	"node.k8s.io/RuntimeClass", "rbac.authorization.k8s.io/ClusterRole", "rbac.authorization.k8s.io/ClusterRoleBinding",
	"resource.k8s.io/DeviceClass", "resource.k8s.io/DeviceTaintRule", "resource.k8s.io/ResourceSlice", "scheduling.k8s.io/PriorityClass",
	"storage.k8s.io/CSIDriver", "storage.k8s.io/CSINode", "storage.k8s.io/StorageClass", "storage.k8s.io/VolumeAttachment",
	"storage.k8s.io/VolumeAttributesClass", "storagemigration.k8s.io/StorageVersionMigration",
}

// rightsOf returns what the host needs for a controller if it acts as the host. It has
// every rule that a result of the controller may need, because the manifest does not name
// the verbs.
func rightsOf(m *abi.Manifest, c *abi.Controller, resources map[abi.Kind]resource, more func(*abi.Manifest, rights.Resources) []rights.Rule) Rights {
	one, of := *m, Rights{Controller: c.Name}
	one.Controllers = []abi.Controller{*c}
	all := rights.Requested(&one, resourcesOf(resources))
	if more != nil {
		all = append(all, more(&one, resourcesOf(resources))...)
	}
	for _, r := range all {
		i := slices.IndexFunc(of.Rules, func(other Rule) bool {
			return other.APIGroups[0] == r.Group && other.Resources[0] == r.Path() && slices.Equal(other.ResourceNames, names(r))
		})
		if i < 0 {
			i = len(of.Rules)
			of.Rules = append(of.Rules, Rule{APIGroups: []string{r.Group}, Resources: []string{r.Path()}, ResourceNames: names(r), Guessed: isGuessed(resources, r), Namespaces: []string{}})
		}
		of.Rules[i].add(r)
	}
	return of
}

func names(r rights.Rule) []string {
	if r.Name == "" {
		return nil
	}
	return []string{r.Name}
}

// add adds a rule about the same resource in a namespace, or in all.
func (r *Rule) add(more rights.Rule) {
	if more.Namespace == "" || r.Namespaces == nil {
		r.Namespaces = nil
	} else {
		r.Namespaces = append(r.Namespaces, more.Namespace)
		slices.Sort(r.Namespaces)
	}
	r.Verbs = append(r.Verbs, more.Verbs...)
	slices.SortFunc(r.Verbs, rights.CompareVerbs)
	r.Verbs = slices.Compact(r.Verbs)
	for _, use := range more.Uses {
		if !slices.Contains(r.Uses, use) {
			r.Uses = append(r.Uses, use)
		}
	}
	r.OnlyIf = more.OnlyIf
}

func resourcesOf(resources map[abi.Kind]resource) rights.Resources {
	return func(kind abi.Kind) (object.Resource, bool) { found, ok := resources[kind]; return found.Resource, ok }
}

// isGuessed reports whether the resource of a rule is derived from a kind.
func isGuessed(resources map[abi.Kind]resource, rule rights.Rule) bool {
	for _, r := range resources {
		if r.guessed && r.GVR.Group == rule.Group && r.GVR.Resource == rule.Resource {
			return true
		}
	}
	return false
}
