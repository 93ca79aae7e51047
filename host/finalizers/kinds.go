package finalizers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// served is a kind of the cluster, with its other names.
type served struct {
	object.Resource
	names []string // lower case: plural, singular, kind, short ones
	short []string // of these
	whole bool     // has the verbs to look for finalizers and to take them off
}

// discover lists what the API server serves, a group's preferred version
// first. An error beside it names the groups that could not be asked, such as
// those of an extension server that is away.
func discover(cluster *rest.Config) ([]served, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("make client for discovery: %w", err)
	}
	groups, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		err = fmt.Errorf("ask which kinds there are: %w", err)
	}
	return arrange(groups, lists), err
}

// arrange makes one list of what each version serves.
func arrange(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) (all []served) {
	preferred := map[string]bool{}
	for _, g := range groups {
		preferred[g.PreferredVersion.GroupVersion] = true
	}
	slices.SortStableFunc(lists, func(a, b *metav1.APIResourceList) int {
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
			continue // no path of the API leads there
		}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				all = append(all, serve(gv, r))
			}
		}
	}
	return all
}

func serve(gv schema.GroupVersion, r metav1.APIResource) served {
	return served{
		Resource: object.Resource{
			Kind:       abi.Kind{APIVersion: gv.String(), Kind: r.Kind},
			GVR:        gv.WithResource(r.Name),
			Namespaced: r.Namespaced,
		},
		names: append([]string{r.Name, r.SingularName, strings.ToLower(r.Kind)}, r.ShortNames...),
		short: r.ShortNames,
		whole: slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "patch"),
	}
}

// choose returns the kinds of the given names, or, without names, every kind
// that can have finalizers, each at one version.
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
		if id := s.GVR.GroupResource(); s.whole && !seen[id] {
			seen[id] = true
			chosen = append(chosen, s.Resource)
		}
	}
	return chosen
}

// find returns the kind of a name: NAME, NAME.GROUP or NAME.VERSION.GROUP,
// where NAME is one by which kubectl knows the kind. NAME.VERSION is of the
// core group.
func find(all []served, name string) (object.Resource, error) {
	word, rest, _ := strings.Cut(strings.ToLower(name), ".")
	var chosen, near []served
	for _, s := range all {
		switch {
		case word == "" || !slices.Contains(s.names, word):
		case s.at(strings.TrimSuffix(rest, ".")):
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

// single returns the one kind that is meant, at its group's preferred version.
// A short name gives way to a full one.
func single(name, word string, chosen []served) (object.Resource, error) {
	full := slices.DeleteFunc(slices.Clone(chosen), func(s served) bool { return slices.Contains(s.short, word) })
	if len(full) > 0 {
		chosen = full
	}
	first := chosen[0]
	for _, s := range chosen {
		if s.GVR.Group != first.GVR.Group {
			return object.Resource{}, fmt.Errorf("kind %q is ambiguous: write %s or %s", name, KindName(first.Kind), KindName(s.Kind))
		}
	}
	if !first.whole {
		return object.Resource{}, fmt.Errorf("objects of kind %s cannot be listed and patched, so no plugin has put a finalizer on one", KindName(first.Kind))
	}
	return first.Resource, nil
}

// at says whether the kind is served where the rest of a name says.
func (s served) at(rest string) bool {
	gvr := s.GVR
	full := gvr.Version
	if gvr.Group != "" {
		full += "." + gvr.Group
	}
	return rest == "" || rest == full || rest == gvr.Group
}

func notServed(name string, near []served) error {
	err := fmt.Errorf("the API server serves no kind %q: if its CRD is gone, so are its objects, and nothing is to be released", name)
	if len(near) > 0 {
		err = fmt.Errorf("the API server serves no kind %q, but %s", name, KindName(near[0].Kind))
	}
	return err
}
