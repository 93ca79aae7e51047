package access

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

func TestMain(m *testing.M) { devcluster.Main(m) }

// cluster is a real API server with RBAC.
type cluster struct {
	*testing.T
	*kubernetes.Clientset
	config *rest.Config
}

// reviews returns clients that ask the API server as the user of a configuration.
func reviews(t *testing.T, config *rest.Config) kube.AccessReviews {
	t.Helper()
	clients, err := kube.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return clients.AccessReviews
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	config := rest.CopyConfig(devcluster.Shared(t).Config)
	config.QPS = -1
	return &cluster{t, kubernetes.NewForConfigOrDie(config), config}
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) namespace() string {
	c.Helper()
	ns, err := c.CoreV1().Namespaces().Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "access-"}}, metav1.CreateOptions{})
	c.must(err)
	return ns.Name
}

// bind gives a subject a rule, in a namespace or, if that is "", in all. It returns what takes
// it away.
func (c *cluster) bind(namespace string, to rbacv1.Subject, rule rbacv1.PolicyRule) (revoke func()) {
	c.Helper()
	role, err := c.RbacV1().ClusterRoles().Create(c.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "access-"}, Rules: []rbacv1.PolicyRule{rule},
	}, metav1.CreateOptions{})
	c.must(err)
	meta := metav1.ObjectMeta{GenerateName: "access-"}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	if namespace == "" {
		b, err := c.RbacV1().ClusterRoleBindings().Create(c.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{to}}, metav1.CreateOptions{})
		c.must(err)
		return func() {
			c.must(c.RbacV1().ClusterRoleBindings().Delete(c.Context(), b.Name, metav1.DeleteOptions{}))
		}
	}
	b, err := c.RbacV1().RoleBindings(namespace).Create(c.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{to}}, metav1.CreateOptions{})
	c.must(err)
	return func() {
		c.must(c.RbacV1().RoleBindings(namespace).Delete(c.Context(), b.Name, metav1.DeleteOptions{}))
	}
}

func rule(verb, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names}
}

func serviceAccount(a rights.Account) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace, Name: a.Name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
}

// eventually waits until the authorizer of the API server has what was written.
func (c *cluster) eventually(account rights.Account, action Action, want bool) {
	c.Helper()
	await.Until(c.T, fmt.Sprintf("%s %+v: %v", account, action, want), func() bool {
		allowed, err := New(Config{Reviews: reviews(c.T, c.config)}).May(c.Context(), account, action)
		return err == nil && allowed == want
	})
}

func TestRightsOfRBAC(t *testing.T) {
	c := newCluster(t)
	a, b := c.namespace(), c.namespace()
	all, inA, byName, byGroup := rights.Account{Namespace: a, Name: "all"}, rights.Account{Namespace: a, Name: "in-a"},
		rights.Account{Namespace: a, Name: "by-name"}, rights.Account{Namespace: b, Name: "by-group"}
	c.bind("", serviceAccount(all), rule("get", "pods"))
	c.bind(a, serviceAccount(inA), rule("get", "pods"))
	c.bind(a, serviceAccount(byName), rule("get", "pods", "p"))
	c.bind(a, group("system:serviceaccounts:"+b), rule("get", "pods"))
	c.bind(b, group("system:serviceaccounts"), rule("list", "pods"))
	c.bind(b, group("system:authenticated"), rule("watch", "pods"))
	c.eventually(byGroup, Action{Verb: "watch", Resource: "pods", Namespace: b}, true) // the last of them
	c.eventually(byGroup, Action{Verb: "get", Resource: "pods", Namespace: a}, true)

	r := New(Config{Reviews: reviews(t, c.config)})
	for name, test := range map[string]struct {
		account rights.Account
		verb    string
		key     object.Key
		want    bool
	}{
		"cluster-wide":                         {all, "get", object.Key{Namespace: b, Name: "x"}, true},
		"cluster-wide, all":                    {all, "get", object.Key{}, true},
		"cluster-wide, another verb":           {all, "delete", object.Key{Namespace: a, Name: "p"}, false},
		"in the namespace":                     {inA, "get", object.Key{Namespace: a, Name: "x"}, true},
		"in the namespace, all of it":          {inA, "get", object.Key{Namespace: a}, true},
		"in the namespace, all of all":         {inA, "get", object.Key{}, false},
		"in the namespace, another one":        {inA, "get", object.Key{Namespace: b, Name: "x"}, false},
		"by name":                              {byName, "get", object.Key{Namespace: a, Name: "p"}, true},
		"by name, another one":                 {byName, "get", object.Key{Namespace: a, Name: "q"}, false},
		"by name, all":                         {byName, "get", object.Key{Namespace: a}, false},
		"by name, in another namespace":        {byName, "get", object.Key{Namespace: b, Name: "p"}, false},
		"by the group of its namespace":        {byGroup, "get", object.Key{Namespace: a, Name: "x"}, true},
		"by the group of its namespace, other": {byName, "get", object.Key{Namespace: a, Name: "y"}, false},
		"by the group of all accounts":         {byName, "list", object.Key{Namespace: b}, true},
		"by the group of all users":            {inA, "watch", object.Key{Namespace: b}, true},
		"by no group":                          {inA, "list", object.Key{Namespace: a}, false},
		"an account that does not exist":       {rights.Account{Namespace: a, Name: "nobody"}, "get", object.Key{Namespace: a, Name: "p"}, false},
		"none":                                 {rights.Account{}, "get", object.Key{Namespace: a, Name: "p"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := r.MayUse(t.Context(), test.account, test.verb, pods, test.key)
			if (err == nil) != test.want || err != nil && !Denied(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRightThatIsRevokedWhileRunning(t *testing.T) {
	c := newCluster(t)
	account := rights.Account{Namespace: c.namespace(), Name: "revoked"}
	get := Action{Verb: "get", Resource: "secrets", Namespace: account.Namespace}
	revoke := c.bind(account.Namespace, serviceAccount(account), rule("get", "secrets"))
	c.eventually(account, get, true)

	s := newServer(t) // for its clock
	r := New(Config{Reviews: reviews(t, c.config), Clock: s.clock})
	wants := func(want bool) {
		t.Helper()
		if allowed, err := r.May(t.Context(), account, get); allowed != want || err != nil {
			t.Errorf("got %v, %v", allowed, err)
		}
	}
	wants(true)
	revoke()
	c.eventually(account, get, false)
	s.passes(time.Minute - 1)
	wants(true)
	s.passes(1)
	wants(false)
	c.bind(account.Namespace, serviceAccount(account), rule("get", "secrets"))
	c.eventually(account, get, true)
	wants(false)
	s.passes(10 * time.Second)
	wants(true)
}

func TestRightsOfTheHostItself(t *testing.T) {
	c := newCluster(t)
	account := rights.Account{Namespace: c.namespace(), Name: "host"}
	c.bind("", serviceAccount(account), rule("get", "nodes"))
	get := Action{Verb: "get", Resource: "nodes"}
	c.eventually(account, get, true)
	config := rest.CopyConfig(c.config)
	config.Impersonate.UserName = account.User()
	r := New(Config{Reviews: reviews(t, config)})
	for action, want := range map[Action]bool{get: true, {Verb: "list", Resource: "nodes"}: false, {Verb: "get", Resource: "nodes", Name: "n"}: true} {
		if allowed, err := r.HostMay(t.Context(), action); allowed != want || err != nil {
			t.Errorf("%+v: %v, %v", action, allowed, err)
		}
	}
	// This host may not ask about others, and says which right it lacks.
	want := regexp.MustCompile(`^ask the API server what .*/host may do: ".*:host" lacks a right: add to a ClusterRole the rule ` +
		`{apiGroups: \['authorization.k8s.io'\], resources: \['subjectaccessreviews'\], verbs: \['create'\]}`)
	if allowed, err := r.May(t.Context(), account, get); allowed || err == nil || Denied(err) || !want.MatchString(err.Error()) {
		t.Errorf("got %v, %v", allowed, err)
	}
}
