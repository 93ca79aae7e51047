package deploytest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// grant is a right and the role that grants it.
type grant struct {
	tholetest.Right
	namespace string // of a Role; "" for a ClusterRole
	role      string // its name
	name      string // of the only object that the right is for; "" for all
	rules     []rbacv1.PolicyRule
}

// grants returns every right that roles among the objects give, in their order, but those by which the host
// protects what it serves: package host tests these.
func grants(t *testing.T, objects []*unstructured.Unstructured) (all []grant) {
	t.Helper()
	for _, o := range ofKinds(objects, "ClusterRole", "Role") {
		role := &rbacv1.Role{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, role, true); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(role.Name, "thole-metrics") {
			continue
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources { // of URLs there are none
				for _, verb := range rule.Verbs {
					all = append(all, grant{tholetest.Right{Verb: verb, Group: rule.APIGroups[0], Resource: resource}, role.Namespace, role.Name, append(rule.ResourceNames, "")[0], role.Rules})
				}
			}
		}
	}
	return all
}

// without returns the role's rules without one right.
func (g grant) without() (rules []rbacv1.PolicyRule) {
	for _, rule := range g.rules {
		for _, resource := range rule.Resources {
			one := *rule.DeepCopy()
			one.Resources = []string{resource}
			if resource == g.Resource {
				one.Verbs = slices.DeleteFunc(one.Verbs, func(v string) bool { return v == g.Verb })
			}
			if len(one.Verbs) > 0 {
				rules = append(rules, one)
			}
		}
	}
	return rules
}

// revoke removes the right and restore grants it again. Both wait until the API
// server enforces the change.
func (g grant) revoke(t *testing.T)  { g.set(t, g.without(), false) }
func (g grant) restore(t *testing.T) { g.set(t, g.rules, true) }

func (g grant) set(t *testing.T, rules []rbacv1.PolicyRule, allowed bool) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"rules": rules})
	if err == nil && g.namespace == "" {
		_, err = admin.RbacV1().ClusterRoles().Patch(t.Context(), g.role, types.MergePatchType, patch, metav1.PatchOptions{})
	} else if err == nil {
		_, err = admin.RbacV1().Roles(g.namespace).Patch(t.Context(), g.role, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	g.await(t, system, account, cmp.Or(g.namespace, metav1.NamespaceDefault), allowed)
}

// await waits until the API server allows or denies the right to a service account in
// a namespace: it enforces roles and bindings some time after it has stored them.
func (g grant) await(t *testing.T, namespace, account, in string, allowed bool) {
	t.Helper()
	await.Until(t, fmt.Sprintf("the account's right to %s in %s is %v", g.Right, in, allowed), func() bool {
		return g.allowed(t, namespace, account, in) == allowed
	})
}

func (g grant) allowed(t *testing.T, namespace, account, in string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(g.Resource, "/")
	review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + namespace + ":" + account,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: g.Verb, Group: g.Group, Resource: resource, Subresource: subresource, Namespace: in, Name: g.name,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// The host runs with a token of its service account, first with all rights and then
// without each of them. The host must name the missing right, and continue when it is
// granted again. So a right that nothing needs fails the test, and a right without a
// scenario does too.
func TestHostNeedsExactlyItsRights(t *testing.T) {
	install(t, "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
	removeLeases(t)
	// Which grants a right twice.
	if err := admin.RbacV1().RoleBindings(system).Delete(t.Context(), "thole-metrics", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ns, p := namespace(t), newProxy(t)
	config := kubeconfig(t, p.Cluster, system, account)
	// Streamed lists are off, because they do not need the verb list. The host has
	// that right for API servers without streamed lists.
	run := func() *tholetest.Process {
		return thole(t, config, []string{
			"--leader-elect", "--leader-elect-resource-namespace", system,
			"--leader-elect-lease-duration", "6s", "--leader-elect-renew-deadline", "4s", "--leader-elect-retry-period", "500ms",
		}, []string{"KUBE_FEATURE_WatchListClient=false"})
	}
	granted := grants(t, base(t))
	for _, g := range granted {
		g.await(t, system, account, cmp.Or(g.namespace, ns), true)
	}
	host := run()
	if !t.Run("all", func(t *testing.T) {
		allRights(&missingRight{T: t, Proxy: p, host: host, namespace: ns, pm: "pm"}, granted)
	}) {
		return
	}
	for i, g := range granted {
		t.Run("without "+g.String(), func(t *testing.T) {
			s := &missingRight{T: t, grant: g, Proxy: p, host: host, namespace: ns, pm: fmt.Sprintf("pm-%d", i)}
			s.restart = func() {
				s.stop()
				host = run()
				s.host, s.mark = host, 0
			}
			s.run()
		})
	}
	if len(granted) != len(scenarios) {
		t.Errorf("%d rights, %d scenarios", len(granted), len(scenarios))
	}
}

// allRights runs a PodManager from creation to deletion with all rights. The host must
// use each of them and no other, and nothing is denied.
func allRights(s *missingRight, granted []grant) {
	s.createWithoutReply()
	await.Until(s.T, "the PodManager is healthy after a lost reply", func() bool { return healthy(s.T, s.namespace, s.pm) })
	remove(s.T, podManagers, s.namespace, s.pm)
	await.Until(s.T, "the first PodManager is removed", func() bool { return get(s.T, podManagers, s.namespace, s.pm) == nil })
	s.createAndInterfere()
	await.Until(s.T, "the PodManager is healthy", func() bool { return healthy(s.T, s.namespace, s.pm) })
	s.awaitIdle()
	s.losePod()
	s.awaitEvent(s.pm, 2)
	s.awaitIdle()
	s.changeCommand()
	s.podIsReplaced()
	s.awaitIdle()
	s.keepsTheModule()
	s.loseTheModule()
	s.keepsTheModule()
	s.damageTheModule()
	s.keepsTheModule()
	remove(s.T, podManagers, s.namespace, s.pm)
	await.Until(s.T, "the PodManager and its Pod are removed", func() bool {
		return get(s.T, podManagers, s.namespace, s.pm) == nil && get(s.T, pods, s.namespace, s.pm) == nil
	})
	used, denied := s.Rights()
	if len(denied) > 0 {
		s.Errorf("denied: %v", denied)
	}
	for _, r := range used {
		if !slices.ContainsFunc(granted, func(g grant) bool { return g.Right == r }) {
			s.Errorf("the host used a right that it does not have: %v", r)
		}
	}
	for _, g := range granted {
		if !slices.Contains(used, g.Right) {
			s.Errorf("the host never used its right to %s", g.Right)
		}
	}
}

// The chart can do without any ClusterRole: then the host works in the namespaces that are named, with
// the rights that the Roles there give it.
func TestRightsInNamespacesAreEnough(t *testing.T) {
	install(t, "Namespace")
	objects := golden(t, "namespaced")
	if roles := ofKinds(objects, "ClusterRole", "ClusterRoleBinding"); len(roles) > 0 {
		t.Errorf("there are %s", describe(roles[0]))
	}
	for _, ns := range []string{"team-a", "team-b"} {
		makeNamespace(t, ns)
	}
	for _, o := range ofKinds(objects, "ServiceAccount", "Role", "RoleBinding") {
		if err := admin.apply(t.Context(), o, false); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { admin.remove(t, o) })
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := strings.ReplaceAll(configOf(t, objects), "/cache/thole", filepath.Join(scratch, "cache", "thole"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	awaitRoles(t, objects)
	p := newProxy(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "thole-namespaced", UID: "namespaced"}}
	host := thole(t, kubeconfig(t, p.Cluster, system, account), []string{"--config", config, "--leader-elect"}, []string{
		"POD_NAME=" + pod.Name, "POD_NAMESPACE=" + pod.Namespace, "POD_UID=" + string(pod.UID),
	})
	for _, ns := range []string{"team-a", "team-b"} {
		podManager(t, ns, "pm")
		await.Until(t, "the PodManager in "+ns+" is healthy", func() bool { return healthy(t, ns, "pm") })
	}
	awaitPodEvent(t, pod, "PluginRuns", `plugin "podmanager" runs: revision 1, `)
	for _, ns := range []string{"team-a", "team-b"} {
		remove(t, podManagers, ns, "pm")
		await.Until(t, "the PodManager is removed", func() bool { return get(t, podManagers, ns, "pm") == nil })
	}
	if _, denied := p.Rights(); len(denied) > 0 {
		t.Errorf("denied: %v", denied)
	}
	if lines := withField(host.Log.Since(0), "orbidden"); len(lines) > 0 {
		t.Errorf("in the host's log: %v", lines)
	}
}

// awaitRoles waits until the API server enforces the Roles among the objects, for those to whom the RoleBindings
// give them.
func awaitRoles(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	accounts := map[string]string{} // by namespace and name of the Role
	for _, o := range ofKinds(objects, "RoleBinding") {
		binding := &rbacv1.RoleBinding{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, binding, true); err != nil {
			t.Fatal(err)
		}
		accounts[binding.Namespace+"/"+binding.RoleRef.Name] = binding.Subjects[0].Name
	}
	for _, g := range grants(t, objects) {
		g.await(t, system, accounts[g.namespace+"/"+g.role], g.namespace, true)
	}
}

// awaitPodEvent waits for an Event on a pod, as `kubectl describe pod` finds it.
func awaitPodEvent(t *testing.T, pod *corev1.Pod, reason, message string) {
	t.Helper()
	await.Until(t, "an Event on the host's pod: "+message, func() bool {
		about := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: pod.ObjectMeta}
		events, err := admin.CoreV1().Events(pod.Namespace).SearchWithContext(t.Context(), scheme.Scheme, about)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Reason == reason && strings.HasPrefix(e.Message, message) })
	})
}
