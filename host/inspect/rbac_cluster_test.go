package inspect

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/rights"
)

// apiServer is a real API server with RBAC.
type apiServer struct {
	config  *rest.Config
	admin   *kubernetes.Clientset
	objects dynamic.Interface
}

var (
	robot     = rights.Account{Namespace: "team", Name: "robot"}
	hostRobot = rights.Account{Namespace: "thole-system", Name: "thole"}
)

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	config := rest.CopyConfig(devcluster.Shared(t).Config)
	config.QPS, config.Burst = 500, 1000
	s := &apiServer{config, kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)}
	for _, name := range []string{robot.Namespace, hostRobot.Namespace, "a", "b"} {
		_, err := s.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		ok(t, err)
	}
	_, err := s.admin.CoreV1().ServiceAccounts(hostRobot.Namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: hostRobot.Name}}, metav1.CreateOptions{})
	ok(t, err)
	return s
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// documents returns the objects of a text in YAML.
func documents(t *testing.T, text []byte) (all []*unstructured.Unstructured) {
	t.Helper()
	for d := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		document := make([]byte, 1<<20)
		n, err := d.Read(document)
		if err == io.EOF {
			return all
		}
		ok(t, err)
		o := &unstructured.Unstructured{}
		ok(t, yaml.UnmarshalStrict(document[:n], &o.Object))
		all = append(all, o)
	}
}

// of returns how to reach objects like o.
func (s *apiServer) of(o *unstructured.Unstructured) dynamic.ResourceInterface {
	gvk := o.GroupVersionKind()
	all := s.objects.Resource(gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"))
	if o.GetNamespace() == "" {
		return all
	}
	return all.Namespace(o.GetNamespace())
}

func (s *apiServer) apply(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	_, err := s.of(o).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
	ok(t, err)
}

// may asks whether an account may use a verb of a rule.
func (s *apiServer) may(t *testing.T, a rights.Account, r rights.Rule, verb string) bool {
	t.Helper()
	review, err := s.admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: a.User(), Groups: a.Groups(), ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
		},
	}}, metav1.CreateOptions{})
	ok(t, err)
	return review.Status.Allowed
}

func (s *apiServer) expect(t *testing.T, a rights.Account, rules []rights.Rule, want bool) {
	t.Helper()
	for _, r := range rules {
		for _, verb := range r.Verbs {
			await.Until(t, fmt.Sprintf("%s may %s %s of %q in %q: %t", a, verb, r.Path(), r.Group, r.Namespace, want), func() bool {
				return s.may(t, a, r, verb) == want
			})
		}
	}
}

// furtherRules are those of a capability.
var furtherRules = []rights.Rule{
	{Namespace: hostRobot.Namespace, Resource: "secrets", Verbs: []string{rights.Create}},
	{Namespace: hostRobot.Namespace, Resource: "secrets", Name: "parcel-p", Verbs: []string{rights.Get, "update"}},
}

// tested is a plugin that owns, reads, watches and writes, everywhere and in namespaces.
func tested(t *testing.T, cluster *rest.Config) (*Report, RBACOptions) {
	t.Helper()
	secret, service, node := abi.Kind{APIVersion: "v1", Kind: "Secret"}, abi.Kind{APIVersion: "v1", Kind: "Service"}, abi.Kind{APIVersion: "v1", Kind: "Node"}
	m := &abi.Manifest{Name: "p", Managed: true, Controllers: []abi.Controller{{
		Name: "c", For: deployment.All(), Finalizer: true, Conditions: abi.Conditions{Target: "Ready"},
		Owns: abi.AllOf(configMap), Reads: abi.AllOf(service, node), Watches: []abi.Watch{{Followed: secret.All(), By: abi.WatchByOwner}}, Writes: []abi.Kind{pod},
	}}}
	policy := `
apiVersion: thole.dev/v1alpha1
serviceAccount: team/robot
allow:
- {groups: [apps], kinds: [Deployment, Deployment/status], verbs: [get, list, watch, patch]}
- {groups: [''], kinds: [Secret], verbs: [get, list, watch], namespaces: [a, b]}
- {groups: [''], kinds: [Node], verbs: [get, list, watch]}
- {groups: [''], kinds: [Pod], verbs: [create, patch], namespaces: [b]}
`
	r := &Report{Name: "p", Load: Load{OK: true}}
	o := RBACOptions{Rules: furtherRules, Host: config.Config{}.WithDefaults().Unbounded("p", []byte(policy)), HostAccount: hostRobot}
	ok(t, r.addManifest(t.Context(), m, config.Policy{Limits: o.Host.Limits}, Options{Cluster: cluster}))
	var err error
	o.Policy, err = o.Host.ReadPolicy("p", []byte(policy))
	ok(t, err)
	o.Account = o.Policy.Account()
	return r, o
}

// TestPrintedRolesAreEnoughAndEachIsNeeded: on a real API server the accounts have each right of
// their rules once what is printed is applied, and lose those of a role with it.
func TestPrintedRolesAreEnoughAndEachIsNeeded(t *testing.T) {
	s := startAPIServer(t)
	r, o := tested(t, s.config)
	if constrained, err := HasConstrainedImpersonation(s.config); err != nil || !constrained {
		t.Fatalf("constrained impersonation: %t, %v", constrained, err)
	}
	for _, o.Constrained = range []bool{false, true} {
		text, err := r.RBAC(o)
		ok(t, err)
		printed := documents(t, text)
		for _, one := range printed {
			s.apply(t, one)
		}
		rules := map[string][]rights.Rule{
			"thole:": o.Policy.Allow.AccountRules(r.manifest, nil, resourcesOf(r.resources)),
			"thole-host:": append(o.Policy.Allow.HostRules(r.manifest, o.Account, rights.Acting{Constrained: o.Constrained}, nil, resourcesOf(r.resources)),
				furtherRules...),
		}
		accounts := map[string]rights.Account{"thole:": o.Account, "thole-host:": hostRobot}
		for of, account := range accounts {
			s.expect(t, account, rules[of], true)
		}
		s.expectRequests(t, o)
		for _, role := range printed {
			if !strings.HasSuffix(role.GetKind(), "Role") {
				continue
			}
			of, _, _ := strings.Cut(role.GetName(), "p:")
			those := slices.DeleteFunc(slices.Clone(rules[of]), func(rule rights.Rule) bool { return rule.Namespace != role.GetNamespace() })
			if len(those) == 0 {
				t.Errorf("%s %s of %q has no rules", role.GetKind(), role.GetName(), role.GetNamespace())
			}
			ok(t, s.of(role).Delete(t.Context(), role.GetName(), metav1.DeleteOptions{}))
			s.expect(t, accounts[of], those, false)
			s.apply(t, role)
			s.expect(t, accounts[of], those, true)
		}
		for _, one := range printed {
			ok(t, s.of(one).Delete(t.Context(), one.GetName(), metav1.DeleteOptions{}))
		}
	}
}

// expectRequests sends requests as the account with the credentials of the host.
func (s *apiServer) expectRequests(t *testing.T, o RBACOptions) {
	t.Helper()
	token, err := s.admin.CoreV1().ServiceAccounts(hostRobot.Namespace).CreateToken(t.Context(), hostRobot.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	ok(t, err)
	as := func(a rights.Account) dynamic.Interface {
		c := rest.AnonymousClientConfig(s.config)
		c.BearerToken, c.QPS, c.Burst, c.Impersonate.UserName = token.Status.Token, 500, 1000, a.User()
		return dynamic.NewForConfigOrDie(c)
	}
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	child := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "child"}}}
	plugin := as(o.Account)
	sent := []struct {
		what string
		send func() error
	}{
		{"apply what is not there", func() error {
			_, err := plugin.Resource(configMaps).Namespace("b").Apply(t.Context(), "child", child, metav1.ApplyOptions{FieldManager: "p"})
			return err
		}},
		{"create", func() error {
			_, err := plugin.Resource(configMaps).Namespace("b").Create(t.Context(), child, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		}},
		{"get", func() error {
			_, err := plugin.Resource(configMaps).Namespace("b").Get(t.Context(), "child", metav1.GetOptions{})
			return err
		}},
		{"list", func() error {
			_, err := plugin.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
			return err
		}},
		{"delete", func() error {
			return plugin.Resource(configMaps).Namespace("b").Delete(t.Context(), "child", metav1.DeleteOptions{})
		}},
		{"patch of a status", func() error {
			_, err := plugin.Resource(deployments).Namespace("a").Patch(t.Context(), "x", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
			return ignoreNotFound(err)
		}},
	}
	for _, one := range sent {
		if err := await.Success(one.send); err != nil {
			t.Errorf("constrained %t: %s: %v", o.Constrained, one.what, err)
		}
	}
	// The account may list Services by RBAC, and the host does not send it: it has them in its cache.
	_, err = plugin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).List(t.Context(), metav1.ListOptions{})
	if apierrors.IsForbidden(err) != o.Constrained {
		t.Errorf("constrained %t: list: %v", o.Constrained, err)
	}
	_, err = as(rights.Account{Namespace: "team", Name: "other"}).Resource(configMaps).Namespace("b").Get(t.Context(), "child", metav1.GetOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("constrained %t: as another account: %v", o.Constrained, err)
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
