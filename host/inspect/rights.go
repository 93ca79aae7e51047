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
)

// resource is the resource of a kind.
type resource struct {
	object.Resource
	guessed bool
	err     error // why the cluster offers no informer of the kind: see cache.Watchable
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
		served, err := c.Watchable(ctx, kind)
		_, unknown := errors.AsType[*object.UnknownKindError](err)
		_, unwatchable := errors.AsType[*cache.NotWatchableError](err)
		switch {
		case unknown:
			found[kind] = resource{Resource: found[kind].Resource, guessed: found[kind].guessed, err: err}
		case err != nil && !unwatchable:
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
	r.GVR, _ = meta.UnsafeGuessKindToResource(gvk)
	if known, err := scheme.Scheme.New(gvk); err == nil {
		_, r.Status = reflect.TypeOf(known).Elem().FieldByName("Status")
		r.guessed = false
	}
	return r
}

// clusterScoped are the built-in kinds that are not namespaced, and can be watched.
var clusterScoped = []string{
	"/Namespace", "/Node", "/PersistentVolume",
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

// The verbs of RBAC that the host uses, in the order of the output.
const (
	verbGet    = "get"
	verbList   = "list"
	verbWatch  = "watch"
	verbCreate = "create"
	verbUpdate = "update"
	verbPatch  = "patch"
	verbDelete = "delete"
)

var verbs = []string{verbGet, verbList, verbWatch, verbCreate, verbUpdate, verbPatch, verbDelete}

// rbac returns the rules that the host needs for a controller: those of
// host/cache, host/effect and the recorder of Events. It has every rule that a
// result of the controller may need, because the manifest does not name the
// verbs.
func rbac(m *abi.Manifest, c *abi.Controller, resources map[abi.Kind]resource) Rights {
	var r ruleSet
	r.in = c.For.Namespaces
	r.addPrimary(c, resources[c.For.Kind])
	r.in = nil
	for _, w := range c.Owns {
		r.addRead(resources[w.Kind])
		r.addWrite(resources[w.Kind])
		if slices.Contains(m.Features, abi.FeatureManaged) {
			r.add(resources[w.Kind], "", "label what was applied before the plugin had managed children", verbList, verbPatch)
			r.add(resources[w.Kind], "", "read an object that the plugin has not applied", verbGet)
		}
	}
	for w := range c.Follows() {
		r.in = w.Namespaces
		r.addRead(resources[w.Kind])
	}
	r.in = nil
	for _, kind := range c.Writes {
		if !c.MayRead(kind) {
			r.add(resources[kind], "", "follow what was written", verbList, verbWatch)
		}
		r.addWrite(resources[kind])
	}
	r.in = c.For.Namespaces
	if len(c.Owns) > 0 {
		r.addOwner(resources[c.For.Kind])
	}
	r.add(resource{Resource: object.Resource{GVR: schema.GroupVersionResource{Resource: "events"}}},
		"", "create Kubernetes Events", verbCreate, verbPatch)
	return Rights{Controller: c.Name, Rules: r.rules}
}

// ruleSet has one rule for each resource and subresource.
type ruleSet struct {
	rules []Rule
	in    []string // the namespaces in which the rules that are added are needed; none for all
}

// addPrimary adds the rules for the objects that a controller reconciles.
func (s *ruleSet) addPrimary(c *abi.Controller, r resource) {
	s.addRead(r)
	s.add(r, "", "read an object that has changed during a run", verbGet)
	if c.Finalizer {
		s.add(r, "", "add and remove the finalizer", verbPatch)
	}
	s.add(r, "", "the patch of a result", verbPatch)
	if c.For.MetadataOnly {
		return
	}
	sub := ""
	if r.Status {
		sub = "/status"
	}
	s.add(r, sub, "status and conditions", verbPatch)
}

// addRead adds the rules of an informer.
func (s *ruleSet) addRead(r resource) {
	s.add(r, "", "keep the cache", verbList, verbWatch)
}

// addWrite adds the rules of apply and delete. Server-side apply of an object
// that does not exist is a patch that also needs create.
func (s *ruleSet) addWrite(r resource) {
	s.add(r, "", "check the owner of an object before a write", verbGet)
	s.add(r, "", "the apply of a result", verbCreate, verbPatch)
	s.add(r, "", "the delete of a result", verbDelete)
}

const ownerEnforcement = "the API server runs the admission plugin OwnerReferencesPermissionEnforcement"

// addOwner adds the rule for the owner references of children, which block the
// deletion of the owner.
func (s *ruleSet) addOwner(r resource) {
	s.add(r, "/finalizers", "owner references that block the owner's deletion", verbUpdate)
	s.rule(r, "/finalizers").OnlyIf = ownerEnforcement
}

func (s *ruleSet) add(r resource, sub, use string, wanted ...string) {
	rule := s.rule(r, sub)
	for _, verb := range wanted {
		if !slices.Contains(rule.Verbs, verb) {
			rule.Verbs = append(rule.Verbs, verb)
		}
	}
	slices.SortFunc(rule.Verbs, func(a, b string) int { return slices.Index(verbs, a) - slices.Index(verbs, b) })
	if use = list(wanted) + ": " + use; !slices.Contains(rule.Uses, use) {
		rule.Uses = append(rule.Uses, use)
	}
}

// rule returns the rule of a resource, a new one if there is none. It is needed in the
// namespaces of the set, too.
func (s *ruleSet) rule(r resource, sub string) *Rule {
	for i := range s.rules {
		if s.rules[i].APIGroups[0] == r.GVR.Group && s.rules[i].Resources[0] == r.GVR.Resource+sub {
			s.rules[i].widen(s.in)
			return &s.rules[i]
		}
	}
	s.rules = append(s.rules, Rule{APIGroups: []string{r.GVR.Group}, Resources: []string{r.GVR.Resource + sub}, Guessed: r.guessed, Namespaces: slices.Sorted(slices.Values(s.in))})
	return &s.rules[len(s.rules)-1]
}

func (r *Rule) widen(namespaces []string) {
	if len(r.Namespaces) == 0 || len(namespaces) == 0 {
		r.Namespaces = nil
		return
	}
	all := slices.Concat(r.Namespaces, namespaces)
	slices.Sort(all)
	r.Namespaces = slices.Compact(all)
}
