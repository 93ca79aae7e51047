package crdgen

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/types"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/sdk/generate"
)

// This file finds what the API server would refuse in a definition: it calls the same function.

// refusals returns the mistakes that the API server would find in a definition.
func refusals(ctx context.Context, d *apiextensionsv1.CustomResourceDefinition) (field.ErrorList, error) {
	created := d.DeepCopy()
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(created)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(created, internal, nil); err != nil {
		return nil, err
	}
	return validation.ValidateCustomResourceDefinition(ctx, internal), nil
}

// maxSize is the limit of etcd for a request, in bytes.
const maxSize = 1536 << 10

// validate adds the default of the status to the definition of a kind, if the API server accepts it, and the mistakes
// that the API server would find.
func (t *typeSet) validate(ctx context.Context, d *apiextensionsv1.CustomResourceDefinition, c generate.Controller) error {
	initial := d.DeepCopy()
	if err := setNotObserved(initial); err != nil {
		return err
	}
	text, err := json.Marshal(initial)
	if err != nil {
		return err
	}
	if len(text) > maxSize {
		t.refused = append(t.refused, packages.Error{Pos: c.Place, Msg: fmt.Sprintf("the definition of %s has %d bytes, and etcd stores %d at most; "+
			"use sdk.Raw in place of a large type, or a struct with the fields that the plugin uses", c.Kind, len(text), maxSize)})
	}
	if found, err := refusals(ctx, initial); err != nil || len(found) == 0 {
		*d = *initial
		return err
	}
	found, err := refusals(ctx, d)
	for _, mistake := range found {
		t.refused = append(t.refused, t.describeRefusal(d, c, mistake))
	}
	return err
}

// setNotObserved sets observedGeneration to -1 in the defaults of the status, unless they have one. kstatus takes an
// object whose observedGeneration is not its generation for InProgress, and one without it for Current.
func setNotObserved(d *apiextensionsv1.CustomResourceDefinition) error {
	for _, v := range d.Spec.Versions {
		properties := v.Schema.OpenAPIV3Schema.Properties
		status, initial := properties["status"], map[string]json.RawMessage{}
		if status.Default != nil && json.Unmarshal(status.Default.Raw, &initial) != nil || initial["observedGeneration"] != nil {
			continue
		}
		initial["observedGeneration"] = []byte("-1")
		text, err := json.Marshal(initial)
		if err != nil {
			return err
		}
		status.Default = &apiextensionsv1.JSON{Raw: text}
		properties["status"] = status
	}
	return nil
}

var (
	// schemaRoot is the path of the schema of a version, which is named if there are several.
	schemaRoot = regexp.MustCompile(`^spec\.(?:versions\[(\d+)\]\.schema|validation)\.openAPIV3Schema\.?`)
	// schemaStep is a step of a path in a schema to a member, or to the elements of a list or map.
	schemaStep = regexp.MustCompile(`^(?:properties\[([^\]]*)\]|items|additionalProperties)\.?`)
)

// describeRefusal returns a mistake that the API server would find, with its place in the source.
func (t *typeSet) describeRefusal(d *apiextensionsv1.CustomResourceDefinition, c generate.Controller, mistake *field.Error) packages.Error {
	version, rest := c.Versions[0], mistake.Field
	if root := schemaRoot.FindStringSubmatch(rest); root != nil {
		rest = rest[len(root[0]):]
		if i, err := strconv.Atoi(root[1]); err == nil {
			isVersion := func(v generate.Version) bool { return v.Name == d.Spec.Versions[i].Name }
			version = c.Versions[slices.IndexFunc(c.Versions, isVersion)]
		}
	}
	var path []string // in the object
	for step := schemaStep.FindStringSubmatch(rest); step != nil; step = schemaStep.FindStringSubmatch(rest) {
		rest = rest[len(step[0]):]
		path = append(path, cmp.Or(step[1], "[]"))
	}
	text := "the API server would refuse "
	if len(path) > 0 {
		text += strings.ReplaceAll(strings.Join(path, "."), ".[]", "[]") + ": "
	}
	return packages.Error{
		Pos: cmp.Or(t.placeOf(version, path), c.Place),
		Msg: text + cmp.Or(rest, mistake.Field) + ": " + cmp.Or(mistake.Detail, mistake.Type.String()),
	}
}

// placeOf returns the place of the last field in a path in an object that the author can change, or "".
func (t *typeSet) placeOf(v generate.Version, path []string) (place string) {
	if len(path) == 0 {
		return ""
	}
	ident := t.ident(v.Spec)
	if path[0] == "status" {
		ident = t.ident(v.Status)
	}
	object := ident.Package.Types.Scope().Lookup(ident.Name)
	for i := 1; object != nil; i++ {
		if t.isAuthors(object) {
			place = t.fset.Position(object.Pos()).String()
		}
		for i < len(path) && path[i] == "[]" {
			i++
		}
		if i >= len(path) {
			break
		}
		object = fieldOf(object.Type(), path[i])
	}
	return place
}

// isAuthors reports whether a declaration is in the author's module.
func (t *typeSet) isAuthors(object types.Object) bool {
	pkg := t.packages[object.Pkg().Path()]
	return pkg != nil && inMainModule(pkg)
}

// fieldOf returns the field of that name in JSON, of a struct or of those that a list or map of them consists of. It is
// nil if there is none.
func fieldOf(t types.Type, name string) types.Object {
	switch u := t.Underlying().(type) {
	case interface{ Elem() types.Type }: // a pointer, list or map
		return fieldOf(u.Elem(), name)
	case *types.Struct:
		for i := range u.NumFields() {
			inJSON, _, _ := strings.Cut(reflect.StructTag(u.Tag(i)).Get("json"), ",")
			if inJSON == name {
				return u.Field(i)
			}
			if inJSON == "" && u.Field(i).Embedded() {
				if found := fieldOf(u.Field(i).Type(), name); found != nil {
					return found
				}
			}
		}
	}
	return nil
}
