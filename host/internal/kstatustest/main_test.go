package kstatustest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// root is the path of the repository.
var root = filepath.Join("..", "..", "..")

// What every test shares: one control plane, one build of the program.
var (
	cluster *devcluster.Cluster
	program string // the path of thole
	objects dynamic.Interface
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if program, err = tholetest.Program("cmd/thole"); err != nil {
		return 1, err
	}
	if cluster, err = devcluster.StartMain(); err != nil {
		return 1, err
	}
	config := rest.CopyConfig(cluster.Config)
	config.QPS, config.Burst = 1000, 2000
	if objects, err = dynamic.NewForConfig(config); err == nil {
		code = m.Run()
	}
	if stopped := cluster.Stop(); err == nil {
		err = stopped
	}
	return code, err
}

var (
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	accounts   = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
)

// namespace creates a namespace in which pods can be created.
func namespace(t *testing.T) string {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "kstatus-"},
	}}
	ns, err := objects.Resource(namespaces).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the namespace has a service account", func() bool {
		_, err := objects.Resource(accounts).Namespace(ns.GetName()).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return ns.GetName()
}

// installCRD applies a CRD from a file and waits until the kind is served.
func installCRD(t *testing.T, path string, gvr schema.GroupVersionResource) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Resource(crds).Apply(t.Context(), crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, crd.GetName()+" is served", func() bool {
		_, err := objects.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
}
