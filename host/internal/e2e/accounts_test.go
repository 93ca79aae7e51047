package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// The host has every right. A plugin acts as three service accounts in turn: the first may
// not read Pods, the second may not create them, the third may do both. It reads and writes
// what its account may, and no more.
func TestAPluginDoesWhatItsServiceAccountMayDo(t *testing.T) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	for account, podVerbs := range map[string][]string{
		"writes": {"create", "patch", "delete"},
		"reads":  {"get", "list", "watch", "patch", "delete"},
		"both":   {"get", "list", "watch", "create", "patch", "delete"},
	} {
		serviceAccount(t, ns, account)
		grant(t, ns, account, account, []rbacv1.PolicyRule{
			{APIGroups: []string{"example.thole.dev"}, Resources: []string{"podmanagers"}, Verbs: []string{"get", "list", "watch", "patch"}},
			{APIGroups: []string{"example.thole.dev"}, Resources: []string{"podmanagers/status"}, Verbs: []string{"patch"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: podVerbs},
		})
	}
	d.installPolicy("podmanager", "serviceAccount: "+ns+"/writes")
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	createPodManager(t, ns, "pm", "a:1")
	p := start(t, d, ns, fmt.Sprintf("allow: {serviceAccounts: {podmanager: [%s/*]}}", ns))
	refused := func(account, reason string, parts ...string) {
		t.Run(account, func(t *testing.T) {
			await.Until(t, "the object tells what the account may not do", func() bool {
				c := condition(get(t, podManagers, ns, "pm"), "Ready")
				message, _ := c["message"].(string)
				return c["status"] == "False" && c["reason"] == reason &&
					!slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(message, part) })
			})
			if pod := get(t, pods, ns, "pm"); pod != nil {
				t.Errorf("there is the Pod %v", pod)
			}
		})
	}
	refused("writes", "Denied", "get v1 Pod "+ns+"/pm: denied")
	d.installPolicy("podmanager", "serviceAccount: "+ns+"/reads")
	refused("reads", "Forbidden", fmt.Sprintf(`"system:serviceaccount:%s:reads" lacks a right`, ns), "verbs: ['create']")
	d.installPolicy("podmanager", "serviceAccount: "+ns+"/both")
	await.Until(t, "the object is Ready", func() bool { return served(t, ns, "pm", "a:1") })
	p.stop()
}

// A plugin without an account acts as the host only where the host is told that it may.
func TestWithoutAnAccountNoPluginRuns(t *testing.T) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	createPodManager(t, ns, "pm", "a:1")
	p := start(t, d, ns, "", func(h *tholetest.Host) { h.Args = append(h.Args, "--host-identity=false") })
	await.Until(t, "the plugin waits for an account", func() bool {
		s := p.Plugin("podmanager")
		return s.State == "waiting" && strings.Contains(s.LastError, "--host-identity")
	})
	if pod := get(t, pods, ns, "pm"); pod != nil {
		t.Errorf("there is the Pod %v", pod)
	}
}
