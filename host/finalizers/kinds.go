package finalizers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/object"
)

// served is a kind of the cluster.
type served struct {
	object.Resource
	names      []string // in lower case: plural, singular, kind and short names
	shortNames []string
	releasable bool // has the verbs to find and to remove finalizers
}

// discover returns the kinds of the cluster, those of the preferred version of
// each group first. If the error is not nil the result may be incomplete: the
// error names the groups that could not be read, such as those of an extension
// API server that does not respond.
func discover(ctx context.Context, cluster *rest.Config) ([]served, error) {
	config := rest.CopyConfig(cluster)
	config.NegotiatedSerializer = kube.Codecs
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("create client for discovery: %w", err)
	}
	var groups metav1.APIGroupList
	if err := get(ctx, client, "/apis", &groups); err != nil {
		return nil, fmt.Errorf("discover kinds: %w", err)
	}
	core := metav1.GroupVersionForDiscovery{GroupVersion: "v1"}
	all := append([]metav1.APIGroup{{Versions: []metav1.GroupVersionForDiscovery{core}, PreferredVersion: core}}, groups.Groups...)
	var lists []metav1.APIResourceList
	var problems []error
	for _, g := range all {
		for _, v := range g.Versions {
			path := "/apis/" + v.GroupVersion
			if g.Name == "" {
				path = "/api/v1"
			}
			list := metav1.APIResourceList{GroupVersion: v.GroupVersion}
			if err := get(ctx, client, path, &list); err != nil {
				problems = append(problems, fmt.Errorf("discover the kinds of %s: %w", v.GroupVersion, err))
				continue
			}
			lists = append(lists, list)
		}
	}
	return arrange(all, lists), errors.Join(problems...)
}

func get(ctx context.Context, client rest.Interface, path string, into any) error {
	text, err := client.Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// arrange returns the kinds of all versions in one list.
func arrange(groups []metav1.APIGroup, lists []metav1.APIResourceList) (all []served) {
	preferred := map[string]bool{}
	for _, g := range groups {
		preferred[g.PreferredVersion.GroupVersion] = true
	}
	slices.SortStableFunc(lists, func(a, b metav1.APIResourceList) int {
		switch before, after := preferred[a.GroupVersion], preferred[b.GroupVersion]; {
		case before == after:
			return 0
		case before:
			return -1
		}
		return 1
	})
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // cannot be part of a URL
		}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				all = append(all, newServed(gv, r))
			}
		}
	}
	return all
}

func newServed(gv schema.GroupVersion, r metav1.APIResource) served {
	return served{
		Resource: object.Resource{
			Kind:       abi.Kind{APIVersion: gv.String(), Kind: r.Kind},
			GVR:        gv.WithResource(r.Name),
			Namespaced: r.Namespaced,
		},
		names:      append([]string{r.Name, r.SingularName, strings.ToLower(r.Kind)}, r.ShortNames...),
		shortNames: r.ShortNames,
		releasable: slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "patch"),
	}
}

// choose returns the kinds with the given names. Without names it returns every
// kind that can have finalizers, each in one version.
func choose(all []served, names []string) ([]object.Resource, error) {
	if len(names) == 0 {
		return everything(all), nil
	}
	var chosen []object.Resource
	var problems []error
	for _, name := range names {
		r, err := find(all, name)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if !slices.Contains(chosen, r) {
			chosen = append(chosen, r)
		}
	}
	return chosen, errors.Join(problems...)
}

func everything(all []served) (chosen []object.Resource) {
	seen := map[schema.GroupResource]bool{}
	for _, s := range all {
		if id := s.GVR.GroupResource(); s.releasable && !seen[id] {
			seen[id] = true
			chosen = append(chosen, s.Resource)
		}
	}
	return chosen
}

// find returns the kind with a name: NAME, NAME.GROUP or NAME.VERSION.GROUP, or
// NAME.VERSION for the core group. NAME is any name that kubectl accepts.
func find(all []served, name string) (object.Resource, error) {
	word, rest, _ := strings.Cut(strings.ToLower(name), ".")
	var chosen, near []served
	for _, s := range all {
		switch {
		case word == "" || !slices.Contains(s.names, word):
		case s.isIn(strings.TrimSuffix(rest, ".")):
			chosen = append(chosen, s)
		default:
			near = append(near, s)
		}
	}
	if len(chosen) == 0 {
		return object.Resource{}, notServed(name, near)
	}
	return single(name, word, chosen)
}

// single returns the only kind among those with a name, in the preferred version
// of its group. A full name has precedence over a short one.
func single(name, word string, chosen []served) (object.Resource, error) {
	full := slices.DeleteFunc(slices.Clone(chosen), func(s served) bool { return slices.Contains(s.shortNames, word) })
	if len(full) > 0 {
		chosen = full
	}
	first := chosen[0]
	for _, s := range chosen {
		if s.GVR.Group != first.GVR.Group {
			return object.Resource{}, fmt.Errorf("kind %q is ambiguous: write %s or %s", name, KindName(first.Kind), KindName(s.Kind))
		}
	}
	if !first.releasable {
		return object.Resource{}, fmt.Errorf("objects of kind %s cannot be listed and patched, so that no plugin can have added a finalizer", KindName(first.Kind))
	}
	return first.Resource, nil
}

// isIn reports whether the kind has the group and version in the rest of a name.
func (s served) isIn(rest string) bool {
	gvr := s.GVR
	full := gvr.Version
	if gvr.Group != "" {
		full += "." + gvr.Group
	}
	return rest == "" || rest == full || rest == gvr.Group
}

func notServed(name string, near []served) error {
	err := fmt.Errorf("the API server serves no kind %q: if its CRD was deleted, its objects were, too, and there is nothing to release", name)
	if len(near) > 0 {
		err = fmt.Errorf("the API server serves no kind %q, did you mean %s?", name, KindName(near[0].Kind))
	}
	return err
}
