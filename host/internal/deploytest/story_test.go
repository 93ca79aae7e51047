package deploytest

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
)

// A platform engineer installs the host, drops a plugin, sees it, breaks it, sees why, corrects it, and
// removes it, by commands alone. The object of the plugin is healthy all the time.
func TestStoryOfAPlugin(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t, self)
	const (
		plugins = "deploy/kustomize/demo/plugins/"
		apply   = "kubectl apply --server-side -k deploy/kustomize/demo\n"
	)
	t.Cleanup(func() {
		r.enter("uninstall", "kubectl delete -k deploy/kustomize/demo\nkubectl delete -f plugins/podmanager/crd.yaml\n")
	})

	r.enter("install", "kubectl apply -f plugins/podmanager/crd.yaml\ncp bin/plugins/podmanager.wasm "+plugins+"\n"+apply)
	leader := r.node.awaitLeader(t, 1)
	r.sees(leader, "running", "podmanager")

	r.enter("use", "kubectl apply -f plugins/podmanager/sample.yaml\nkubectl wait --for=condition=Ready podmanager/sample --timeout=60s\n")

	r.enter("break", "head -c 9999 bin/plugins/podmanager.wasm >"+plugins+"podmanager.wasm\n"+apply)
	r.sees(leader, "degraded", "podmanager")
	if wide := leader.plugins(t, "-o", "wide"); !strings.Contains(wide, "parse") && !strings.Contains(wide, "section") {
		t.Errorf("thole plugins -o wide does not state why:\n%s", wide)
	}
	awaitPodEvent(t, leader.pod, "PluginRefused", "")
	r.enter("still use", `kubectl patch podmanager/sample --type=merge -p '{"spec":{"image":"nginx:1.30"}}'
kubectl wait --for=jsonpath='{.spec.containers[0].image}'=nginx:1.30 pod/sample --timeout=60s
`)

	r.enter("correct", "cp bin/plugins/podmanager.wasm "+plugins+"\n"+apply)
	r.sees(leader, "running", "podmanager")
	if wide := leader.plugins(t, "-o", "wide"); strings.Contains(wide, "section") {
		t.Errorf("thole plugins still has an error:\n%s", wide)
	}

	r.enter("remove", "kubectl delete podmanagers --all --all-namespaces --timeout=60s\nkubectl delete configmap thole-plugins -n thole-system\n")
	await.Until(t, "the plugin is gone", func() bool { return !strings.Contains(leader.plugins(t), "podmanager") })
	for _, c := range r.node.hosts() {
		for _, line := range slices.Concat(withField(c.Log.Since(0), "orbidden"), c.Log.Events("FinalizersLeft")) {
			t.Errorf("in the host's log: %v", line)
		}
	}
}

// plugins returns what `thole plugins` prints in the container.
func (c *container) plugins(t *testing.T, args ...string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(c.Address())
	if err != nil {
		t.Fatal(err)
	}
	return c.engine.output(t, append([]string{"exec", c.name(), "/thole", "plugins", "--address", "127.0.0.1:" + port}, args...)...)
}

// sees waits until `thole plugins` shows a plugin in a state.
func (r *reader) sees(c *container, state, plugin string) {
	r.Helper()
	await.Until(r.T, fmt.Sprintf("thole plugins shows that %s is %s", plugin, state), func() bool {
		for line := range strings.Lines(c.plugins(r.T)) {
			if fields := strings.Fields(line); len(fields) > 0 && fields[0] == plugin && slices.Contains(fields, state) {
				return true
			}
		}
		return false
	})
}
