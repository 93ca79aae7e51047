package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/inspect"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/with/standard"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// tenants are three plugins that act as three accounts, in a host that acts as a fourth. They
// have the rules that thole rbac prints, and no others.
type tenants struct {
	*testing.T
	*runningHost
	admin   *rest.Config
	clients *kubernetes.Clientset
	objects dynamic.Interface
	names   []string                         // of the plugins, each with an account of its name
	roles   map[string][]*rbacv1.ClusterRole // by plugin; a Role has a namespace

	mu      sync.Mutex
	refused []string // requests that the API server has forbidden
}

var ofHost = rights.Account{Namespace: "thole-system", Name: "thole"}

// newTenants makes a cluster with the account of the host and the CRD of podmanager.
func newTenants(t *testing.T, names []string, namespaces ...string) *tenants {
	t.Helper()
	admin := controlPlane(t)
	s := &tenants{T: t, admin: admin, clients: kubernetes.NewForConfigOrDie(admin), objects: dynamic.NewForConfigOrDie(admin), names: names, roles: map[string][]*rbacv1.ClusterRole{}}
	for _, name := range append(namespaces, ofHost.Namespace) {
		s.apply(fmt.Appendf(nil, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}", name))
	}
	s.apply(fmt.Appendf(nil, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, namespace: %s}", ofHost.Name, ofHost.Namespace))
	s.applyFile("../plugins/podmanager/crd.yaml")
	return s
}

// startTenants starts a host whose plugins may have the namespaces, nil for all.
func startTenants(t *testing.T, namespaces map[string]config.Namespaces, names ...string) *tenants {
	t.Helper()
	s := newTenants(t, names, "tenants")
	s.runningHost = start(t, s.hostConfig(), func(c *config.Config) {
		c.HostIdentity = false
		c.Allow = config.Ceiling{
			Entries:         map[string]rights.Entries{config.EveryPlugin: rights.Everything()},
			ServiceAccounts: map[string][]string{config.EveryPlugin: {"tenants/*"}},
			Namespaces:      namespaces,
		}
	})
	for _, name := range names {
		s.installTenant(name)
	}
	for _, name := range names {
		s.expectState(name, func(status catalog.Status) bool { return status.State == catalog.Running })
	}
	return s
}

// hostConfig returns how the host reaches the API server, by a token of its account.
func (s *tenants) hostConfig() *rest.Config {
	s.Helper()
	token, err := s.clients.CoreV1().ServiceAccounts(ofHost.Namespace).CreateToken(s.Context(), ofHost.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	s.must(err)
	c := rest.AnonymousClientConfig(s.admin)
	c.BearerToken, c.QPS = token.Status.Token, 0
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return recordRefusals{next, s} })
	return c
}

// recordRefusals notes what is forbidden.
type recordRefusals struct {
	next http.RoundTripper
	s    *tenants
}

// RoundTrip implements [http.RoundTripper].
func (r recordRefusals) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusForbidden {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		r.s.refused = append(r.s.refused, fmt.Sprintf("%s %s as %s", request.Method, request.URL.Path, request.Header.Get("Impersonate-User")))
	}
	return response, err
}

// installTenant installs a plugin with its policy, and what thole rbac prints for both.
func (s *tenants) installTenant(name string) {
	s.Helper()
	policy, err := os.ReadFile(filepath.Join("..", "plugins", name, "policy.yaml"))
	if err != nil {
		policy = []byte("apiVersion: thole.dev/v1alpha1\n")
	}
	policy = append(policy, "serviceAccount: tenants/"+name+"\n"...)
	module := filepath.Join(s.TempDir(), name+".wasm")
	s.must(os.WriteFile(module, wasmbuild.Build(s.T, wasmbuild.TinyGo, "plugins/"+name), 0o644))
	host := s.host.config
	report, err := inspect.File(s.Context(), module, inspect.Options{Host: host, Cluster: s.admin})
	s.must(err)
	allowed, err := host.ReadPolicy(name, policy)
	s.must(err)
	constrained, err := inspect.HasConstrainedImpersonation(s.admin)
	s.must(err)
	text, err := report.RBAC(inspect.RBACOptions{Host: host, Policy: allowed, Account: allowed.Account(), HostAccount: ofHost, Constrained: constrained})
	s.must(err)
	for _, o := range s.apply(text) {
		if strings.HasSuffix(o.GetKind(), "Role") && o.GetNamespace() != ofHost.Namespace { // which is for the last good module
			role := &rbacv1.ClusterRole{}
			s.must(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role))
			s.roles[name] = append(s.roles[name], role)
		}
	}
	writeText(s.T, filepath.Join(s.dir, name+".yaml"), string(policy))
	s.install(name, wasmbuild.Build(s.T, wasmbuild.TinyGo, "plugins/"+name))
}

func (s *tenants) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *tenants) applyFile(path string) {
	s.Helper()
	text, err := os.ReadFile(path)
	s.must(err)
	s.apply(text)
}

// apply applies the documents of a text as the administrator.
func (s *tenants) apply(text []byte) (all []*unstructured.Unstructured) {
	s.Helper()
	for d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all
		} else if s.must(err); o.Object == nil {
			continue
		}
		gvk := o.GroupVersionKind()
		resource := s.objects.Resource(gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"))
		var client dynamic.ResourceInterface = resource
		if o.GetNamespace() != "" {
			client = resource.Namespace(o.GetNamespace())
		}
		_, err := client.Apply(s.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
		s.must(err)
		all = append(all, o)
	}
}

// setRules replaces the rules of a role.
func (s *tenants) setRules(role *rbacv1.ClusterRole, rules []rbacv1.PolicyRule) {
	s.Helper()
	var err error
	if role.Namespace == "" {
		_, err = s.clients.RbacV1().ClusterRoles().Update(s.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Rules: rules}, metav1.UpdateOptions{})
	} else {
		_, err = s.clients.RbacV1().Roles(role.Namespace).Update(s.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: role.Name, Namespace: role.Namespace}, Rules: rules}, metav1.UpdateOptions{})
	}
	s.must(err)
}

// missing returns what a plugin lacks.
func (s *tenants) missing(plugin string) []string {
	return s.host.runner.Statuses()[plugin].MissingRights
}

// TestEachRuleOfAnAccountIsNeeded: with the rules that thole rbac prints every plugin does its
// work and nothing is forbidden. Without one of them the plugin concerned says what is missing,
// and the others go on.
func TestEachRuleOfAnAccountIsNeeded(t *testing.T) {
	s := startTenants(t, nil, "configsync", "podmanager", "ttl")
	s.applyFile("../plugins/podmanager/sample.yaml")
	s.applyFile("../plugins/configsync/sample.yaml")
	s.applyFile("../plugins/ttl/sample.yaml")
	s.expectWork()
	s.expectEachRuleIsNeeded()
	s.expectWork()
}

// In a host that works in some namespaces alone, no rule for a plugin with an account of its own is in a
// ClusterRole.
func TestInNamespacesAccountsNeedNoClusterRole(t *testing.T) {
	s := startTenants(t, map[string]config.Namespaces{config.EveryPlugin: {"default", "tenants"}}, "podmanager")
	for _, role := range s.roles["podmanager"] {
		if role.Namespace == "" {
			t.Errorf("the ClusterRole %s has %v", role.Name, role.Rules)
		}
	}
	s.applyFile("../plugins/podmanager/sample.yaml")
	s.expectPod()
	s.expectEachRuleIsNeeded()
	s.expectPod()
}

// The Roles that the chart makes without any ClusterRole are enough for a plugin with an account of its own.
func TestTheChartInNamespacesRunsAPluginAsItsAccount(t *testing.T) {
	s := newTenants(t, []string{"podmanager"}, "team-a", "team-b")
	text, err := os.ReadFile(filepath.Join("..", "deploy", "chart", "testdata", "namespaced.golden.yaml"))
	s.must(err)
	var c config.Config
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var o struct {
			Kind string
			Data map[string]string
		}
		s.must(yaml.Unmarshal([]byte(document), &o))
		switch o.Kind {
		case "ConfigMap":
			file := filepath.Join(t.TempDir(), "config.yaml")
			writeText(t, file, o.Data["config.yaml"])
			c, err = config.Read(file, standard.Capabilities().Sections()...)
			s.must(err)
		case "ServiceAccount", "Role", "RoleBinding":
			s.apply([]byte(document))
		case "ClusterRole", "ClusterRoleBinding":
			t.Errorf("there is a %s", o.Kind)
		}
	}
	s.runningHost = startWith(t, s.hostConfig(), standard.Capabilities(), func(given *config.Config) {
		c.Plugins, c.Listen, c.CacheDir = given.Plugins, given.Listen, given.CacheDir
		*given = c
	})
	s.install("podmanager", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager"))
	sample, err := os.ReadFile("../plugins/podmanager/sample.yaml")
	s.must(err)
	for _, o := range s.apply(bytes.ReplaceAll(sample, []byte("namespace: default"), []byte("namespace: team-b"))) {
		await.Until(t, "its Pod is there", func() bool {
			_, err := s.clients.CoreV1().Pods("team-b").Get(t.Context(), o.GetName(), metav1.GetOptions{})
			return err == nil
		})
	}
	await.Until(t, "no right is missing", s.nothingMissing)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) > 0 {
		t.Errorf("forbidden: %q", s.refused)
	}
}

// expectEachRuleIsNeeded takes each rule away for a while.
func (s *tenants) expectEachRuleIsNeeded() {
	s.Helper()
	await.Until(s.T, "no right is missing", s.nothingMissing)
	s.mu.Lock()
	if len(s.refused) > 0 {
		s.Errorf("forbidden: %q", s.refused)
	}
	s.mu.Unlock()
	for _, name := range s.names {
		for _, role := range s.roles[name] {
			for i, rule := range role.Rules {
				s.Run(fmt.Sprintf("%s %s %d %v", role.Name, role.Namespace, i, rule.Resources), func(t *testing.T) { s.without(t, name, role, i) })
			}
		}
	}
}

// without takes a rule of a role away, and gives it back.
func (s *tenants) without(t *testing.T, plugin string, role *rbacv1.ClusterRole, i int) {
	rule := role.Rules[i]
	isPart := func(r rbacv1.PolicyRule) bool { return haveOne(rule, r) }
	others := s.sharing(plugin, role, isPart)
	for _, other := range append(others, role) {
		s.setRules(other, slices.DeleteFunc(slices.Clone(other.Rules), isPart))
	}
	await.Until(t, plugin+" lacks the rule", func() bool {
		text := strings.Join(s.missing(plugin), "\n")
		for _, resource := range rule.Resources {
			if !strings.Contains(text, fmt.Sprintf("resources: ['%s'], verbs: ['%s'", resource, strings.Join(rule.Verbs, "', '"))) {
				return false
			}
		}
		return true
	})
	for _, other := range s.names {
		if other != plugin && len(others) == 0 && len(s.missing(other)) > 0 {
			t.Errorf("%s lacks %q", other, s.missing(other))
		}
	}
	for _, other := range append(others, role) {
		s.setRules(other, other.Rules)
	}
	await.Until(t, "all have their rules again", s.nothingMissing)
}

// nothingMissing reports whether no plugin lacks a right.
func (s *tenants) nothingMissing() bool {
	return !slices.ContainsFunc(s.names, func(name string) bool { return len(s.missing(name)) > 0 })
}

// sharing returns the roles by which the host has the same right for other plugins.
func (s *tenants) sharing(plugin string, role *rbacv1.ClusterRole, isPart func(rbacv1.PolicyRule) bool) (all []*rbacv1.ClusterRole) {
	if !strings.HasPrefix(role.Name, "thole-host:") {
		return nil
	}
	for _, other := range s.names {
		for _, theirs := range s.roles[other] {
			if other != plugin && strings.HasPrefix(theirs.Name, "thole-host:") && theirs.Namespace == role.Namespace && slices.ContainsFunc(theirs.Rules, isPart) {
				all = append(all, theirs)
			}
		}
	}
	return all
}

// haveOne reports whether two rules have a right in common.
func haveOne(a, b rbacv1.PolicyRule) bool {
	shared := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
	}
	return shared(a.APIGroups, b.APIGroups) && shared(a.Resources, b.Resources) && shared(a.Verbs, b.Verbs) && slices.Equal(a.ResourceNames, b.ResourceNames)
}

// expectPod deletes the Pod of podmanager, if it is there, and waits for another one.
func (s *tenants) expectPod() {
	s.Helper()
	s.must(s.clients.CoreV1().Pods("default").DeleteCollection(s.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	await.Until(s.T, "the Pod of podmanager is there", func() bool {
		_, err := s.clients.CoreV1().Pods("default").Get(s.Context(), "sample", metav1.GetOptions{})
		return err == nil
	})
}

// expectWork waits until every plugin has done its work for new objects.
func (s *tenants) expectWork() {
	s.Helper()
	s.expectPod()
	source, err := s.clients.CoreV1().ConfigMaps("shared-config").Get(s.Context(), "proxy", metav1.GetOptions{})
	s.must(err)
	version := source.ResourceVersion
	source.Data = map[string]string{"version": version}
	_, err = s.clients.CoreV1().ConfigMaps("shared-config").Update(s.Context(), source, metav1.UpdateOptions{})
	s.must(err)
	_, err = s.clients.CoreV1().ConfigMaps("default").Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "expired-" + version, Annotations: map[string]string{"ttl.thole.dev/expires-at": "2020-01-31T18:00:00Z"},
	}}, metav1.CreateOptions{})
	s.must(err)
	await.Until(s.T, "configsync has copied the ConfigMap", func() bool {
		copied, err := s.clients.CoreV1().ConfigMaps("team-a").Get(s.Context(), "proxy", metav1.GetOptions{})
		return err == nil && copied.Data["version"] == version
	})
	await.Until(s.T, "ttl has deleted what has expired", func() bool {
		_, err := s.clients.CoreV1().ConfigMaps("default").Get(s.Context(), "expired-"+version, metav1.GetOptions{})
		return err != nil
	})
}
