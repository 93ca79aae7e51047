package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// userHost is the user that hosts of tests act as that have the rights of the manifests alone.
var userHost = rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "host"}

// grant makes a ClusterRole, and binds it to a subject.
func grant(tb testing.TB, client kubernetes.Interface, name string, to rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	tb.Helper()
	meta := metav1.ObjectMeta{Name: name}
	_, err := client.RbacV1().ClusterRoles().Create(tb.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(tb.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{to},
	}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatal(err)
	}
}

// deployedRules returns the rules of the roles in a file of deploy/kustomize, of all or of those named.
func deployedRules(tb testing.TB, file string, names ...string) (rules []rbacv1.PolicyRule) {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("..", "deploy", "kustomize", file))
	if err != nil {
		tb.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole // or a Role, which has no more
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			tb.Fatal(err)
		}
		if names == nil || slices.Contains(names, role.Name) {
			rules = append(rules, role.Rules...)
		}
	}
	if rules == nil {
		tb.Fatalf("%s has no rules of %q", file, names)
	}
	return rules
}
