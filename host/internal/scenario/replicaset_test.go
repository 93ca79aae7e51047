package scenario

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/internal/wasmbuild"
)

// newReplicaSetSuite returns a suite in whose control planes no ReplicaSet controller runs.
func newReplicaSetSuite(t *testing.T) *Suite {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	own := &Suite{
		Program: suite.Program, CacheDir: suite.CacheDir, Plugins: suite.Plugins,
		Flags: []string{"--without-controllers", "replicaset-controller"},
	}
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	return own
}

// TestReplicaSet runs the scripts of testdata/replicaset: the plugin replicaset does the work of the
// controller of Kubernetes.
func TestReplicaSet(t *testing.T) {
	newReplicaSetSuite(t).testCompiled(t, "replicaset", wasmbuild.TinyGo)
}

// TestReplicaSetOfKubernetes runs the same scripts without the plugin: what they expect is what the controller
// of Kubernetes does.
func TestReplicaSetOfKubernetes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	p := suite.Params("")
	for _, name := range []string{"plugin", "log"} {
		p.Cmds[name] = func(*testscript.TestScript, bool, []string) {}
	}
	p.Cmds["host"] = command{usage: "start", run: awaitPodsSeen}.command("host")
	files, err := filepath.Glob(filepath.Join("testdata", "replicaset", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	p.Files = slices.DeleteFunc(files, func(file string) bool {
		// Two are about the host. In the third one pods have a ReplicaSet as owner before its controller runs.
		return slices.Contains([]string{"faults.txtar", "swap.txtar", "adoption.txtar"}, filepath.Base(file))
	})
	testscript.Run(t, p)
}

// awaitPodsSeen waits until the controller of Kubernetes has seen the pods that a script has created: it would
// make others in place of those. It has seen them when it counts a younger one.
func awaitPodsSeen(s *script, args []string) error {
	pods, err := s.api.in("pods", s.namespace)
	if err != nil {
		return err
	}
	if list, err := pods.List(s.tb.Context(), metav1.ListOptions{}); err != nil || len(list.Items) == 0 || args[0] != "start" {
		return err
	}
	set, err := s.object("replicaset/seen", s.namespace)
	if err != nil {
		return err
	}
	labels := map[string]any{"app": "seen"}
	_, err = set.client.Create(s.tb.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": map[string]any{"name": set.name},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "nginx:1.29"}}},
		}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := s.await(wait{}, func() error { return s.checkStatus(set, 1) }); err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	return set.client.Delete(s.tb.Context(), set.name, metav1.DeleteOptions{PropagationPolicy: &background})
}

// TestSoakReplicaSetKills kills the host in the middle of scalings.
func TestSoakReplicaSetKills(t *testing.T) {
	k := killing{scalings: 20, kills: 4}
	if os.Getenv("SOAK") != "" {
		k = killing{scalings: 200, kills: 20}
	}
	p := newReplicaSetSuite(t).Params("")
	p.Files = []string{filepath.Join("testdata", "kills", "replicaset.txtar")}
	p.Cmds["scale-and-kill"] = command{usage: "RESOURCE/NAME LABELS-OF-PODS", run: k.scaleAndKill}.command("scale-and-kill")
	testscript.Run(t, p)
}

// killing is how often an object is scaled, and in how many of these the host is killed.
type killing struct{ scalings, kills int }

const mostReplicas = 12

// scaleAndKill scales an object at random, and waits for the pods only now and then.
func (k killing) scaleAndKill(s *script, args []string) error {
	if len(args) != 2 {
		return wrongUse("%q", args)
	}
	o, err := s.object(args[0], s.namespace)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 2))
	most := 1 // that were wanted since there were as many as wanted
	for i := range k.scalings {
		replicas := random.IntN(mostReplicas + 1)
		kills := i%(k.scalings/k.kills) == 0
		if kills {
			replicas = mostReplicas - replicas%4 // so that there are writes to be killed after
			rule := []string{"write", "pods", "kill", fmt.Sprint("after=", random.IntN(4)), "times=1"}
			if err := fault(s, rule); err != nil {
				return err
			}
		}
		most = max(most, replicas)
		if err := s.mergePatch(o, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)); err != nil {
			return err
		}
		wanted := -1 // do not wait
		if kills || random.IntN(4) == 0 || i == k.scalings-1 {
			wanted = replicas
		}
		if err := s.await(wait{}, func() error { return s.checkPods(o, args[1], wanted, most) }); err != nil {
			return fmt.Errorf("scaling %d, to %d: %w", i, replicas, err)
		}
		if wanted >= 0 {
			most = wanted
		}
	}
	return nil
}

// checkStatus checks that a run has seen what is wanted now, and found so many pods: before that, the number
// may pass the one that is wanted.
func (s *script) checkStatus(o object, wanted int) error {
	got, err := o.client.Get(s.tb.Context(), o.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	replicas, _, _ := unstructured.NestedInt64(got.Object, "status", "replicas")
	if int(replicas) != wanted {
		return fmt.Errorf("status.replicas is %d, expected %d", replicas, wanted)
	}
	return observed(got)
}

// checkPods checks that there are no more pods than most, and unless wanted is negative, that there are so
// many, all of them controlled by an object and named after it.
func (s *script) checkPods(owner object, selector string, wanted, most int) error {
	pods, err := s.api.in("pods", s.namespace)
	if err != nil {
		return err
	}
	list, err := pods.List(s.tb.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	if len(list.Items) > most {
		return permanentError{fmt.Errorf("there are %d pods, and at most %d were wanted: %s", len(list.Items), most, names(list))}
	}
	if wanted < 0 {
		return nil
	}
	if err := s.checkStatus(owner, wanted); err != nil {
		return err
	}
	if len(list.Items) != wanted {
		return fmt.Errorf("there are %d pods, expected %d: %s", len(list.Items), wanted, names(list))
	}
	for i := range list.Items {
		if c := metav1.GetControllerOf(&list.Items[i]); c == nil || c.Name != owner.name {
			return fmt.Errorf("the controller of pod %s is %v, expected %s", list.Items[i].GetName(), c, owner.name)
		}
		if name, prefix := list.Items[i].GetName(), list.Items[i].GetGenerateName(); prefix != owner.name+"-" || !strings.HasPrefix(name, prefix) {
			return permanentError{fmt.Errorf("pod %s has the generateName %q", name, prefix)}
		}
		if a := list.Items[i].GetAnnotations(); len(a) > 0 {
			return permanentError{fmt.Errorf("pod %s has the annotations %v, which its template does not have", list.Items[i].GetName(), a)}
		}
	}
	return nil
}
