package deploytest

import (
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/internal/tholetest"
)

// The command runs as `kubectl exec` runs it in the host's pod: with the rights of
// the host. They are enough for the kinds of its plugins, and an error for others.
func TestFinalizersAreReleasedWithTheRightsOfTheHost(t *testing.T) {
	install(t, "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding")
	ns := namespace(t)
	for _, g := range grants(t, ofKinds(base(t), "ClusterRole")) {
		g.await(t, system, account, ns, true)
	}
	podManager(t, ns, "pm")
	change(t, podManagers, ns, "pm", `{"metadata":{"finalizers":["podmanager.thole.dev/podmanager","other.dev/x"]}}`)
	remove(t, podManagers, ns, "pm")
	config := kubeconfig(t, tholetest.Server(cluster.Config, ""), system, account)
	run := func(args ...string) (string, error) {
		out, err := exec.Command(program(t), append([]string{"finalizers", "podmanager", "--kubeconfig", config, "-n", ns}, args...)...).CombinedOutput()
		return string(out), err
	}

	if out, err := run(); err == nil || !strings.Contains(out, "list Secret.v1: ") || !strings.Contains(out, "lacks a right") {
		t.Errorf("of every kind: %v\n%s", err, out)
	}
	out, err := run("PodManager.v1.example.thole.dev", "--release")
	want := "released podmanager.thole.dev/podmanager of PodManager.v1.example.thole.dev " + ns + "/pm\n"
	if err != nil || out != want {
		t.Errorf("of the plugin's kind: %v\n%swant:\n%s", err, out, want)
	}
	left := get(t, podManagers, ns, "pm")
	if f, _, _ := unstructured.NestedStringSlice(left.Object, "metadata", "finalizers"); len(f) != 1 || f[0] != "other.dev/x" {
		t.Errorf("finalizers are %v", f)
	}
	change(t, podManagers, ns, "pm", `{"metadata":{"finalizers":null}}`)
}
