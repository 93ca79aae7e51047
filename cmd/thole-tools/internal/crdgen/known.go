package crdgen

import (
	"maps"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/loader"
)

const modulePath = "github.com/thole-dev/thole"

// schemas has the schemas of types by name.
type schemas = map[string]apiextensionsv1.JSONSchemaProps

// knownPackages returns the packages with types whose JSON is not that of their fields.
func knownPackages() map[string]crd.PackageOverride {
	timestamp := apiextensionsv1.JSONSchemaProps{Type: "string", Format: "date-time"}
	raw := apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: new(true)}
	return map[string]crd.PackageOverride{
		modulePath + "/sdk": withTypes(schemas{
			"Time": timestamp, "MicroTime": timestamp, "Raw": raw,
			"Duration":    {Type: "string", Pattern: durationPattern},
			"Quantity":    intOrString(quantityPattern),
			"IntOrString": intOrString(""),
		}),
		modulePath + "/abi": withTypes(schemas{"Time": timestamp, "Condition": condition()}),
		// Of the standard library only these.
		"encoding/json": only(schemas{"RawMessage": raw}),
		"time":          only(schemas{"Time": timestamp, "Duration": {Type: "integer", Format: "int64"}}),
	}
}

// withTypes adds schemas of some types of a package, and makes those of the others.
func withTypes(known schemas) crd.PackageOverride {
	return func(p *crd.Parser, pkg *loader.Package) {
		only(known)(p, pkg)
		p.AddPackage(pkg)
	}
}

// only adds schemas of some types of a package. Others are unknown.
func only(known schemas) crd.PackageOverride {
	return func(p *crd.Parser, pkg *loader.Package) {
		for name, schema := range known {
			p.Schemata[crd.TypeIdent{Package: pkg, Name: name}] = schema
		}
	}
}

const (
	// durationPattern is what time.ParseDuration accepts.
	durationPattern = `^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	// quantityPattern is that of controller-tools for resource.Quantity.
	quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`
)

func intOrString(pattern string) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{
		XIntOrString: true, Pattern: pattern,
		AnyOf: []apiextensionsv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}},
	}
}

// statusSchema returns the schema of a status with what the host writes into it, except
// for members that the plugin's type has. None is required: the host writes conditions
// before a plugin has ever returned a status.
func statusSchema(status *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	all := hostStatus()
	maps.Copy(all, status.Properties)
	status.Properties, status.Required = all, nil
	return status
}

// hostStatus returns the members of a status that the host writes.
func hostStatus() schemas {
	return schemas{
		"observedGeneration":     {Description: "The generation that the conditions are for.", Type: "integer", Format: "int64"},
		"lastHandledReconcileAt": {Description: "The last value of the annotation reconcile.thole.dev/requestedAt that was handled.", Type: "string"},
		"conditions": {
			Description: "Ready, and while it is not, Reconciling or Stalled.",
			Type:        "array", XListType: new("map"), XListMapKeys: []string{"type"},
			Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: new(condition())},
		},
	}
}

// condition returns the schema of metav1.Condition.
func condition() apiextensionsv1.JSONSchemaProps {
	text := func(description string, least, most int64, pattern string) apiextensionsv1.JSONSchemaProps {
		s := apiextensionsv1.JSONSchemaProps{Description: description, Type: "string", MaxLength: &most, Pattern: pattern}
		if least > 0 {
			s.MinLength = &least
		}
		return s
	}
	return apiextensionsv1.JSONSchemaProps{
		Type:     "object",
		Required: []string{"lastTransitionTime", "message", "reason", "status", "type"},
		Properties: schemas{
			"type": text("The type of the condition.", 0, 316, `^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`),
			"status": {Description: "The status of the condition.", Type: "string", Enum: []apiextensionsv1.JSON{
				{Raw: []byte(`"True"`)}, {Raw: []byte(`"False"`)}, {Raw: []byte(`"Unknown"`)},
			}},
			"reason":             text("A CamelCase reason for programs.", 1, 1024, `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`),
			"message":            text("A message for users.", 0, 32768, ""),
			"lastTransitionTime": {Description: "When status last changed.", Type: "string", Format: "date-time"},
			"observedGeneration": {Description: "The generation that the condition is for.", Type: "integer", Format: "int64", Minimum: new(float64(0))},
		},
	}
}
