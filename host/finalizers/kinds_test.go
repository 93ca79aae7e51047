package finalizers

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cluster serves widgets at two versions, of which the second is preferred.
func cluster() []served {
	all := []string{"get", "list", "patch"}
	resource := func(plural, kind, short string, verbs []string) metav1.APIResource {
		r := metav1.APIResource{Name: plural, SingularName: strings.ToLower(kind), Kind: kind, Namespaced: true, Verbs: verbs}
		if short != "" {
			r.ShortNames = []string{short}
		}
		return r
	}
	group := func(preferred string) metav1.APIGroup {
		return metav1.APIGroup{PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: preferred}}
	}
	return arrange([]metav1.APIGroup{group("v1"), group("test.dev/v1"), group("other.dev/v1"), group("review.dev/v1")}, []metav1.APIResourceList{
		{GroupVersion: "test.dev/v1beta1", APIResources: []metav1.APIResource{resource("widgets", "Widget", "w", all), resource("relics", "Relic", "", all)}},
		{GroupVersion: "v1", APIResources: []metav1.APIResource{resource("pods", "Pod", "po", all), {Name: "pods/status", Kind: "Pod", Verbs: all}}},
		{GroupVersion: "test.dev/v1", APIResources: []metav1.APIResource{resource("widgets", "Widget", "w", all), resource("things", "Thing", "po", all)}},
		{GroupVersion: "other.dev/v1", APIResources: []metav1.APIResource{resource("things", "Thing", "", all)}},
		{GroupVersion: "review.dev/v1", APIResources: []metav1.APIResource{resource("reviews", "Review", "", []string{"create"})}},
	})
}

func TestKindIsFoundByTheNamesOfKubectl(t *testing.T) {
	for name, want := range map[string]string{
		"Widget.v1.test.dev":      "Widget.v1.test.dev",
		"Widget.v1beta1.test.dev": "Widget.v1beta1.test.dev",
		"widgets.test.dev":        "Widget.v1.test.dev",
		"widgets":                 "Widget.v1.test.dev",
		"w":                       "Widget.v1.test.dev",
		"WIDGET":                  "Widget.v1.test.dev",
		"relic":                   "Relic.v1beta1.test.dev",
		"Pod.v1":                  "Pod.v1",
		"pods.v1.":                "Pod.v1", // form of kubectl for the core group
		"pods":                    "Pod.v1",
		"things.other.dev":        "Thing.v1.other.dev",
		"po.test.dev":             "Thing.v1.test.dev",

		"things":             `kind "things" is ambiguous: write Thing.v1.test.dev or Thing.v1.other.dev`,
		"po":                 `kind "po" is ambiguous: write Pod.v1 or Thing.v1.test.dev`,
		"Widget.v2.test.dev": `the API server serves no kind "Widget.v2.test.dev", did you mean Widget.v1.test.dev?`,
		"gizmos":             `the API server serves no kind "gizmos": if its CRD was deleted, its objects were, too, and there is nothing to release`,
		"reviews":            `objects of kind Review.v1.review.dev cannot be listed and patched, so that no plugin can have added a finalizer`,
		"pods/status":        `the API server serves no kind "pods/status": if its CRD was deleted, its objects were, too, and there is nothing to release`,
		"":                   `the API server serves no kind "": if its CRD was deleted, its objects were, too, and there is nothing to release`,
		".v1":                `the API server serves no kind ".v1": if its CRD was deleted, its objects were, too, and there is nothing to release`,
	} {
		found, err := choose(cluster(), []string{name})
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case len(found) == 1:
			got = KindName(found[0].Kind)
		}
		if got != want {
			t.Errorf("%q: %s\nwant %s", name, got, want)
		}
	}
}

func TestWithoutNamesEachKindIsChosenInOneVersion(t *testing.T) {
	found, err := choose(cluster(), nil)
	var got []string
	for _, r := range found {
		got = append(got, KindName(r.Kind))
	}
	const want = "Pod.v1 Widget.v1.test.dev Thing.v1.test.dev Thing.v1.other.dev Relic.v1beta1.test.dev"
	if text := strings.Join(got, " "); err != nil || text != want {
		t.Errorf("got  %s, %v\nwant %s", text, err, want)
	}
}

func TestErrorNamesEachUnknownKind(t *testing.T) {
	found, err := choose(cluster(), []string{"widgets", "gizmos", "w", "reviews"})
	if len(found) != 1 || err == nil || !strings.Contains(err.Error(), "gizmos") || !strings.Contains(err.Error(), "Review") {
		t.Errorf("got %v, %v", found, err)
	}
}
