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
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// The rights that podmanager needs, in the order in which the test grants them.
var (
	watchRules = []rbacv1.PolicyRule{
		{APIGroups: []string{"example.thole.dev"}, Resources: []string{"podmanagers"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
	}
	writeRules = []rbacv1.PolicyRule{
		{APIGroups: []string{"example.thole.dev"}, Resources: []string{"podmanagers"}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{"example.thole.dev"}, Resources: []string{"podmanagers/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "patch", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
	createRules = []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}},
	}
)

// The host runs as a service account without rights, which are granted step by
// step, as the messages of the host ask for them.
func TestMissingRightIsReportedWithTheRuleToAdd(t *testing.T) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	kubeconfig := tholetest.Kubeconfig(t, tholetest.Server(cluster.Config, ""), serviceAccount(t, ns, "host"))
	p := start(t, d, ns, "", withKubeconfig(kubeconfig))

	await.Until(t, "the plugin waits for the rights to watch both kinds", func() bool {
		s := p.Plugin("podmanager")
		return s.State == "waiting" && strings.Contains(s.LastError, "Pod: ") && strings.Contains(s.LastError, "PodManager: ")
	})
	reason := p.Plugin("podmanager").LastError
	for _, resource := range []string{
		`{apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch']}`,
		`{apiGroups: ['example.thole.dev'], resources: ['podmanagers'], verbs: ['list', 'watch']}`,
	} {
		if !strings.Contains(reason, missingRule(ns, resource)) {
			t.Errorf("lastError is %s\nwant %s", reason, missingRule(ns, resource))
		}
	}
	t.Log(reason)
	p.expectHealth(t, http.StatusOK) // a plugin that waits for others does not make the host unready

	grant(t, ns, "host", "watch", watchRules)
	p.awaitRunning("podmanager", 1)
	grant(t, ns, "host", "write", writeRules)
	createPodManager(t, ns, "pm", "a:1")
	var message string
	await.Until(t, "the object's condition reports the missing right", func() bool {
		c := condition(get(t, podManagers, ns, "pm"), "Ready")
		message, _ = c["message"].(string)
		return c["status"] == "False" && c["reason"] == "Forbidden" && strings.Contains(message, "create")
	})
	want := "apply v1 Pod " + ns + "/pm: " + missingRule(ns, `{apiGroups: [''], resources: ['pods'], verbs: ['create']}`)
	if !strings.HasPrefix(message, want) {
		t.Errorf("the condition's message is %s\nwant %s", message, want)
	}
	p.awaitFailedRuns(t, "podmanager/podmanager", "denied")
	t.Log(message)

	grant(t, ns, "host", "create", createRules)
	await.Until(t, "the object is Ready", func() bool { return served(t, ns, "pm", "a:1") })
	expectNoRepetition(t, p.Log.Events("PluginWaiting"), "plugin", "reason")
	if started := p.Log.Events("PluginStarted"); len(started) != 1 {
		t.Errorf("one start is logged as %v", started)
	}
	p.stop()
}

// missingRule returns the message about a rule that a Role of the namespace lacks.
func missingRule(ns, rule string) string {
	return fmt.Sprintf(`"system:serviceaccount:%s:host" lacks a right: add to a Role in namespace %q the rule %s`, ns, ns, rule)
}

// serviceAccount creates a service account without rights and returns its
// credentials.
func serviceAccount(t *testing.T, ns, name string) clientcmdapi.AuthInfo {
	t.Helper()
	accounts := clients.CoreV1().ServiceAccounts(ns)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := accounts.Create(t.Context(), account, metav1.CreateOptions{})
	must(t, err)
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	return clientcmdapi.AuthInfo{Token: token.Status.Token}
}

// grant grants rules to a service account by a Role.
func grant(t *testing.T, ns, account, role string, rules []rbacv1.PolicyRule) {
	t.Helper()
	named := metav1.ObjectMeta{Name: role}
	_, err := clients.RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{ObjectMeta: named, Rules: rules}, metav1.CreateOptions{})
	must(t, err)
	_, err = clients.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: named,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account}},
	}, metav1.CreateOptions{})
	must(t, err)
}
