package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// What podmanager needs, apart from what the test holds back.
var (
	follows = []rbacv1.PolicyRule{
		{APIGroups: []string{"example.thole.dev"}, Resources: []string{"podmanagers"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
	}
	changes = []rbacv1.PolicyRule{
		{APIGroups: []string{"example.thole.dev"}, Resources: []string{"podmanagers"}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{"example.thole.dev"}, Resources: []string{"podmanagers/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "patch", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
	creates = []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}},
	}
)

// TestMissingRightsAreToldWithTheRuleToAdd runs the host as a service account
// that is granted what it needs one step after the other, by what it says.
func TestMissingRightsAreToldWithTheRuleToAdd(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p := tholeOn(t, tholetest.Kubeconfig(t, tholetest.Server(cluster.Config, ""), serviceAccount(t, ns)), d, ns, "")

	await.Until(t, "the plugin waits for the rights to follow both kinds", func() bool {
		s := p.Plugin("podmanager")
		return s.State == "waiting" && strings.Contains(s.LastError, "Pod: ") && strings.Contains(s.LastError, "PodManager: ")
	})
	told := p.Plugin("podmanager").LastError
	for _, resource := range []string{`[""], resources: ["pods"]`, `["example.thole.dev"], resources: ["podmanagers"]`} {
		rule := fmt.Sprintf(`"system:serviceaccount:%s:host" lacks a right: add to a Role in namespace %q the rule {apiGroups: %s, verbs: ["list", "watch"]}`, ns, ns, resource)
		if !strings.Contains(told, rule) {
			t.Errorf("/plugins says %s\nand not %s", told, rule)
		}
	}
	t.Log(told)
	p.alive(t, http.StatusOK) // it has settled: nothing that the host could do is left

	grant(t, ns, "follow", follows)
	p.ready("podmanager", 1)
	grant(t, ns, "change", changes)
	primary(t, podManagers, "PodManager", ns, "pm", map[string]any{"image": "a:1"})
	var message string
	await.Until(t, "the object says that a right is missing", func() bool {
		c := condition(get(t, podManagers, ns, "pm"), "Ready")
		message, _ = c["message"].(string)
		return c["status"] == "False" && c["reason"] == "Forbidden" && strings.Contains(message, "create")
	})
	rule := fmt.Sprintf(`apply v1 Pod %s/pm: "system:serviceaccount:%s:host" lacks a right: add to a Role in namespace %q the rule {apiGroups: [""], resources: ["pods"], verbs: ["create"]}`, ns, ns, ns)
	if !strings.HasPrefix(message, rule) {
		t.Errorf("the object says %s\nand not %s", message, rule)
	}
	p.expectFailed(t, "podmanager/podmanager", "denied")
	t.Log(message)

	grant(t, ns, "create", creates)
	await.Until(t, "the object is Ready", func() bool {
		return image(get(t, pods, ns, "pm")) == "a:1" && ready(get(t, podManagers, ns, "pm"))
	})
	expectChangesOnly(t, p.Log.Since(0), "plugin waits", "plugin", "reason", "plugin runs")
	if n := len(p.Log.With("plugin runs")); n != 1 {
		t.Errorf("that it runs is told %d times", n)
	}
	p.stop()
}

// serviceAccount makes one without rights and returns it as a user.
func serviceAccount(t *testing.T, ns string) clientcmdapi.AuthInfo {
	t.Helper()
	accounts := clients.CoreV1().ServiceAccounts(ns)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "host"}}, metav1.CreateOptions{})
	done(t, err)
	token, err := accounts.CreateToken(t.Context(), "host", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	done(t, err)
	return clientcmdapi.AuthInfo{Token: token.Status.Token}
}

// grant gives rules to the service account, by a Role of a name.
func grant(t *testing.T, ns, name string, rules []rbacv1.PolicyRule) {
	t.Helper()
	named := metav1.ObjectMeta{Name: name}
	_, err := clients.RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{ObjectMeta: named, Rules: rules}, metav1.CreateOptions{})
	done(t, err)
	_, err = clients.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: named,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "host"}},
	}, metav1.CreateOptions{})
	done(t, err)
}
