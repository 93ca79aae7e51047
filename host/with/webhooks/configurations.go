package webhooks

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/object"
)

// Plugin is a running plugin as the registrar needs it.
type Plugin struct {
	Name     string
	Webhooks *Settings   // nil: its policy allows it none
	Reviewed []Reviewed  // its controllers
	Leads    func() bool // reports whether this replica leads it, and may write
	DryRun   bool        // nothing may be stored for it
	// Starting states that the plugin does not run yet, and converts alone. What there is of its
	// webhook configurations stays.
	Starting bool
}

// Reviewed is what a controller offers to review or convert.
type Reviewed struct {
	Controller string
	Validate   []contract.Operation
	Mutate     []contract.Operation
	Convert    bool
	Resource   object.Resource // of its primaries
	Namespaces []string        // in which it follows them; nil for all
	Labels     string          // the label selector by which it follows them; "" for all
}

// Endpoint is where the API server reaches the host: by a URL, or a Service.
type Endpoint struct {
	URL     string // without a path; "": by the Service
	Service Service
}

// Hosts returns the names that certificates need.
func (e Endpoint) Hosts() []string {
	if e.URL != "" {
		return []string{hostOf(e.URL)}
	}
	name := e.Service.Name + "." + e.Service.Namespace
	return []string{name + ".svc", name + ".svc.cluster.local", name}
}

// clientConfig returns how a path is reached.
func (e Endpoint) clientConfig(path string, bundle []byte) map[string]any {
	client := map[string]any{"caBundle": base64.StdEncoding.EncodeToString(bundle)}
	if e.URL != "" {
		client["url"] = strings.TrimRight(e.URL, "/") + path
		return client
	}
	client["service"] = map[string]any{"namespace": e.Service.Namespace, "name": e.Service.Name, "path": path, "port": int64(e.Service.Port)}
	return client
}

var (
	validatingResource = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	mutatingResource   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	crdResource        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

	kinds = map[schema.GroupVersionResource]string{
		validatingResource: "ValidatingWebhookConfiguration",
		mutatingResource:   "MutatingWebhookConfiguration",
		crdResource:        "CustomResourceDefinition",
	}
)

const (
	// fieldManager is that of all that the host writes for webhooks.
	fieldManager = "thole-webhook"
	// labelManagedBy and managedBy are a label of the webhook configurations.
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "thole"
	// labelPlugin has the plugin that a webhook configuration is for.
	labelPlugin = "thole.dev/plugin"
	// labelHost has the host that writes the configuration, or the conversion of a
	// CustomResourceDefinition, by the Secret of its certificates: there may be several in a cluster.
	labelHost = "thole.dev/host"
)

// ConfigurationName is the name of the webhook configurations of a plugin.
func ConfigurationName(plugin string) string { return "thole-" + plugin }

// target is an object that the host writes, or a part of one.
type target struct {
	resource schema.GroupVersionResource
	name     string
}

func (t target) String() string { return kinds[t.resource] + " " + t.name }

// object returns the beginning of the object.
func (t target) object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(t.resource.GroupVersion().String())
	o.SetKind(kinds[t.resource])
	o.SetName(t.name)
	return o
}

// configurations returns what there is to be for a plugin, by what it is. namespace is that of the
// host.
func configurations(p Plugin, e Endpoint, host, namespace string, bundle []byte) map[target]*unstructured.Unstructured {
	all := map[target]*unstructured.Unstructured{}
	if p.Webhooks == nil {
		return all
	}
	add := func(resource schema.GroupVersionResource, webhooks []any) {
		if len(webhooks) == 0 {
			return
		}
		t := target{resource, ConfigurationName(p.Name)}
		o := t.object()
		o.SetLabels(map[string]string{"app.kubernetes.io/name": "thole", labelManagedBy: managedBy, labelPlugin: p.Name, labelHost: host})
		o.Object["webhooks"] = webhooks
		all[t] = o
	}
	var validating, mutating []any
	for _, c := range p.Reviewed {
		if len(c.Validate) > 0 && !p.Starting {
			validating = append(validating, webhookOf(p, c, namespace, c.Validate, e.clientConfig(path(contract.ExportValidate, p, c), bundle)))
		}
		if len(c.Mutate) > 0 && !p.Starting {
			webhook := webhookOf(p, c, namespace, c.Mutate, e.clientConfig(path(contract.ExportMutate, p, c), bundle))
			webhook["reinvocationPolicy"] = "Never"
			mutating = append(mutating, webhook)
		}
		if c.Convert {
			t := target{crdResource, c.Resource.GVR.GroupResource().String()}
			o := t.object()
			o.SetLabels(map[string]string{labelHost: host})
			o.Object["spec"] = map[string]any{"conversion": map[string]any{
				"strategy": "Webhook",
				"webhook": map[string]any{
					"clientConfig":             e.clientConfig(path(contract.ExportConvert, p, c), bundle),
					"conversionReviewVersions": []any{"v1"},
				},
			}}
			all[t] = o
		}
	}
	add(validatingResource, validating)
	add(mutatingResource, mutating)
	return all
}

func path(export string, p Plugin, c Reviewed) string {
	return "/" + export + "/" + p.Name + "/" + c.Controller
}

// webhookOf returns one webhook of a configuration.
func webhookOf(p Plugin, c Reviewed, namespace string, operations []contract.Operation, client map[string]any) map[string]any {
	names := make([]any, len(operations))
	for i, o := range operations {
		names[i] = string(o)
	}
	scope := "Cluster"
	if c.Resource.Namespaced {
		scope = "Namespaced"
	}
	gvr := c.Resource.GVR
	webhook := map[string]any{
		"name":         c.Controller + "." + p.Name + ".thole.dev",
		"clientConfig": client,
		"rules": []any{map[string]any{
			"apiGroups": []any{gvr.Group}, "apiVersions": []any{gvr.Version}, "resources": []any{gvr.Resource},
			"operations": names, "scope": scope,
		}},
		"matchPolicy":             "Equivalent",
		"failurePolicy":           string(p.Webhooks.FailurePolicy),
		"sideEffects":             "None",
		"timeoutSeconds":          int64(Patience(p.Webhooks) / time.Second),
		"admissionReviewVersions": []any{"v1"},
	}
	namespaces, objects := selectors(p, c, namespace)
	setSelector(webhook, "namespaceSelector", namespaces)
	setSelector(webhook, "objectSelector", objects)
	var conditions []any
	for _, m := range p.Webhooks.MatchConditions {
		conditions = append(conditions, map[string]any{"name": m.Name, "expression": m.Expression})
	}
	if conditions != nil {
		webhook["matchConditions"] = conditions
	}
	return webhook
}

// selectors returns which objects are reviewed: those that the policy selects, of those that the
// controller follows. A field selector has no counterpart, and narrows nothing.
//
// Built-in kinds are reviewed neither in kube-system nor in the namespace of the host: the API server
// could not ask for a review before the pods there run, of which it would have to ask.
func selectors(p Plugin, c Reviewed, namespace string) (namespaces, objects *metav1.LabelSelector) {
	namespaces, objects = p.Webhooks.Selectors()
	if len(c.Namespaces) > 0 && c.Resource.Namespaced {
		namespaces = both(namespaces, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: slices.Clone(c.Namespaces)},
		}})
	}
	if isBuiltIn(c.Resource.GVR.Group) && c.Resource.Namespaced {
		exempt := []string{metav1.NamespaceSystem, namespace}
		slices.Sort(exempt)
		namespaces = both(namespaces, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: slices.Compact(exempt)},
		}})
	}
	return namespaces, both(objects, labelSelector(c.Labels))
}

// isBuiltIn reports whether a group may be one of the API server itself: those of custom resources
// have a dot, and are not of k8s.io as a rule.
func isBuiltIn(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// both returns a selector of what both select, each of which may be nil.
func both(a, b *metav1.LabelSelector) *metav1.LabelSelector {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &metav1.LabelSelector{MatchExpressions: slices.Concat(expressions(a), expressions(b))}
}

func expressions(s *metav1.LabelSelector) []metav1.LabelSelectorRequirement {
	all := slices.Clone(s.MatchExpressions)
	for key, value := range s.MatchLabels {
		all = append(all, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
	}
	slices.SortFunc(all, func(a, b metav1.LabelSelectorRequirement) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	return all
}

func setSelector(webhook map[string]any, name string, s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	if selector, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s); err == nil {
		webhook[name] = selector
	}
}

// bundles returns the authorities of every client configuration of an object, decoded.
func bundles(o *unstructured.Unstructured) (all [][]byte) {
	add := func(from map[string]any, fields ...string) {
		text, _, _ := unstructured.NestedString(from, append(fields, "caBundle")...)
		bundle, _ := base64.StdEncoding.DecodeString(text)
		all = append(all, bundle)
	}
	webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	for _, w := range webhooks {
		if webhook, ok := w.(map[string]any); ok {
			add(webhook, "clientConfig")
		}
	}
	if o.GetKind() == kinds[crdResource] {
		add(o.Object, "spec", "conversion", "webhook", "clientConfig")
	}
	return all
}
