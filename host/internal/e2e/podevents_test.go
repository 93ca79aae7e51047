package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// onPod is thole in a pod that the API server knows, as the downward API tells
// it of it.
func onPod(t *testing.T, d directory, ns string) (*process, *corev1.Pod) {
	t.Helper()
	pod, err := clients.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "thole"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "thole", Image: "thole"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := host(d.path, cluster.Kubeconfig, ns, "")
	h.Env = []string{"POD_NAME=" + pod.Name, "POD_NAMESPACE=" + pod.Namespace, "POD_UID=" + string(pod.UID)}
	return &process{h.Start(t), t}, pod
}

// toldOn waits for an Event that `kubectl describe pod` shows, whose message
// has all the parts, and returns the message.
func toldOn(t *testing.T, pod *corev1.Pod, eventType, reason string, parts ...string) (message string) {
	t.Helper()
	await.Until(t, reason+": "+strings.Join(parts, " ... "), func() bool {
		events, err := clients.CoreV1().Events(pod.Namespace).SearchWithContext(t.Context(), scheme.Scheme, pod)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(events.Items, func(e corev1.Event) bool {
			return e.Type == eventType && e.Reason == reason &&
				!slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(e.Message, part) })
		})
		if i >= 0 {
			message = events.Items[i].Message
		}
		return i >= 0
	})
	return message
}

// TestWhatHappensToPluginsIsToldOnThePod follows two plugins: one that never
// runs, one that runs and is replaced by a file that is no module.
func TestWhatHappensToPluginsIsToldOnThePod(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	d.install("broken", []byte("no module"))
	p, pod := onPod(t, d, ns)
	p.ready("podmanager", 1)
	toldOn(t, pod, "Normal", "PluginRuns", `plugin "podmanager" runs: generation 1, version `, ", sha256:")
	toldOn(t, pod, "Warning", "PluginRefused", `plugin "broken" is refused at step `, "; it does not run")

	d.install("podmanager", []byte("no module either"))
	toldOn(t, pod, "Warning", "PluginRefused", `plugin "podmanager" is refused at step `, "; goes on: generation 1, version ")
}

// TestWhatAPluginLeavesBehindIsTold, and released by the command that is told,
// and by nobody else.
func TestWhatAPluginLeavesBehindIsTold(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	const former, current, foreign = "podmanager.thole.dev/former", "podmanager.thole.dev/podmanager", "other.dev/x"
	primary(t, podManagers, "PodManager", ns, "old", map[string]any{"image": "a:1"})
	setFinalizers(t, ns, "old", `["`+former+`","`+foreign+`"]`)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p, pod := onPod(t, d, ns)
	p.ready("podmanager", 1)

	// The version that put the finalizer there is not known any more; that no
	// controller takes it off is.
	message := toldOn(t, pod, "Warning", "FinalizersRemain", "no longer has every controller", former+" on 1 PodManager.v1.example.thole.dev", ns+"/old")
	expectRelease(t, message, "released "+former+" of PodManager.v1.example.thole.dev "+ns+"/old\n")

	p.works(t, ns, "new")
	await.Until(t, "both carry the finalizer of the controller", func() bool {
		return slices.Contains(get(t, podManagers, ns, "old").GetFinalizers(), current) && slices.Contains(get(t, podManagers, ns, "new").GetFinalizers(), current)
	})
	if err := os.Remove(filepath.Join(d.path, "podmanager.wasm")); err != nil {
		t.Fatal(err)
	}
	toldOn(t, pod, "Normal", "PluginRemoved", `plugin "podmanager" is removed`)
	message = toldOn(t, pod, "Warning", "FinalizersRemain", `plugin "podmanager" is removed`, current+" on 2 PodManager.v1.example.thole.dev", ns+"/new, "+ns+"/old")
	p.remainsLogged(t, current)
	for _, name := range []string{"old", "new"} {
		remove(t, podManagers, ns, name)
		if o := get(t, podManagers, ns, name); o == nil || !slices.Contains(o.GetFinalizers(), current) {
			t.Fatalf("the host has taken the finalizer off %s by itself", name)
		}
	}
	expectRelease(t, message,
		"released "+current+" of PodManager.v1.example.thole.dev "+ns+"/new\n"+
			"released "+current+" of PodManager.v1.example.thole.dev "+ns+"/old\n")
	if get(t, podManagers, ns, "new") != nil {
		t.Error("an object that nothing holds any more is still there")
	}
	if f := get(t, podManagers, ns, "old").GetFinalizers(); !slices.Equal(f, []string{foreign}) {
		t.Errorf("finalizers are %v, want somebody else's alone", f)
	}
	expectRelease(t, message, "")
	setFinalizers(t, ns, "old", "null")
}

func setFinalizers(t *testing.T, ns, name, list string) {
	t.Helper()
	_, err := objects.Resource(podManagers).Namespace(ns).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":`+list+`}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// expectRelease runs the command at the end of a message, as it is.
func expectRelease(t *testing.T, message, want string) {
	t.Helper()
	_, command, ok := strings.Cut(message, "give that up: ")
	words := strings.Fields(command)
	if !ok || words[0] != "thole" {
		t.Fatalf("no command in %q", message)
	}
	cmd := exec.Command(program, words[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s%s", command, err, out, exit.Stderr)
	}
	if string(out) != want {
		t.Errorf("%s:\n%swant:\n%s", command, out, want)
	}
}

// remainsLogged waits for what the log has of a finalizer on two objects.
func (p *process) remainsLogged(t *testing.T, finalizer string) {
	t.Helper()
	await.Until(t, "the log tells of "+finalizer, func() bool {
		lines := tholetest.With(p.Log.Since(0), "finalizers remain that no controller takes off", "finalizer", finalizer, "kind", "example.thole.dev/v1 PodManager")
		return len(lines) == 1 && lines[0]["objects"] == 2.0 && lines[0]["@level"] == "warn" &&
			strings.HasPrefix(lines[0].String("release"), "thole finalizers podmanager/podmanager PodManager.v1.example.thole.dev -n ")
	})
}
