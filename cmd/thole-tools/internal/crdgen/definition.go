package crdgen

import (
	"go/ast"
	"slices"
	"strings"

	"github.com/gobuffalo/flect"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"

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
	if info := t.Types[t.whole(c.Kind.Kind, c.Versions[0])]; info != nil {
		description = info.Doc
	}
	for _, v := range c.Versions {
		version := t.version(v, description)
		t.applyWhole(version.Schema.OpenAPIV3Schema, t.whole(c.Kind.Kind, v), v)
		d.Spec.Versions = append(d.Spec.Versions, version)
	}
	// A marker may change any part of what there is, so all versions come first. The names
	// are those of the first version, whose markers are applied last.
	for _, v := range slices.Backward(c.Versions) {
		t.applyMarkers(d, c.Kind.Kind, v)
	}
	for i := range d.Spec.Versions {
		addReadyColumn(&d.Spec.Versions[i])
	}
	d.Name = d.Spec.Names.Plural + "." + d.Spec.Group
	t.convert(d)
	addApproval(d)
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

// whole returns the type with the name of a kind, if there is one beside the spec.
func (t *typeSet) whole(kind string, v generate.Version) crd.TypeIdent {
	return crd.TypeIdent{Package: t.ident(v.Spec).Package, Name: kind}
}

// applyWhole applies the markers for the schema of a whole object: those of its type, and of the fields that
// are the spec and the status.
func (t *typeSet) applyWhole(schema *apiextensionsv1.JSONSchemaProps, ident crd.TypeIdent, v generate.Version) {
	info := t.Types[ident]
	if info == nil {
		return
	}
	if inMainModule(ident.Package) {
		t.checkMarkers(ident.Package, info)
	}
	t.applySchemaMarkers(ident, info.Markers, schema, info.RawSpec)
	for i := range info.Fields {
		field := &info.Fields[i]
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		of, isPart := map[string]string{"spec": v.Spec.Name, "status": v.Status.Name}[name]
		if typeName, ok := deref(field.RawField.Type).(*ast.Ident); !isPart || !ok || typeName.Name != of {
			continue
		}
		member := schema.Properties[name]
		if field.Doc != "" {
			member.Description = field.Doc
		}
		t.applySchemaMarkers(ident, field.Markers, &member, field.RawField)
		schema.Properties[name] = member
		others := slices.DeleteFunc(slices.Clone(schema.Required), func(other string) bool { return other == name })
		switch options := strings.Split(field.Tag.Get("json"), ",")[1:]; {
		case hasMarker(field, "kubebuilder:validation:Required", "required", "k8s:required"):
			schema.Required = slices.Sorted(slices.Values(append(others, name)))
		case hasMarker(field, "kubebuilder:validation:Optional", "optional", "k8s:optional"), slices.Contains(options, "omitempty"):
			schema.Required = others
		case name == "spec":
			schema.Required = slices.Sorted(slices.Values(append(others, name)))
		}
	}
}

func hasMarker(field *markers.FieldInfo, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return field.Markers.Get(name) != nil })
}

// applySchemaMarkers applies markers in the order of their names, of which none depends on another at an object.
func (t *typeSet) applySchemaMarkers(ident crd.TypeIdent, all markers.MarkerValues, schema *apiextensionsv1.JSONSchemaProps, node ast.Node) {
	context := &crdmarkers.SchemaContext{Package: ident.Package, TypeInfo: t.Types[ident]}
	for _, name := range sortedKeys(all) {
		for _, value := range all[name] {
			if marker, ok := value.(crd.SchemaMarker); ok {
				if err := marker.ApplyToSchema(context, schema); err != nil {
					ident.Package.AddError(loader.ErrFromNode(err, node))
				}
			}
		}
	}
}

// applyMarkers applies the markers for a whole kind: those of the type with the name of the
// kind, if there is one beside the spec, of the spec, and of the status.
func (t *typeSet) applyMarkers(d *apiextensionsv1.CustomResourceDefinition, kind string, v generate.Version) {
	spec := t.ident(v.Spec)
	types := []crd.TypeIdent{t.whole(kind, v), spec, t.ident(v.Status)}
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

// addApproval adds the annotation that the API server requires of a kind in a group of the Kubernetes community. The
// author of a controller for such a kind has not had it approved.
func addApproval(d *apiextensionsv1.CustomResourceDefinition) {
	if state, _ := apihelpers.GetAPIApprovalState(d.Annotations); !apihelpers.IsProtectedCommunityGroup(d.Spec.Group) || state != apihelpers.APIApprovalMissing {
		return
	}
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, apiextensionsv1.KubeAPIApprovedAnnotation, "unapproved, generated from the types of a plugin")
}

// addReadyColumn adds a column with the status of the condition Ready, unless one has it. Without columns of the author
// there is the age as well: the API server adds it only if there are no columns.
func addReadyColumn(v *apiextensionsv1.CustomResourceDefinitionVersion) {
	ready := apiextensionsv1.CustomResourceColumnDefinition{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`}
	age := apiextensionsv1.CustomResourceColumnDefinition{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"}
	columns := v.AdditionalPrinterColumns
	switch at := len(columns) - 1; {
	case len(columns) == 0:
		v.AdditionalPrinterColumns = append(columns, ready, age)
	case slices.ContainsFunc(columns, func(c apiextensionsv1.CustomResourceColumnDefinition) bool {
		return c.Name == ready.Name || c.JSONPath == ready.JSONPath
	}):
	case columns[at].JSONPath == age.JSONPath:
		v.AdditionalPrinterColumns = slices.Insert(columns, at, ready)
	default:
		v.AdditionalPrinterColumns = append(columns, ready)
	}
}

// convert chooses the version that is stored, by default the first, and how the others are
// converted.
func (t *typeSet) convert(d *apiextensionsv1.CustomResourceDefinition) {
	versions := d.Spec.Versions
	if len(versions) > 0 && !slices.ContainsFunc(versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage }) {
		versions[0].Storage = true
	}
	if len(versions) < 2 {
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
