package crdgen

import (
	"slices"
	"strings"

	"github.com/gobuffalo/flect"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/loader"

	"github.com/thole-dev/thole/sdk/generate"
)

// definition returns the CustomResourceDefinition of a kind.
func (t *typeSet) definition(c generate.Controller) *apiextensionsv1.CustomResourceDefinition {
	lower := strings.ToLower(c.Kind.Kind)
	d := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: c.Kind.Group(),
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: c.Kind.Kind, ListKind: c.Kind.Kind + "List", Plural: flect.Pluralize(lower), Singular: lower,
			},
		},
	}
	description := ""
	ident := crd.TypeIdent{Package: t.ident(c.Versions[0].Spec).Package, Name: c.Kind.Kind}
	if info := t.Types[ident]; info != nil {
		description = info.Doc
		t.checkMarkers(ident.Package, info)
	}
	for _, v := range c.Versions {
		d.Spec.Versions = append(d.Spec.Versions, t.version(v, description))
	}
	// A marker may change any part of what there is, so all versions come first. The names
	// are those of the first version, whose markers are applied last.
	for _, v := range slices.Backward(c.Versions) {
		t.applyMarkers(d, c.Kind.Kind, v)
	}
	d.Name = d.Spec.Names.Plural + "." + d.Spec.Group
	t.convert(d)
	slices.SortFunc(d.Spec.Versions, func(a, b apiextensionsv1.CustomResourceDefinitionVersion) int { return strings.Compare(a.Name, b.Name) })
	return d
}

// version returns one version, without what its markers change.
func (t *typeSet) version(v generate.Version, description string) apiextensionsv1.CustomResourceDefinitionVersion {
	spec, status := t.schema(t.ident(v.Spec)), statusSchema(t.schema(t.ident(v.Status)))
	root := &apiextensionsv1.JSONSchemaProps{
		Description: description,
		Type:        "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"},
			"spec": *spec, "status": *status,
		},
	}
	if len(spec.Required) > 0 {
		root.Required = []string{"spec"}
	}
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: v.Name, Served: true,
		Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: root},
	}
}

// applyMarkers applies the markers for a whole kind: those of the type with the name of the
// kind, if there is one beside the spec, of the spec, and of the status.
func (t *typeSet) applyMarkers(d *apiextensionsv1.CustomResourceDefinition, kind string, v generate.Version) {
	spec := t.ident(v.Spec)
	types := []crd.TypeIdent{{Package: spec.Package, Name: kind}, spec, t.ident(v.Status)}
	for _, ident := range slices.Compact(types) {
		info := t.Types[ident]
		if info == nil {
			continue
		}
		// Markers of one name keep their order, which is that of columns.
		for _, name := range sortedKeys(info.Markers) {
			for _, value := range info.Markers[name] {
				var err error
				switch marker := value.(type) {
				case crd.SpecMarker:
					err = marker.ApplyToCRD(&d.Spec, v.Name)
				case crd.Marker:
					err = marker.ApplyToCRD(d, v.Name)
				}
				if err != nil {
					ident.Package.AddError(loader.ErrFromNode(err, info.RawSpec))
				}
			}
		}
	}
}

// convert chooses the version that is stored, by default the first, and how the others are
// converted.
func (t *typeSet) convert(d *apiextensionsv1.CustomResourceDefinition) {
	versions := d.Spec.Versions
	if !slices.ContainsFunc(versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage }) {
		versions[0].Storage = true
	}
	if len(versions) == 1 {
		return
	}
	// The host replaces the webhook by its own. Until then the API server refuses what it
	// would have to convert: without this it would drop the fields that another version
	// does not have.
	url := "https://not-written-yet.invalid"
	d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url},
			ConversionReviewVersions: []string{"v1"},
		},
	}
}
