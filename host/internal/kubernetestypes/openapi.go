package kubernetestypes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// openAPI is the description of one group and version, as far as it is used here.
type openAPI struct {
	Info struct {
		Version string // of the API server
	}
	Components struct {
		Schemas map[string]*property
	}
}

// property describes a value.
type property struct {
	Type       string
	Format     string
	Properties map[string]*property
	Items      *property
	Values     *property `json:"additionalProperties"`
	AllOf      []*property
	Ref        string `json:"$ref"`
	Required   []string
	Default    json.RawMessage
	ListType   string                    `json:"x-kubernetes-list-type"`
	ListKeys   []string                  `json:"x-kubernetes-list-map-keys"`
	MapType    string                    `json:"x-kubernetes-map-type"`
	Kinds      []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// reference returns the name of the schema that the property refers to, or "".
func (p *property) reference() string {
	if len(p.AllOf) == 1 {
		p = p.AllOf[0]
	}
	if p.Ref == "" {
		return ""
	}
	return path.Base(p.Ref)
}

// Schemas has the schemas of an API server.
type Schemas struct {
	version string // of the API server: 1.36
	byName  map[string]*property
}

// Read returns the schemas of the groups and versions of all packages.
func Read(ctx context.Context, client rest.Interface) (Schemas, error) {
	all := Schemas{byName: map[string]*property{}}
	for _, p := range Packages {
		var read openAPI
		text, err := client.Get().AbsPath("openapi/v3", apiPath(p.Kind.GroupVersion())).DoRaw(ctx)
		if err == nil {
			err = json.Unmarshal(text, &read)
		}
		if err != nil {
			return Schemas{}, fmt.Errorf("read the OpenAPI of %s: %w", p.Kind.GroupVersion(), err)
		}
		maps.Copy(all.byName, read.Components.Schemas)
		all.version = strings.TrimPrefix(read.Info.Version, "v")
	}
	return all, nil
}

func apiPath(v schema.GroupVersion) string {
	if v.Group == "" {
		return "api/" + v.Version
	}
	return "apis/" + v.String()
}

// of returns the name of the schema of a kind.
func (s Schemas) of(kind schema.GroupVersionKind) (string, error) {
	for name, p := range s.byName {
		if len(p.Kinds) == 1 && p.Kinds[0] == kind {
			return name, nil
		}
	}
	return "", fmt.Errorf("the OpenAPI has no %s", kind)
}
