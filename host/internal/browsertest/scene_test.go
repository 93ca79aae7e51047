package browsertest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// scene is a host in a namespace of its own.
type scene struct {
	*testing.T
	namespace, plugins string
	*tholetest.Process
}

// newScene starts a host without plugins. It skips the test where there is no browser.
func newScene(t *testing.T) *scene {
	t.Helper()
	if chromium == "" {
		t.Skip("needs chromium: make test-release installs it")
	}
	s := &scene{T: t, plugins: t.TempDir()}
	namespaces := objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	ns, err := namespaces.Create(t.Context(), object("v1", "Namespace", "", nil), metav1.CreateOptions{})
	s.must(err)
	s.namespace = ns.GetName()
	s.start("127.0.0.1:0")
	return s
}

// start starts the host, at an address that a test can start another one at.
func (s *scene) start(address string) {
	s.Helper()
	s.Process = tholetest.Host{
		Program: program, Plugins: s.plugins, Kubeconfig: cluster.Kubeconfig,
		CacheDir: filepath.Join(shared, "cache"), Args: []string{"--namespace", s.namespace, "--listen", address},
		Config: `allow: {entries: {"*": [{groups: ["*"], kinds: ["*"], verbs: ["*"], namespaces: ["*"]}]}}`,
	}.Start(s.T)
	await.Until(s.T, "the host is ready", func() bool {
		status, _ := s.Get("/readyz")
		return status == 200
	})
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// install puts plugins into the directory of the host, each in one step, with their policies.
func (s *scene) install(sources ...string) {
	s.Helper()
	for _, source := range sources {
		policy, err := os.ReadFile(filepath.Join(root, source, "policy.yaml"))
		if err == nil {
			s.write(filepath.Base(source)+".yaml", policy)
		} else if !errors.Is(err, os.ErrNotExist) {
			s.Fatal(err)
		}
		s.installModule(source)
	}
}

// installModule is install without the policy, which most plugins wait for.
func (s *scene) installModule(source string) {
	s.Helper()
	s.write(filepath.Base(source)+".wasm", wasmbuild.Build(s.T, wasmbuild.TinyGo, source))
}

func (s *scene) write(name string, content []byte) {
	s.Helper()
	partial := filepath.Join(s.plugins, "."+name)
	s.must(os.WriteFile(partial, content, 0o644))
	s.must(os.Rename(partial, filepath.Join(s.plugins, name)))
}

// The plugins of this package.
const (
	billing  = "host/internal/browsertest/testdata/billing"
	shipping = "host/internal/browsertest/testdata/shipping"
)

// applyCRD applies a CRD and waits until its kind is served.
func (s *scene) applyCRD(file string) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	s.must(err)
	crd := &unstructured.Unstructured{}
	s.must(yaml.Unmarshal(text, &crd.Object))
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	_, err = objects.Resource(crds).Apply(s.Context(), crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "test"})
	s.must(err)
	plural, group, _ := strings.Cut(crd.GetName(), ".")
	kind := schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
	await.Until(s.T, crd.GetName()+" is served", func() bool {
		_, err := objects.Resource(kind).List(s.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
}

func object(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "generateName": "browser-"},
	}}
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

// create creates an object; the namespace may have no service account yet, without which no Pod is created.
func (s *scene) create(apiVersion, kind, name string, spec map[string]any) {
	s.Helper()
	gv, err := schema.ParseGroupVersion(apiVersion)
	s.must(err)
	resource := objects.Resource(gv.WithResource(strings.ToLower(kind) + "s")).Namespace(s.namespace)
	s.must(await.Success(func() error {
		_, err := resource.Create(s.Context(), object(apiVersion, kind, name, spec), metav1.CreateOptions{})
		return err
	}))
}

const example = "example.thole.dev/v1"

// populate adds plugins that run and one that is refused, and objects that are fine, wait and fail. It waits
// until all of them have settled.
func (s *scene) populate() {
	s.Helper()
	for _, crd := range []string{"plugins/podmanager/crd.yaml", "plugins/labinstance/crd.yaml", "host/internal/e2e/testdata/stamp/crd.yaml"} {
		s.applyCRD(crd)
	}
	s.install("plugins/podmanager", "plugins/labinstance", billing)
	s.installModule(shipping)
	s.write("search-indexer.wasm", broken)
	for _, name := range []string{"web", "api", "checkout", "recommendations-for-returning-customers"} {
		s.create(example, "PodManager", name, map[string]any{"image": "registry.example.com/shop/" + name + ":1.4"})
	}
	s.create("v1", "Pod", "legacy", map[string]any{"containers": []any{map[string]any{"name": "c", "image": "a:1"}}})
	s.create(example, "PodManager", "legacy", map[string]any{"image": "a:1"}) // there is a Pod of that name
	s.create(example, "PodManager", "typo", map[string]any{"image": "a: 1"})
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	s.create(example, "LabInstanceRequest", "networking-101", map[string]any{"image": "lab:1", "duration": "90m"})
	s.create(example, "LabInstanceRequest", "networking-102", map[string]any{"image": "lab:1", "duration": "90m", "scheduledStart": tomorrow})
	for name, text := range map[string]string{"2026-10": "", "2026-11": "fails", "2026-12": "panics"} {
		s.create("e2e.thole.dev/v1", "Stamp", name, map[string]any{"text": text})
	}
	await.Until(s.T, "every object has settled", func() bool {
		m := s.Metrics()
		failed := func(controller string) float64 {
			return m.Sum("thole_reconcile_errors_total", "controller", controller)
		}
		return failed("billing/invoices") >= 6 && failed("podmanager/podmanager") >= 2 && // each Stamp three times
			s.Plugin("search-indexer").LastError != "" && s.Plugin("shipping").LastError != ""
	})
}
