package object

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi"
)

// Resource is where the API server serves a kind.
type Resource struct {
	Kind       abi.Kind
	GVR        schema.GroupVersionResource
	Namespaced bool
	Status     bool // has the subresource /status
}

// Path returns the URL path of one object.
func (r Resource) Path(key Key) []string {
	return append(r.Collection(key.Namespace), key.Name)
}

// Collection returns the URL path of the objects in a namespace, of all
// namespaces if it is "".
func (r Resource) Collection(namespace string) []string {
	path := []string{"/apis", r.GVR.Group, r.GVR.Version}
	if r.GVR.Group == "" {
		path = []string{"/api", r.GVR.Version}
	}
	if r.Namespaced && namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return append(path, r.GVR.Resource)
}
