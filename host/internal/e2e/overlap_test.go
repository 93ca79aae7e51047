package e2e

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// Two plugins write the same condition, and two replicas run them. The first one by name acts as an
// account without a right to the kind: it stops the other one on neither replica, also after a
// fail-over and a restart, until its account has the right.
func TestAPluginWhoseAccountLacksTheRightStopsNoOther(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	for _, account := range []string{"works", "poor"} {
		serviceAccount(t, ns, account)
	}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"e2e.thole.dev"}, Resources: []string{"stamps"}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{"e2e.thole.dev"}, Resources: []string{"stamps/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
	}
	grant(t, ns, "works", "works", rules)
	d.installPolicy("stamp", "serviceAccount: "+ns+"/works")
	d.install("stamp", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"stamp1"))
	createStamp(t, ns, "s", "one")
	replica := func() *process {
		return start(t, d, ns, "allow: {serviceAccounts: {stamp: ["+ns+"/*], patient: ["+ns+"/*]}}", func(h *tholetest.Host) {
			h.Args = append(append(h.Args, "--leader-elect", "--leader-elect-resource-namespace="+ns), soonExpires...)
		})
	}
	served := func(plugin string) {
		t.Helper()
		await.Until(t, "the object is served by "+plugin, func() bool {
			s := get(t, stamps, ns, "s")
			by, _, _ := unstructured.NestedString(s.Object, "status", "version")
			return condition(s, "Ready")["status"] == "True" && by != "" && (by == "1") == (plugin == "stamp")
		})
	}
	refused := func(p *process, plugin, text string) {
		t.Helper()
		await.Until(t, plugin+" is told why it does not run", func() bool {
			s := p.Plugin(plugin)
			return s.State == "failed" && strings.Contains(s.LastError, text)
		})
	}
	const lacks = `poor" lacks a right: add to a Role in namespace`
	both := []*process{replica(), replica()}
	served("stamp")

	d.installPolicy("patient", "serviceAccount: "+ns+"/poor")
	d.install("patient", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"patient"))
	for _, p := range both {
		refused(p, "patient", lacks)
		if state := p.Plugin("stamp").State; state != "running" && state != "standby" {
			t.Errorf("the plugin that works is %s", state)
		}
	}
	both[0].kill()
	both[0] = replica()
	refused(both[0], "patient", lacks)
	both[1].stop()
	both[1] = replica()
	refused(both[1], "patient", lacks)
	served("stamp")

	grant(t, ns, "poor", "poor", rules)
	served("patient")
	for _, p := range both {
		refused(p, "stamp", "both write the condition Ready")
	}
}
