package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/thole-dev/thole/host/internal/tholetest"
)

// deployedHost makes the service account "thole" in a namespace, with the rights that files of deploy/kustomize give
// to a host, and returns the path of its kubeconfig.
func deployedHost(t *testing.T, ns string, files ...string) (kubeconfig string) {
	t.Helper()
	user := serviceAccount(t, ns, "thole")
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "kustomize", file))
		must(t, err)
		applyRoles(t, ns, strings.ReplaceAll(string(text), "thole-system", ns))
	}
	return tholetest.Kubeconfig(t, tholetest.Server(cluster.Config, ""), user)
}

// permit applies what `thole rbac` prints for a plugin of the directory, with more of its flags.
func (d directory) permit(t *testing.T, ns, plugin string, flags ...string) {
	t.Helper()
	tools, err := tholetest.Program("cmd/thole-tools")
	must(t, err)
	cmd := exec.Command(tools, append([]string{
		"rbac", filepath.Join(d.path, plugin+".wasm"), "--kubeconfig", cluster.Kubeconfig, "--host-service-account", ns + "/thole", "--namespace", ns,
	}, flags...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("thole rbac: %v: %s", err, &stderr)
	}
	applyRoles(t, ns, string(text))
}

// applyRoles applies objects in YAML. Bindings for all namespaces, which the hosts of other tests have too, are named after
// the namespace.
func applyRoles(t *testing.T, ns, text string) {
	t.Helper()
	for d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return
		} else if must(t, err); o.Object == nil {
			continue
		}
		if o.GetKind() == "ClusterRoleBinding" {
			o.SetName(o.GetName() + "-" + ns)
		}
		gvk := o.GroupVersionKind()
		resource := objects.Resource(gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"))
		var client dynamic.ResourceInterface = resource
		if o.GetNamespace() != "" {
			client = resource.Namespace(o.GetNamespace())
		}
		_, err := client.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "e2e", Force: true})
		must(t, err)
	}
}
