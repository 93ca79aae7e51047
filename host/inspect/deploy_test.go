package inspect

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// TestRightsAreThoseOfTheDeployment compares what is told of the example
// plugin with the roles in deploy, each verb of which is proved to be needed
// and enough by the tests of host/internal/deploytest.
func TestRightsAreThoseOfTheDeployment(t *testing.T) {
	deployed := deployedRules(t, "thole-podmanager", "thole-host")
	told := map[string]bool{}
	r := look(t, file(t, "podmanager.wasm", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager")))
	for _, rule := range r.Rights[0].Rules {
		if rule.OnlyIf == "" {
			addRule(told, rbacv1.PolicyRule{APIGroups: rule.APIGroups, Resources: rule.Resources, Verbs: rule.Verbs})
		}
	}
	for right := range deployed {
		if !told[right] {
			t.Errorf("not told: %s", right)
		}
	}
	for right := range told {
		if !deployed[right] {
			t.Errorf("told but not deployed: %s", right)
		}
	}
}

func addRule(rights map[string]bool, rule rbacv1.PolicyRule) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				rights[verb+" "+resource+"."+group] = true
			}
		}
	}
}

// deployedRules are the rights that the named ClusterRoles below deploy give.
func deployedRules(t *testing.T, names ...string) map[string]bool {
	t.Helper()
	rights, found := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("../../deploy", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "kind: ClusterRole\n") {
			return err
		}
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var role rbacv1.ClusterRole
			if err := yaml.Unmarshal(document, &role); err != nil {
				return err
			}
			if role.Kind == "ClusterRole" && slices.Contains(names, role.Name) {
				found[role.Name] = true
				for _, rule := range role.Rules {
					addRule(rights, rule)
				}
			}
		}
		return nil
	})
	if err != nil || len(found) != len(names) {
		t.Fatalf("found %v, want %q: %v", found, names, err)
	}
	return rights
}
