package finalizers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

func TestMain(m *testing.M) { devcluster.Main(m) }

const (
	ours    = "demo.thole.dev/main"
	ours2   = "demo.thole.dev/former"
	foreign = "other.dev/x"
)

// world is a namespace in a real cluster.
type world struct {
	*testing.T
	*kubernetes.Clientset
	config *rest.Config
	ns     string
}

// TestReleaseOnACluster runs all scenarios against one control plane.
func TestReleaseOnACluster(t *testing.T) {
	cluster := devcluster.Shared(t)
	for name, test := range map[string]func(*world){
		"Find":        (*world).find,
		"Release":     (*world).release,
		"DryRun":      (*world).dryRun,
		"Races":       (*world).races,
		"Rights":      (*world).rights,
		"Unreachable": (*world).unreachable,
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, config: rest.CopyConfig(cluster.Config)}
			w.config.QPS, w.config.Burst = 1000, 2000
			w.Clientset = kubernetes.NewForConfigOrDie(w.config)
			ns, err := w.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "finalizers-"}}, metav1.CreateOptions{})
			w.must(err)
			w.ns = ns.Name
			test(w)
		})
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// configMap creates a ConfigMap with finalizers, and deletes it if deleting is
// set.
func (w *world) configMap(name string, deleting bool, finalizers ...string) {
	w.Helper()
	_, err := w.CoreV1().ConfigMaps(w.ns).Create(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}, metav1.CreateOptions{})
	w.must(err)
	if deleting {
		w.must(w.CoreV1().ConfigMaps(w.ns).Delete(w.Context(), name, metav1.DeleteOptions{}))
	}
}

// carries returns the finalizers of a ConfigMap, "gone" if it does not exist.
func (w *world) carries(name string) []string {
	w.Helper()
	o, err := w.CoreV1().ConfigMaps(w.ns).Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return []string{"gone"}
	}
	w.must(err)
	return o.Finalizers
}

func (w *world) expect(name string, want ...string) {
	w.Helper()
	if got := w.carries(name); !slices.Equal(got, want) {
		w.Errorf("%s has finalizers %v, want %v", name, got, want)
	}
}

// of returns a configuration for an owner in the namespace.
func (w *world) of(owner string, kinds ...string) Config {
	w.Helper()
	o, err := ParseOwner(owner)
	w.must(err)
	return Config{Cluster: w.config, Version: "test", Owner: o, Kinds: kinds, Namespace: w.ns}
}

// found returns the result of Find, without the name of the namespace.
func (w *world) found(c Config) (rows []string, held []Held) {
	w.Helper()
	held, err := Find(w.Context(), c)
	w.must(err)
	for _, h := range held {
		rows = append(rows, fmt.Sprintf("%s %s %s %v", KindName(h.Kind.Kind), h.Object.Name, h.Controller, h.Object.Deleting()))
	}
	slices.Sort(rows)
	return rows, held
}

// releaseAll releases finalizers and returns the errors.
func (w *world) releaseAll(c Config, held []Held) (problems []string) {
	w.Helper()
	calls := 0
	failed, err := Release(w.Context(), c, held, func(_ Held, err error) {
		if calls++; err != nil {
			problems = append(problems, err.Error())
		}
	})
	w.must(err)
	if calls != len(held) || failed != len(problems) {
		w.Errorf("done was called %d times, %d failed; want %d, %d", calls, failed, len(held), len(problems))
	}
	return problems
}

func (w *world) find() {
	// A plugin of its own: other tests leave something in other namespaces.
	const sought, sought2 = "sought.thole.dev/main", "sought.thole.dev/former"
	w.configMap("a", false, sought)
	w.configMap("b", true, foreign, sought2, sought)
	w.configMap("c", false, foreign)
	w.configMap("d", false)
	for i := range 7 {
		w.configMap(fmt.Sprintf("many-%d", i), false, "many.thole.dev/main")
	}
	role, err := w.RbacV1().ClusterRoles().Create(w.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "r-", Finalizers: []string{sought}}}, metav1.CreateOptions{})
	w.must(err)
	defer w.release1(role.Name)

	const a, former, main = "ConfigMap.v1 a main false", "ConfigMap.v1 b former true", "ConfigMap.v1 b main true"
	roleRow := "ClusterRole.v1.rbac.authorization.k8s.io " + role.Name + " main false"
	elsewhere := w.of("sought", "configmaps")
	elsewhere.Namespace = "kube-system"
	everywhere := w.of("sought")
	everywhere.Namespace = ""
	for _, c := range []struct {
		what string
		Config
		want []string
	}{
		{"every kind of the cluster", w.of("sought"), []string{roleRow, a, former, main}},
		{"every namespace", everywhere, []string{roleRow, a, former, main}},
		{"one kind", w.of("sought", "ConfigMap.v1"), []string{a, former, main}},
		{"two kinds, one twice", w.of("sought", "cm", "clusterroles", "configmap"), []string{roleRow, a, former, main}},
		{"one controller", w.of("sought/former"), []string{former}},
		{"another kind", w.of("sought", "secrets"), nil},
		{"another plugin", w.of("sough"), nil},
		{"another namespace", elsewhere, nil},
	} {
		if rows, _ := w.found(c.Config); !slices.Equal(rows, c.want) {
			w.Errorf("%s:\n%s\nwant:\n%s", c.what, strings.Join(rows, "\n"), strings.Join(c.want, "\n"))
		}
	}
	pages := w.of("many", "configmaps")
	pages.page = 3
	if rows, _ := w.found(pages); len(rows) != 7 {
		w.Errorf("in pages: %v", rows)
	}
}

func (w *world) release1(clusterRole string) {
	_, err := w.RbacV1().ClusterRoles().Patch(w.Context(), clusterRole, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.must(err)
	w.must(w.RbacV1().ClusterRoles().Delete(w.Context(), clusterRole, metav1.DeleteOptions{}))
}

func (w *world) release() {
	w.configMap("live", false, foreign, ours)
	w.configMap("going", true, ours)
	w.configMap("held", true, ours2, foreign, ours)
	c := w.of("demo/main", "configmaps")
	_, held := w.found(c)
	if problems := w.releaseAll(c, held); len(held) != 3 || len(problems) > 0 {
		w.Errorf("%d held: %v", len(held), problems)
	}
	w.expect("live", foreign)
	w.expect("going", "gone")
	w.expect("held", ours2, foreign)
	c = w.of("demo", "configmaps")
	_, held = w.found(c)
	w.releaseAll(c, held)
	w.expect("held", foreign)
	if rows, _ := w.found(c); rows != nil {
		w.Errorf("left: %v", rows)
	}
}

func (w *world) dryRun() {
	w.configMap("a", true, ours)
	c := w.of("demo", "configmaps")
	c.DryRun = true
	_, held := w.found(c)
	if problems := w.releaseAll(c, held); len(held) != 1 || len(problems) > 0 {
		w.Errorf("%d held: %v", len(held), problems)
	}
	w.expect("a", ours)
}

// races changes objects between Find and Release.
func (w *world) races() {
	for _, name := range []string{"changed", "gone", "replaced", "released"} {
		w.configMap(name, false, ours)
	}
	c := w.of("demo", "configmaps")
	_, held := w.found(c)
	edit := func(name, finalizers string) {
		w.Helper()
		_, err := w.CoreV1().ConfigMaps(w.ns).Patch(w.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
		w.must(err)
	}
	remove := func(name string) {
		w.Helper()
		edit(name, "null")
		w.must(w.CoreV1().ConfigMaps(w.ns).Delete(w.Context(), name, metav1.DeleteOptions{}))
	}
	edit("changed", `["third.dev/y","`+ours+`","other.dev/x"]`)
	edit("released", "null")
	remove("gone")
	remove("replaced")
	w.configMap("replaced", false, ours, foreign)
	if problems := w.releaseAll(c, held); len(held) != 4 || len(problems) > 0 {
		w.Errorf("%d held: %v", len(held), problems)
	}
	w.expect("changed", "third.dev/y", foreign)
	w.expect("released")
	w.expect("gone", "gone")
	w.expect("replaced", ours, foreign)
}

// rights covers missing rights: the errors name the rule to add.
func (w *world) rights() {
	w.configMap("a", false, ours)
	const user = "few-rights"
	_, err := w.RbacV1().Roles(w.ns).Create(w.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.RbacV1().RoleBindings(w.ns).Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.config = rest.CopyConfig(w.config)
	w.config.Impersonate.UserName = user

	c := w.of("demo", "configmaps")
	var held []Held
	await.Until(w.T, "the right to list counts", func() bool { held, err = Find(w.Context(), c); return err == nil })
	if len(held) != 1 {
		w.Fatalf("held: %v", held)
	}
	problems := w.releaseAll(c, held)
	want := fmt.Sprintf(`release ConfigMap.v1 %s/a: "few-rights" lacks a right: add to a Role in namespace %q the rule {apiGroups: [''], resources: ['configmaps'], verbs: ['patch']}`, w.ns, w.ns)
	if len(problems) != 1 || !strings.HasPrefix(problems[0], want) {
		w.Errorf("got  %v\nwant %s", problems, want)
	}
	w.expect("a", ours)

	held, err = Find(w.Context(), w.of("demo"))
	if len(held) != 1 || err == nil || !strings.Contains(err.Error(), `list Secret.v1: "few-rights" lacks a right`) {
		w.Errorf("of every kind: %d held, %v", len(held), err)
	}
}

func (w *world) unreachable() {
	c := w.of("demo")
	c.Cluster = &rest.Config{Host: "https://127.0.0.1:1"}
	if held, err := Find(w.Context(), c); held != nil || err == nil || !strings.Contains(err.Error(), "the API server at 127.0.0.1:1 cannot be reached") {
		w.Errorf("got %v, %v", held, err)
	}
}
