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

	"github.com/thole-dev/thole/internal/wasmbuild"
)

// TestRightsAreThoseOfTheDeployment compares the rights of the example plugin
// with the roles in deploy. The tests of host/internal/deploytest prove that
// each of their verbs is needed, and that they suffice.
func TestRightsAreThoseOfTheDeployment(t *testing.T) {
	deployed := deployedRules(t, "thole-podmanager", "thole-host")
	reported := map[string]bool{}
	r := inspect(t, file(t, "podmanager.wasm", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager")))
	for _, rule := range r.Rights[0].Rules {
		if rule.OnlyIf == "" {
			addRule(reported, rbacv1.PolicyRule{APIGroups: rule.APIGroups, Resources: rule.Resources, Verbs: rule.Verbs})
		}
	}
	for right := range deployed {
		if !reported[right] {
			t.Errorf("deployed but not reported: %s", right)
		}
	}
	for right := range reported {
		if !deployed[right] {
			t.Errorf("reported but not deployed: %s", right)
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

// deployedRules returns the rights of the named ClusterRoles below deploy.
func deployedRules(t *testing.T, names ...string) map[string]bool {
	t.Helper()
	rights, found := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("../../deploy/kustomize", func(path string, _ fs.DirEntry, err error) error {
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
