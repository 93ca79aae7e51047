package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
)

// resource is where a kind is served.
type resource struct {
	group, plural string
	status        bool   // has the subresource /status
	guessed       bool   // nobody was asked
	absent        bool   // a cluster was asked, and does not serve the kind
	unfollowable  string // the verb that an informer would miss there: list or watch; "": none
}

// resources maps kinds to where they are served.
type resources map[abi.Kind]resource

// guess derives the resource from the kind. For Kubernetes' own kinds that is
// where they are; custom resources may be called anything.
func guess(kind abi.Kind) resource {
	gvk := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	r := resource{group: gvk.Group, plural: plural.Resource, status: true, guessed: true}
	if known, err := scheme.Scheme.New(gvk); err == nil {
		_, r.status = reflect.TypeOf(known).Elem().FieldByName("Status")
		r.guessed = false
	}
	return r
}

func guessAll(kinds []abi.Kind) resources {
	found := resources{}
	for _, kind := range kinds {
		found[kind] = guess(kind)
	}
	return found
}

// discover asks a cluster. A kind that it does not serve is guessed.
func discover(ctx context.Context, cluster *rest.Config, kinds []abi.Kind) (resources, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("make client for discovery: %w", err)
	}
	found, asked := guessAll(kinds), map[string][]metav1.APIResource{}
	for _, kind := range kinds {
		list, ok := asked[kind.APIVersion]
		if !ok {
			if list, err = served(ctx, client.RESTClient(), kind.APIVersion); err != nil {
				return nil, err
			}
			asked[kind.APIVersion] = list
		}
		found[kind] = locate(found[kind], kind, list)
	}
	return found, nil
}

// served lists the resources of a group and version; none if it is not there.
func served(ctx context.Context, client rest.Interface, version string) ([]metav1.APIResource, error) {
	path := "/apis/" + version
	if !strings.Contains(version, "/") {
		path = "/api/" + version
	}
	var list metav1.APIResourceList
	body, err := client.Get().AbsPath(path).DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("ask the cluster for the resources of %s: %w", version, err)
	}
	return list.APIResources, nil
}

// locate finds a kind in an answer of the discovery API, as host/cache does:
// entries with a slash are subresources, and of two resources of one kind the
// one that can be followed counts.
func locate(r resource, kind abi.Kind, list []metav1.APIResource) resource {
	r.absent = true
	for _, entry := range list {
		if entry.Kind != kind.Kind || strings.Contains(entry.Name, "/") || !r.absent && r.unfollowable == "" {
			continue
		}
		r = resource{group: kind.Group(), plural: entry.Name, unfollowable: missing(entry.Verbs, verbList, verbWatch)}
	}
	if !r.absent {
		r.status = slices.ContainsFunc(list, func(e metav1.APIResource) bool { return e.Name == r.plural+"/status" })
	}
	return r
}

// missing is the first of the needed verbs that is not there.
func missing(have []string, needed ...string) string {
	for _, verb := range needed {
		if !slices.Contains(have, verb) {
			return verb
		}
	}
	return ""
}
