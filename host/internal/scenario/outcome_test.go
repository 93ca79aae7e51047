package scenario

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/thole-dev/thole/host/internal/tholetest"
)

// outcome is what a run of a base scenario has led to.
type outcome struct {
	state    map[string]string // objects without what each run sets anew, by resource and name; those whose names are generated together
	numbers  map[string]int    // creations and deletions that the API server has performed, by verb and resource
	requests []tholetest.Request
}

// ownNamespace reports whether a namespace is one of the script's: $NS or $NS-NAME.
func (s *script) ownNamespace(namespace string) bool {
	return namespace == s.namespace || strings.HasPrefix(namespace, s.namespace+"-")
}

// snapshot returns the objects of resources in the namespaces of the script.
func (s *script) snapshot(resources []string) (map[string]string, error) {
	texts := map[string][]string{}
	for _, resource := range resources {
		client, err := s.api.in(resource, metav1.NamespaceAll)
		if err != nil {
			return nil, err
		}
		all, err := client.List(s.tb.Context(), metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range all.Items {
			if s.ownNamespace(o.GetNamespace()) && o.GetName() != rootCA {
				name := s.normal(resource + " " + o.GetNamespace() + "/" + o.GetName())
				texts[name] = append(texts[name], s.normal(withoutServerFields(&o)))
			}
		}
	}
	state := map[string]string{}
	for name, all := range texts {
		slices.Sort(all)
		state[name] = strings.Join(all, "\n")
	}
	return state, nil
}

// withoutServerFields returns an object without the fields that the API server sets.
func withoutServerFields(o *unstructured.Unstructured) string {
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	return show(o)
}

var anew = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`(thole\.dev/applied): [0-9a-f]+`), "$1: DIGEST"},  // of what has the namespace and the UID of the owner
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "HASH"},                       // of the primary and of the fields, on an object that several primaries may share
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "-RANDOM"}, // of a generated name: kube-api-access-x7kq2
}

// normal returns a text without what differs in each run.
func (s *script) normal(text string) string {
	text = strings.ReplaceAll(text, s.namespace, "$NS")
	for _, a := range anew {
		text = a.pattern.ReplaceAllString(text, a.by)
	}
	return text
}

// counter counts how many objects the API server has created and deleted. It watches
// them: the proxy does not see what becomes of a request whose sender is killed.
type counter struct {
	mu      sync.Mutex
	numbers map[string]int // "created pods", "deleted pods"
}

// count starts to count the objects of resources in the namespaces of the script,
// until the test ends.
func (s *script) count(resources []string) (*counter, error) {
	c := &counter{numbers: map[string]int{}}
	for _, resource := range resources {
		client, err := s.api.in(resource, metav1.NamespaceAll)
		if err != nil {
			return nil, err
		}
		now, err := client.List(s.tb.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			return nil, err
		}
		w, err := client.Watch(s.tb.Context(), metav1.ListOptions{ResourceVersion: now.GetResourceVersion()})
		if err != nil {
			return nil, err
		}
		var done sync.WaitGroup
		done.Go(func() { c.add(w, s, resource) })
		s.tb.Cleanup(func() { w.Stop(); done.Wait() })
	}
	return c, nil
}

func (c *counter) add(w watch.Interface, s *script, resource string) {
	verbs := map[watch.EventType]string{watch.Added: "created ", watch.Deleted: "deleted "}
	for e := range w.ResultChan() {
		o, ok := e.Object.(*unstructured.Unstructured)
		if verb := verbs[e.Type]; ok && verb != "" && s.ownNamespace(o.GetNamespace()) && o.GetName() != rootCA {
			c.mu.Lock()
			c.numbers[verb+resource]++
			c.mu.Unlock()
		}
	}
}

func (c *counter) get() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.numbers)
}

// rootCA is a ConfigMap that the control plane puts into each namespace.
const rootCA = "kube-root-ca.crt"

// difference returns how two states differ, "" if they do not.
func difference(got, want map[string]string) string {
	var b strings.Builder
	names := slices.Sorted(maps.Keys(want))
	for name := range got {
		if _, ok := want[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if got[name] != want[name] {
			fmt.Fprintf(&b, "%s is\n%s\nexpected\n%s\n", name, got[name], want[name])
		}
	}
	return b.String()
}

func TestDifferenceNamesWhatIsMissingAddedAndChanged(t *testing.T) {
	base := map[string]string{"a": "1", "b": "2"}
	if d := difference(maps.Clone(base), base); d != "" {
		t.Errorf("equal states differ: %s", d)
	}
	d := difference(map[string]string{"b": "3", "c": "4"}, base)
	for _, name := range []string{"a is", "b is", "c is"} {
		if !strings.Contains(d, name) {
			t.Errorf("%q is not in %s", name, d)
		}
	}
}
