package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/internal/await"
)

// previousProgram returns the path of thole as it was at the commit before, or at the one that
// THOLE_UPGRADE_FROM names.
func previousProgram(t *testing.T) string {
	t.Helper()
	repository := filepath.Join("..", "..", "..")
	revision := cmp.Or(os.Getenv("THOLE_UPGRADE_FROM"), "HEAD~1")
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", repository}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	commit, err := git("rev-parse", "--verify", "--quiet", revision+"^{commit}")
	if err != nil {
		t.Skipf("there is no commit %s to build the program of: %s", revision, commit)
	}
	dir := t.TempDir()
	sources, path := filepath.Join(dir, "sources"), filepath.Join(dir, "thole")
	if out, err := git("worktree", "add", "--detach", "--quiet", sources, commit); err != nil {
		t.Fatalf("check out %s: %v: %s", commit, err, out)
	}
	t.Cleanup(func() {
		if out, err := git("worktree", "remove", "--force", sources); err != nil {
			t.Errorf("remove the sources: %v: %s", err, out)
		}
	})
	build := exec.Command("go", "build", "-o", path, "./cmd/thole")
	build.Dir = sources
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build thole of %s: %v\n%s", commit, err, out)
	}
	t.Logf("the version before is %s", commit)
	return path
}

// Two replicas are replaced one after the other by those of another version, and by those of the version
// before again, with objects, children, finalizers, field managers and labels in place. While nothing
// changes, nothing is written; while 200 objects change, each change is written once, and none is lost.
func TestRelease_UpgradeForwardAndBack(t *testing.T) {
	before := previousProgram(t)
	useAuditedCluster(t)
	f := newFailOver(t, failOverSize{200, 1, 20 * time.Millisecond, nil}, before)
	identities := f.identities()
	for _, step := range []struct{ name, from, to string }{{"forward", before, program}, {"back", program, before}} {
		for _, quiet := range []string{step.to, step.from} {
			f.program = quiet
			f.rollingRestart()
			f.awaitAllRun()
			if writes := writesOf(f.audit.next(t)); len(writes) > 0 {
				t.Errorf("%s: nothing has changed, and %d writes were sent: %+v ...", step.name, len(writes), writes[0])
			}
		}
		f.program = step.to
		stop := f.beginChanges()
		<-time.After(500 * time.Millisecond)
		f.rollingRestart()
		<-time.After(500 * time.Millisecond)
		stop()
		f.awaitConverged()
		writes := f.audit.next(t)
		h := judge(writes)
		t.Logf("%s: %s", step.name, &h)
		for _, problem := range h.problems(0) {
			t.Errorf("%s: %s", step.name, problem)
		}
		if len(h.turns) < 2 {
			t.Errorf("%s: the plugin was led by %v", step.name, h.turns)
		}
		times := map[string]int{}
		for _, w := range writesOf(writes) {
			times[fmt.Sprintf("%s, revision %d", w.what, w.revision)]++
		}
		for _, what := range slices.Sorted(maps.Keys(times)) {
			if times[what] > 1 {
				t.Errorf("%s: %s was written %d times", step.name, what, times[what])
			}
		}
	}
	for name, now := range f.identities() {
		if now != identities[name] {
			t.Errorf("%s is now\n%s\nwas\n%s", name, now, identities[name])
		}
	}
}

// writesOf returns the writes of replicas that have succeeded, whether they have changed anything or not.
func writesOf(all []auditWrite) (some []auditWrite) {
	for _, w := range all {
		if w.by != "" && w.version > 0 {
			some = append(some, w)
		}
	}
	return some
}

// awaitAllRun waits until the leader has run each object, and is idle.
func (f *failOver) awaitAllRun() {
	f.t.Helper()
	leader := f.leader()
	var idle idleDetector
	await.Until(f.t, "the leader has run each object", func() bool {
		m := leader.Metrics()
		return m.Sum("controller_runtime_reconcile_total") >= float64(f.objects) && idle.idle(m)
	})
}

// identities returns what must stay of each object and its child: uid, finalizers, labels, the names of
// annotations, owners, and who manages which kind of field.
func (f *failOver) identities() map[string]string {
	f.t.Helper()
	identities := map[string]string{}
	for _, o := range slices.Concat(list(f.t, echoes, f.ns), list(f.t, configMaps, f.ns)) {
		identities[o.GetKind()+" "+o.GetName()] = identityOf(&o)
	}
	return identities
}

func identityOf(o *unstructured.Unstructured) string {
	var managers []string
	for _, m := range o.GetManagedFields() {
		managers = append(managers, fmt.Sprint(m.Manager, m.Operation, m.Subresource))
	}
	slices.Sort(managers)
	owners, _, _ := unstructured.NestedSlice(o.Object, "metadata", "ownerReferences")
	return fmt.Sprint(o.GetUID(), o.GetFinalizers(), o.GetLabels(), slices.Sorted(maps.Keys(o.GetAnnotations())), owners, managers)
}
