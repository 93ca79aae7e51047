package host

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// keyrings are two plugins that read Secrets, keyring-a as the account ns/a and keyring-b as
// ns/b, in one host.
type keyrings struct {
	*testing.T
	*runningHost
	*kubernetes.Clientset
	objects dynamic.Interface
	changes int // of the Secret ns/s
	looks   int
}

// keyring returns the resource of the primaries of a plugin, a or b.
func keyring(plugin string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "test.thole.dev", Version: "v1", Resource: "keyring" + plugin + "s"}
}

func startKeyrings(t *testing.T) *keyrings {
	t.Helper()
	cluster := controlPlane(t)
	k := &keyrings{T: t, Clientset: kubernetes.NewForConfigOrDie(cluster), objects: dynamic.NewForConfigOrDie(cluster)}
	for _, namespace := range []string{"ns", "other"} {
		k.namespace(namespace)
	}
	definition, err := os.ReadFile(filepath.Join("testdata", "keyring", "crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	everything := map[string]rights.Entries{config.EveryPlugin: rights.Everything()}
	k.runningHost = start(t, cluster, func(c *config.Config) {
		c.HostIdentity = false
		c.Allow = config.Ceiling{Entries: everything, ServiceAccounts: map[string][]string{config.EveryPlugin: {"ns/*"}}}
	})
	wasm := wasmbuild.Build(t, wasmbuild.TinyGo, "host/testdata/keyring")
	for _, plugin := range []string{"a", "b"} {
		k.account(plugin)
		path := filepath.Join(t.TempDir(), "crd.yaml")
		writeText(t, path, strings.NewReplacer("PLUGIN", plugin, "UPPER", strings.ToUpper(plugin)).Replace(string(definition)))
		apply(t, k.objects.Resource(crds), path)
		writeText(t, filepath.Join(k.dir, "keyring-"+plugin+".yaml"), "apiVersion: thole.dev/v1alpha1\nserviceAccount: ns/"+plugin+
			"\nallow: [{groups: [''], kinds: [Secret], verbs: [get, list, watch], namespaces: ['*']}]\n")
		module := bytes.ReplaceAll(wasm, []byte("keyring-a"), []byte("keyring-"+plugin))
		k.install("keyring-"+plugin, bytes.ReplaceAll(module, []byte("KeyringA"), []byte("Keyring"+strings.ToUpper(plugin))))
	}
	for _, plugin := range []string{"keyring-a", "keyring-b"} {
		k.expectState(plugin, func(s catalog.Status) bool { return s.State == catalog.Running })
	}
	return k
}

func (k *keyrings) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

func (k *keyrings) namespace(name string) {
	k.Helper()
	_, err := k.CoreV1().Namespaces().Create(k.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) { // from another test
		k.must(err)
	}
}

// account creates a service account that may read and write the primaries of a plugin.
func (k *keyrings) account(plugin string) {
	k.Helper()
	_, err := k.CoreV1().ServiceAccounts("ns").Create(k.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: plugin}}, metav1.CreateOptions{})
	k.must(err)
	k.grant("primaries-"+plugin, plugin, "", rbacv1.PolicyRule{
		APIGroups: []string{"test.thole.dev"}, Verbs: []string{"get", "patch"}, Resources: []string{keyring(plugin).Resource, keyring(plugin).Resource + "/status"},
	})
}

func secretsRule(verbs string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: strings.Fields(verbs), ResourceNames: names}
}

// grant lets an account do what a rule says, in one namespace or in all, and returns what ends
// that.
func (k *keyrings) grant(name, account, namespace string, rule rbacv1.PolicyRule) (revoke func()) {
	k.Helper()
	ctx, named := k.Context(), metav1.ObjectMeta{Name: name}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ns", Name: account}}
	if namespace == "" {
		_, err := k.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: named, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
		k.must(err)
		_, err = k.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: named, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		}, metav1.CreateOptions{})
		k.must(err)
		return func() {
			k.must(k.RbacV1().ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{}))
		}
	}
	_, err := k.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
	k.must(err)
	_, err = k.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: named, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}, metav1.CreateOptions{})
	k.must(err)
	return func() {
		k.must(k.RbacV1().RoleBindings(namespace).Delete(context.Background(), name, metav1.DeleteOptions{}))
	}
}

// putSecret creates or replaces a Secret with a value.
func (k *keyrings) putSecret(namespace, name, value string) {
	k.Helper()
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data: map[string][]byte{"key": []byte(value)},
	}
	_, err := k.CoreV1().Secrets(namespace).Update(k.Context(), secret, metav1.UpdateOptions{})
	if err != nil {
		_, err = k.CoreV1().Secrets(namespace).Create(k.Context(), secret, metav1.CreateOptions{})
	}
	k.must(err)
}

// look makes a primary of a plugin read the Secret that text names, and waits for that.
func (k *keyrings) look(plugin, text string) {
	k.Helper()
	k.looks++
	request := fmt.Sprint(k.looks)
	primary := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.thole.dev/v1", "kind": "Keyring" + strings.ToUpper(plugin), "spec": map[string]any{"text": text},
		"metadata": map[string]any{"name": "x", "namespace": "ns", "annotations": map[string]any{dispatch.RequestedAt: request}},
	}}
	_, err := k.objects.Resource(keyring(plugin)).Namespace("ns").Apply(k.Context(), "x", primary, metav1.ApplyOptions{FieldManager: "test", Force: true})
	k.must(err)
	await.Until(k.T, "keyring-"+plugin+" has handled a request", func() bool {
		handled, _, _ := unstructured.NestedString(k.status(plugin), "lastHandledReconcileAt")
		return handled == request
	})
}

func (k *keyrings) status(plugin string) map[string]any {
	k.Helper()
	o, err := k.objects.Resource(keyring(plugin)).Namespace("ns").Get(k.Context(), "x", metav1.GetOptions{})
	k.must(err)
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	return status
}

// found returns the number of runs of the primary, and what the last one found.
func (k *keyrings) found(plugin string) (runs int64, found string) {
	k.Helper()
	status := k.status(plugin)
	runs, _, _ = unstructured.NestedInt64(status, "runs")
	return runs, fmt.Sprint(status["got"], " ", status["list"])
}

func (k *keyrings) awaitFound(plugin, want string) {
	k.Helper()
	last := ""
	k.Cleanup(func() {
		if k.Failed() {
			k.Logf("keyring-%s last found %s", plugin, last)
		}
	})
	await.Until(k.T, "keyring-"+plugin+" finds "+want, func() bool {
		_, last = k.found(plugin)
		return last == want
	})
}

// lookUntil makes a primary read again until it finds what is wanted: the right to it has
// changed, and what was known of it is believed for a time.
func (k *keyrings) lookUntil(plugin, text, want string) {
	k.Helper()
	await.Until(k.T, "keyring-"+plugin+" finds "+want, func() bool {
		k.look(plugin, text)
		_, found := k.found(plugin)
		return found == want
	})
}

const isDenied = "denied denied"

// holds is what a plugin finds that reads a Secret with a value, before what it lists.
func holds(value string) string {
	return "map[key:" + base64.StdEncoding.EncodeToString([]byte(value)) + "] "
}

// change changes the Secret ns/s, and waits until that has run b, which lists so many.
func (k *keyrings) change(listed string) (found string) {
	k.Helper()
	k.changes++
	value := fmt.Sprint("value ", k.changes)
	k.putSecret("ns", "s", value)
	k.awaitFound("b", holds(value)+listed)
	return holds(value)
}

// Both plugins read from one informer of Secrets, and each what its account may read.
func TestAPluginReadsWhatItsAccountMayRead(t *testing.T) {
	k := startKeyrings(t)
	k.grant("b", "b", "", secretsRule("get list watch"))
	k.putSecret("ns", "s", "first")
	k.look("a", "ns/s")
	k.lookUntil("b", "ns/s", holds("first")+"1")
	k.awaitFound("a", isDenied)

	// Its change wakes b, and not a.
	before, _ := k.found("a")
	value := k.change("1")
	k.putSecret("ns", "t", "other")
	k.awaitFound("b", value+"2")
	k.expectNoRun("a", before)

	k.Run("by name", func(*testing.T) {
		revoke := k.grant("by-name", "a", "ns", secretsRule("get", "s"))
		k.lookUntil("a", "ns/s", value+"denied")
		k.lookUntil("a", "ns/t", isDenied)
		k.lookUntil("a", "other/s", isDenied)
		k.lookUntil("a", "ns/s", value+"denied")
		k.awaitFound("a", k.change("2")+"denied")
		value = k.expectRevoked(revoke)
	})
	k.Run("by namespace", func(*testing.T) {
		k.putSecret("other", "s", "another")
		revoke := k.grant("by-namespace", "a", "ns", secretsRule("get list watch"))
		k.lookUntil("a", "ns/gone", "not found 2")
		k.lookUntil("a", "other/s", isDenied)
		k.lookUntil("a", "ns/s", value+"2")
		k.awaitFound("a", k.change("2")+"2")
		value = k.expectRevoked(revoke)
	})
	k.Run("in all namespaces", func(*testing.T) {
		k.look("a", "ns/s")
		k.awaitFound("a", isDenied)
		revoke := k.grant("all", "a", "", secretsRule("get list watch"))
		k.awaitFound("a", value+"2")                          // it is due because a rule that was missing was granted
		await.Until(k.T, "no right is missing", func() bool { // each verb that is seen makes it due
			return !strings.Contains(fmt.Sprint(k.host.runner.Statuses()["keyring-a"].MissingRights), "secrets")
		})
		k.lookUntil("a", "other/s", holds("another")+"1")
		k.lookUntil("a", "ns/s", value+"2")
		k.expectRevoked(revoke)
	})
}

// The API server lets the host act as an account that is deleted, and RBAC gives it rights: the
// plugin ends all the same, until there is the account again.
func TestAPluginEndsWithItsAccount(t *testing.T) {
	k := startKeyrings(t)
	for _, plugin := range []string{"a", "b"} {
		k.grant(plugin, plugin, "", secretsRule("get list watch"))
		k.putSecret("ns", "s", "first")
		k.look(plugin, "ns/s")
		k.lookUntil(plugin, "ns/s", holds("first")+"1")
	}
	k.must(k.CoreV1().ServiceAccounts("ns").Delete(k.Context(), "a", metav1.DeleteOptions{}))
	lacks := func() bool {
		return strings.Contains(strings.Join(k.host.runner.Statuses()["keyring-a"].MissingRights, "\n"), "there is no service account ns/a: create it")
	}
	await.Until(t, "it is missed", lacks)
	before, _ := k.found("a")
	k.change("1") // runs b
	k.expectNoRun("a", before)
	primary := k.objects.Resource(keyring("a")).Namespace("ns")
	_, err := primary.Patch(k.Context(), "x", types.MergePatchType, []byte(`{"spec":{"text":"ns/t"}}`), metav1.PatchOptions{})
	k.must(err)
	await.Until(t, "the status of the primary states it", func() bool {
		return strings.Contains(fmt.Sprint(k.status("a")["conditions"]), "there is no service account ns/a: create it")
	})
	k.expectNoRun("a", before)
	_, err = k.CoreV1().ServiceAccounts("ns").Create(k.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	k.must(err)
	k.awaitFound("a", "not found 1")
	await.Until(t, "it is not missed any more", func() bool { return !lacks() })
}

// expectRevoked takes a right away while the plugin a runs. A change of what it has read does
// not run it, and it reads nothing any more.
func (k *keyrings) expectRevoked(revoke func()) (value string) {
	k.Helper()
	runs, _ := k.found("a")
	revoke()
	secrets := object.Resource{GVR: corev1.SchemeGroupVersion.WithResource("secrets"), Namespaced: true}
	for _, verb := range []string{rights.Get, rights.List} { // either makes a change run it, and each is believed for a time of its own
		await.Until(k.T, "the right to "+verb+" is not believed any more", func() bool {
			account, key := rights.Account{Namespace: "ns", Name: "a"}, object.Key{Namespace: "ns", Name: "s"}
			return access.Denied(k.host.runner.Access.MayUse(k.Context(), account, verb, secrets, key))
		})
	}
	value = k.change("2")
	k.expectNoRun("a", runs)
	k.lookUntil("a", "ns/s", isDenied)
	return value
}

// expectNoRun expects that there is no run beside the first so many. What would lead to one
// has run the other plugin by now.
func (k *keyrings) expectNoRun(plugin string, before int64) {
	k.Helper()
	if await.Poll(time.Second, func() bool { runs, _ := k.found(plugin); return runs != before }) {
		runs, found := k.found(plugin)
		k.Errorf("%d runs of keyring-%s, which found %s", runs-before, plugin, found)
	}
}
