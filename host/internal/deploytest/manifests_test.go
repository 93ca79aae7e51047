package deploytest

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/host/source"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// repository copies what the commands of the README change to a temporary directory,
// with the built plugin where make puts it.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{"deploy", "plugins/podmanager"} {
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
	}
	writePlugin(t, filepath.Join(dir, "bin", "plugins"), wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager"))
	return dir
}

// writePlugin writes podmanager.wasm to a directory.
func writePlugin(t *testing.T, dir string, wasm []byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "podmanager.wasm"), wasm, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Each manifest of base and overlay is applied in a dry run. Only the namespace is
// created, because the API server requires it for the others.
func TestAPIServerAcceptsEveryManifest(t *testing.T) {
	repo := repository(t)
	writePlugin(t, filepath.Join(repo, "deploy/kustomize/demo/plugins"), wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager"))
	demo, err := kustomize(filepath.Join(repo, "deploy/kustomize/demo"))
	if err != nil {
		t.Fatal(err)
	}
	var made []*unstructured.Unstructured
	for _, o := range append(base(t), demo...) {
		if err := admin.apply(t.Context(), o, true); err != nil {
			t.Errorf("%s: %v", describe(o), err)
		}
		if o.GetKind() == "Namespace" && len(made) == 0 {
			if err := admin.apply(t.Context(), o, false); err != nil {
				t.Fatal(err)
			}
			made = append(made, o)
		}
	}
	if len(demo) != len(base(t))+1 {
		t.Errorf("the overlay has %d objects, want those of the base and the plugins", len(demo))
	}
}

// deployment returns the Deployment of the host.
func deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	return deploymentOf(t, base(t))
}

func deploymentOf(t *testing.T, objects []*unstructured.Unstructured) *appsv1.Deployment {
	t.Helper()
	found := ofKinds(objects, "Deployment")
	if len(found) != 1 {
		t.Fatalf("%d Deployments, want one", len(found))
	}
	d := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(found[0].Object, d, true); err != nil {
		t.Fatal(err)
	}
	return d
}

// The namespace enforces the standard "restricted": pods that violate it in one way
// are refused, and the pod of the host is not.
func TestPodMeetsTheEnforcedPodSecurityStandard(t *testing.T) {
	install(t, "Namespace", "ServiceAccount")
	spec := deployment(t).Spec.Template.Spec
	if err := tryPod(t, spec); err != nil {
		t.Errorf("the pod of the Deployment: %v", err)
	}
	yes := true
	for what, change := range map[string]func(*corev1.PodSpec, *corev1.Container){
		"runAsNonRoot":             func(p *corev1.PodSpec, _ *corev1.Container) { p.SecurityContext.RunAsNonRoot = nil },
		"seccompProfile":           func(p *corev1.PodSpec, _ *corev1.Container) { p.SecurityContext.SeccompProfile = nil },
		"allowPrivilegeEscalation": func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = &yes },
		"capabilities":             func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext.Capabilities = nil },
	} {
		changed := spec.DeepCopy()
		change(changed, &changed.Containers[0])
		if err := tryPod(t, *changed); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), what) {
			t.Errorf("without its %s the pod is not refused for that: %v", what, err)
		}
	}
}

// The kubelet is not tested: that it mounts the image, or runs the init container.
func TestPluginsComeFromAnImage(t *testing.T) {
	install(t, "Namespace", "ServiceAccount")
	want := deployment(t).Spec.Template.Spec
	for name, isImage := range map[string]func(corev1.PodSpec, corev1.Volume) bool{
		"image-volume": func(_ corev1.PodSpec, v corev1.Volume) bool { return v.Image != nil },
		"init-container": func(p corev1.PodSpec, v corev1.Volume) bool {
			return v.EmptyDir != nil && len(p.InitContainers) == 1 && p.InitContainers[0].VolumeMounts[0].Name == v.Name
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := kustomize(overlay(name))
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				if err := admin.apply(t.Context(), o, true); err != nil {
					t.Errorf("%s: %v", describe(o), err)
				}
			}
			pod := deploymentOf(t, objects).Spec.Template.Spec
			if err := tryPod(t, pod); err != nil {
				t.Errorf("the pod of the Deployment: %v", err)
			}
			if v := pod.Volumes[0]; v.Name != "plugins" || v.ConfigMap != nil || !isImage(pod, v) {
				t.Errorf("the plugins come from %+v", v)
			}
			if len(pod.Volumes) != len(want.Volumes) || !reflect.DeepEqual(pod.Containers[0].VolumeMounts, want.Containers[0].VolumeMounts) {
				t.Errorf("the other volumes, or what is mounted, are not those of the base: %+v", pod.Volumes)
			}
		})
	}
}

// A ConfigMap holds 1 MiB. The directory is never written, as that of an image is not.
func TestAModuleLargerThanAConfigMapRuns(t *testing.T) {
	install(t, "Namespace")
	dir := t.TempDir()
	writePlugin(t, dir, padded(wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager"), source.MaxFile))
	for path, mode := range map[string]os.FileMode{filepath.Join(dir, "podmanager.wasm"): 0o444, dir: 0o555} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	host := tholetest.Host{
		Program: program(t), Plugins: dir, CacheDir: t.TempDir(), Kubeconfig: cluster.Kubeconfig,
	}.Start(t)
	await.Until(t, "the plugin runs", func() bool { return revision(host) == 1 })
	ns := namespace(t)
	podManager(t, ns, "pm")
	await.Until(t, "the PodManager is healthy", func() bool { return healthy(t, ns, "pm") })
	remove(t, podManagers, ns, "pm")
	await.Until(t, "the PodManager is removed", func() bool { return get(t, podManagers, ns, "pm") == nil })
}

// padded returns an equivalent module of that size: it has one more custom section, named x.
func padded(wasm []byte, size int) []byte {
	const header = 6 // its id and, in 5 bytes, the size of its content
	content := size - len(wasm) - header
	wasm = append(slices.Clone(wasm), 0, byte(content)|0x80, byte(content>>7)|0x80, byte(content>>14)|0x80, byte(content>>21)|0x80, byte(content>>28), 1, 'x')
	return append(wasm, make([]byte, content-2)...)
}

func tryPod(t *testing.T, spec corev1.PodSpec) error {
	t.Helper()
	_, err := admin.CoreV1().Pods(system).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "try"}, Spec: spec,
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// These are requirements that no API server checks.
func TestDeploymentMeetsTheHostsRequirements(t *testing.T) {
	d := deployment(t)
	pod := d.Spec.Template.Spec
	if *d.Spec.Replicas < 2 || !slices.Contains(pod.Containers[0].Args, "--leader-elect") {
		t.Error("there is no second host to take over, or both would reconcile each object")
	}
	if r := d.Spec.Strategy.RollingUpdate; d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || r == nil || r.MaxUnavailable.IntValue() != 0 {
		t.Error("a host can end before another one is ready to take over")
	}
	budget := ofKinds(base(t), "PodDisruptionBudget")
	selected, _, _ := unstructured.NestedStringMap(budget[0].Object, "spec", "selector", "matchLabels")
	for _, labels := range []map[string]string{d.Spec.Selector.MatchLabels, d.Spec.Template.Labels, pod.TopologySpreadConstraints[0].LabelSelector.MatchLabels} {
		if !maps.Equal(labels, selected) {
			t.Errorf("the budget is for pods with %v, the others with %v", selected, labels)
		}
	}
	if grace := pod.TerminationGracePeriodSeconds; grace == nil || *grace <= 10 {
		t.Error("the grace period does not exceed the deadline of a reconcile, 10 s")
	}
	c := pod.Containers[0]
	if readOnly := c.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
		t.Error("the root file system can be written")
	}
	for _, m := range c.VolumeMounts {
		if m.SubPath != "" || m.SubPathExpr != "" {
			t.Errorf("the volume %s is mounted by subPath, which is never updated", m.Name)
		}
	}
	if c.LivenessProbe == nil || c.ReadinessProbe == nil || c.StartupProbe == nil {
		t.Error("a probe is missing")
	}
}

// A pod whose volume grows beyond its limit is evicted. While a module is compiled it
// needs space beside the cache.
func TestCacheFitsItsVolume(t *testing.T) {
	var config struct {
		CacheDir string
		CacheMiB int64
	}
	for _, o := range ofKinds(base(t), "ConfigMap") {
		text, _, err := unstructured.NestedString(o.Object, "data", "config.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
	}
	pod := deployment(t).Spec.Template.Spec
	for _, m := range pod.Containers[0].VolumeMounts {
		if !strings.HasPrefix(config.CacheDir, m.MountPath+"/") {
			continue
		}
		for _, v := range pod.Volumes {
			if v.Name == m.Name && v.EmptyDir != nil {
				if room := v.EmptyDir.SizeLimit.Value()>>20 - config.CacheMiB; config.CacheMiB == 0 || room < 32 {
					t.Errorf("the volume has %s, which is not enough for a cache of %d MiB", v.EmptyDir.SizeLimit, config.CacheMiB)
				}
				return
			}
		}
	}
	t.Error("the cache is not in an emptyDir")
}
