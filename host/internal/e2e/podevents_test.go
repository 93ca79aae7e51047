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
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// createHostPod creates a Pod for a host to run in.
func createHostPod(t *testing.T, ns string) *corev1.Pod {
	t.Helper()
	pod, err := clients.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "thole"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "thole", Image: "thole"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	return pod
}

// inPod gives thole the environment variables that the downward API sets in a Pod.
func inPod(pod *corev1.Pod) func(*tholetest.Host) {
	return func(h *tholetest.Host) {
		h.Env = []string{"POD_NAME=" + pod.Name, "POD_NAMESPACE=" + pod.Namespace, "POD_UID=" + string(pod.UID)}
	}
}

// awaitPodEvent waits for an Event that `kubectl describe pod` shows and whose
// message contains all the parts, and returns the message.
func awaitPodEvent(t *testing.T, pod *corev1.Pod, eventType, reason string, parts ...string) (message string) {
	t.Helper()
	await.Until(t, "an Event "+reason+": "+strings.Join(parts, " ... "), func() bool {
		events, err := clients.CoreV1().Events(pod.Namespace).SearchWithContext(t.Context(), scheme.Scheme, pod)
		must(t, err)
		i := slices.IndexFunc(events.Items, func(e corev1.Event) bool {
			return e.Type == eventType && e.Reason == reason && containsAll(e.Message, parts)
		})
		if i >= 0 {
			message = events.Items[i].Message
		}
		return i >= 0
	})
	return message
}

func containsAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// One plugin is refused at once, the other one runs and is then replaced by a
// module that is refused.
func TestPluginEventsAppearOnThePodOfTheHost(t *testing.T) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	d.install("broken", []byte("no module"))
	pod := createHostPod(t, ns)
	p := start(t, d, ns, "", inPod(pod))
	p.awaitRunning("podmanager", 1)
	awaitPodEvent(t, pod, "Normal", "PluginRuns", `plugin "podmanager" runs: revision 1, version `, ", sha256:")
	awaitPodEvent(t, pod, "Warning", "PluginRefused", `plugin "broken" is refused at step `, "; it does not run")

	d.install("podmanager", []byte("no module either"))
	awaitPodEvent(t, pod, "Warning", "PluginRefused",
		`plugin "podmanager" is refused at step `, "; keeps running: revision 1, version ")
}

// The command is part of the Event and the log. Nothing else releases finalizers.
func TestLeftoverFinalizersAreReportedWithTheCommandThatReleasesThem(t *testing.T) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	const former, current, foreign = "podmanager.thole.dev/former", "podmanager.thole.dev/podmanager", "other.dev/x"
	createPodManager(t, ns, "old", "a:1")
	setFinalizers(t, ns, "old", `["`+former+`","`+foreign+`"]`)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	pod := createHostPod(t, ns)
	p := start(t, d, ns, "", inPod(pod))
	p.awaitRunning("podmanager", 1)

	// The host has never seen the version of the plugin that had the controller
	// "former", but none of the present controllers removes its finalizer.
	message := awaitPodEvent(t, pod, "Warning", "FinalizersRemain",
		"no longer has every controller", former+" on 1 PodManager.v1.example.thole.dev", ns+"/old")
	expectRelease(t, message, "released "+former+" of PodManager.v1.example.thole.dev "+ns+"/old\n")

	expectServed(t, ns, "new")
	await.Until(t, "both objects have the finalizer of the controller", func() bool {
		return hasFinalizer(t, ns, "old", current) && hasFinalizer(t, ns, "new", current)
	})
	must(t, os.Remove(filepath.Join(d.path, "podmanager.wasm")))
	awaitPodEvent(t, pod, "Normal", "PluginRemoved", `plugin "podmanager" is removed`)
	message = awaitPodEvent(t, pod, "Warning", "FinalizersRemain",
		`plugin "podmanager" is removed`, current+" on 2 PodManager.v1.example.thole.dev", ns+"/new, "+ns+"/old")
	p.expectLeftoverLogged(t, current)
	for _, name := range []string{"old", "new"} {
		remove(t, podManagers, ns, name)
		if !hasFinalizer(t, ns, name, current) {
			t.Fatalf("the host has removed the finalizer of %s by itself", name)
		}
	}
	expectRelease(t, message,
		"released "+current+" of PodManager.v1.example.thole.dev "+ns+"/new\n"+
			"released "+current+" of PodManager.v1.example.thole.dev "+ns+"/old\n")
	if get(t, podManagers, ns, "new") != nil {
		t.Error("an object without finalizers still exists")
	}
	if f := get(t, podManagers, ns, "old").GetFinalizers(); !slices.Equal(f, []string{foreign}) {
		t.Errorf("finalizers are %v, want only that of others", f)
	}
	expectRelease(t, message, "") // a second call finds nothing
	setFinalizers(t, ns, "old", "null")
}

// hasFinalizer reports whether a PodManager exists and has a finalizer.
func hasFinalizer(t *testing.T, ns, name, finalizer string) bool {
	t.Helper()
	o := get(t, podManagers, ns, name)
	return o != nil && slices.Contains(o.GetFinalizers(), finalizer)
}

func setFinalizers(t *testing.T, ns, name, list string) {
	t.Helper()
	must(t, patch(t.Context(), podManagers, ns, name, `{"metadata":{"finalizers":`+list+`}}`))
}

// expectRelease runs the command at the end of an Event's message as it is, and
// compares its output.
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

// expectLeftoverLogged expects the log to have the finalizer on two PodManagers,
// with the command that releases it.
func (p *process) expectLeftoverLogged(t *testing.T, finalizer string) {
	t.Helper()
	const kind = "example.thole.dev/v1 PodManager"
	lines := p.Log.Events("FinalizersLeft", "finalizer", finalizer, "kind", kind, "@level", "warn")
	const command = "thole finalizers podmanager/podmanager PodManager.v1.example.thole.dev -n "
	if len(lines) != 1 || lines[0]["objects"] != 2.0 || !strings.HasPrefix(lines[0].String("release"), command) {
		t.Errorf("the finalizer is logged as %v", lines)
	}
}
