package devcluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/internal/await"
)

func TestClusterServesWhatPluginsNeed(t *testing.T) {
	skipShort(t)
	c := Start(t)
	client := clientFor(t, c.Config)

	t.Run("directory is readable by its owner only", func(t *testing.T) {
		expectMode(t, c.dir(), 0o700)
		expectMode(t, c.Kubeconfig, 0o600)
		expectMode(t, filepath.Join(c.dir(), "pki", "ca.key"), 0o600)
	})
	t.Run("version is Kubernetes'", func(t *testing.T) {
		v, err := client.Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		if v.GitVersion != "v1.36.3" || v.Major != "1" || v.Minor != "36" {
			t.Errorf("server version %s, %s.%s", v.GitVersion, v.Major, v.Minor)
		}
	})
	t.Run("deployment has its pods until it is deleted", func(t *testing.T) { deploymentHasPods(t, client) })
	t.Run("child of a deleted owner is collected", func(t *testing.T) { childIsCollected(t, client) })
	t.Run("child of a new kind is collected", func(t *testing.T) { childOfNewKindIsCollected(t, c) })
	t.Run("deleted namespace is finalized", func(t *testing.T) { namespaceIsFinalized(t, client) })
	t.Run("service account acts with its token and its roles", func(t *testing.T) { tokenWorks(t, c, client) })
	t.Run("service account admission checks pods", func(t *testing.T) { podAdmission(t, client) })
	t.Run("administrator reads the metrics", func(t *testing.T) {
		body, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil || len(body) == 0 {
			t.Errorf("get /metrics: %d bytes, %v", len(body), err)
		}
	})
}

func TestRestartKeepsObjectsTokensAndPort(t *testing.T) {
	skipShort(t)
	c := Start(t)
	client := clientFor(t, c.Config)
	made := create(t, client, configMap("kept"))
	token := tokenFor(t, client, "default")

	if err := c.Restart(); err != nil {
		t.Fatal(err)
	}
	// The client of before the restart still works: same port, same authority.
	got, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != made.UID {
		t.Errorf("object has uid %s, had %s", got.UID, made.UID)
	}
	if review := reviewOf(t, client, token); !review.Authenticated {
		t.Errorf("token of before the restart is refused: %s", review.Error)
	}
	create(t, client, configMap("made-after"))
}

// A restore takes back what etcd held: later objects are gone, earlier contents
// are there again, and resourceVersions are lower than clients have seen.
func TestRestoreTakesTheDataBack(t *testing.T) {
	skipShort(t)
	c := Start(t)
	client := clientFor(t, c.Config)
	maps := client.CoreV1().ConfigMaps("default")
	create(t, client, configMap("changed"))
	deleted := create(t, client, configMap("deleted"))
	if err := c.Save("before"); err != nil {
		t.Fatal(err)
	}
	create(t, client, configMap("later"))
	deleteConfigMap(t, client, "deleted")
	changed := configMap("changed")
	for i := range 100 { // more writes than those of a starting control plane
		changed.Data = map[string]string{"changed": strconv.Itoa(i)}
		var err error
		if changed, err = maps.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	for range 2 { // a saved state may be restored repeatedly
		if err := c.Restore("before"); err != nil {
			t.Fatal(err)
		}
		all, err := maps.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]corev1.ConfigMap{}
		for _, o := range all.Items {
			byName[o.Name] = o
		}
		if _, ok := byName["later"]; ok || byName["deleted"].UID != deleted.UID || byName["changed"].Data != nil {
			t.Errorf("after the restore: %v", byName)
		}
		if expectNumber(t, all.ResourceVersion) >= expectNumber(t, changed.ResourceVersion) {
			t.Errorf("resourceVersion %s after the restore, %s was seen before it", all.ResourceVersion, changed.ResourceVersion)
		}
		create(t, client, configMap("later"))
	}
}

func TestRestoreOfAnUnknownNameIsRefused(t *testing.T) {
	skipShort(t)
	c := Start(t)
	create(t, clientFor(t, c.Config), configMap("kept"))
	for _, name := range []string{"never-saved", "", ".", "..", "../cluster"} {
		if err := c.Restore(name); err == nil {
			t.Errorf("restored %q", name)
		}
	}
	if _, err := clientFor(t, c.Config).CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("the cluster is disturbed: %v", err)
	}
}

func expectNumber(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func deploymentHasPods(t *testing.T, client *kubernetes.Clientset) {
	labels := map[string]string{"app": "web"}
	replicas := int32(2)
	_, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var pods []corev1.Pod
	eventually(t, "two pods", func() error {
		pods = podsWith(t, client, "app=web")
		return countIs(len(pods), 2)
	})

	// A pod on no node is deleted at once, whatever its grace period, and the
	// replica set makes another.
	err = client.CoreV1().Pods("default").Delete(t.Context(), pods[0].Name, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Pods("default").Get(t.Context(), pods[0].Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("deleted pod is still there: %v", err)
	}
	eventually(t, "two pods again", func() error { return countIs(len(podsWith(t, client, "app=web")), 2) })

	if err := client.AppsV1().Deployments("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no pods", func() error { return countIs(len(podsWith(t, client, "app=web")), 0) })
}

func childIsCollected(t *testing.T, client *kubernetes.Clientset) {
	owner := create(t, client, configMap("owner"))
	create(t, client, configMap("child", metav1.OwnerReference{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID,
	}))
	deleteConfigMap(t, client, "owner")
	eventually(t, "the child to be gone", func() error { return gone(t, client, "child") })
}

func childOfNewKindIsCollected(t *testing.T, c *Cluster) {
	resource := createKind(t, c)
	client := clientFor(t, c.Config)
	boats := dynamic.NewForConfigOrDie(c.Config).Resource(resource).Namespace("default")
	boat := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "Boat", "metadata": map[string]any{"name": "first"},
	}}
	boat, err := boats.Create(t.Context(), boat, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, client, configMap("oar", metav1.OwnerReference{
		APIVersion: boat.GetAPIVersion(), Kind: boat.GetKind(), Name: boat.GetName(), UID: boat.GetUID(),
	}))
	if err := boats.Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child to be gone", func() error { return gone(t, client, "oar") })
}

func createKind(t *testing.T, c *Cluster) schema.GroupVersionResource {
	client, err := apiextensions.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	_, err = crds.Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "boats.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "boats", Singular: "boat", Kind: "Boat", ListKind: "BoatList"},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kind to be served", func() error {
		crd, err := crds.Get(t.Context(), "boats.example.com", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("not established")
	})
	return schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "boats"}
}

func namespaceIsFinalized(t *testing.T, client *kubernetes.Clientset) {
	namespaces := client.CoreV1().Namespaces()
	_, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "its default service account", func() error {
		_, err := client.CoreV1().ServiceAccounts("short-lived").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	if err := namespaces.Delete(t.Context(), "short-lived", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to be gone", func() error {
		_, err := namespaces.Get(t.Context(), "short-lived", metav1.GetOptions{})
		return notFound(err)
	})
}

func tokenWorks(t *testing.T, c *Cluster, client *kubernetes.Clientset) {
	_, err := client.CoreV1().ServiceAccounts("default").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "limited"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := tokenFor(t, client, "limited")
	const name = "system:serviceaccount:default:limited"
	if review := reviewOf(t, client, token); review.User.Username != name {
		t.Errorf("token is %q's: %s", review.User.Username, review.Error)
	}

	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken = token
	_, err = clientFor(t, config).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("list secrets without a role: %v", err)
	}
	config.BearerToken = "nonsense"
	_, err = clientFor(t, config).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("list secrets with a wrong token: %v", err)
	}
}

func podAdmission(t *testing.T, client *kubernetes.Clientset) {
	pods := client.CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "alone"}, Spec: podSpec()}
	pod.Spec.ServiceAccountName = "nobody"
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("create pod of a service account that is missing: %v", err)
	}
	pod.Spec.ServiceAccountName = ""
	made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Spec.ServiceAccountName != "default" || len(made.Spec.Volumes) != 1 || made.Spec.Volumes[0].Projected == nil {
		t.Errorf("pod has service account %q and volumes %v", made.Spec.ServiceAccountName, made.Spec.Volumes)
	}
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
}

// clientFor returns a client without a request limit, whose connections end
// with the test.
func clientFor(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := await.Success(check); err != nil {
		t.Fatalf("waited for %s: %v", what, err)
	}
}

func countIs(got, want int) error {
	if got != want {
		return fmt.Errorf("there are %d, want %d", got, want)
	}
	return nil
}

func notFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("it is there: %w", err)
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}}
}

func podsWith(t *testing.T, client *kubernetes.Clientset, selector string) []corev1.Pod {
	t.Helper()
	list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func configMap(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
}

func create(t *testing.T, client *kubernetes.Clientset, object *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	made, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func deleteConfigMap(t *testing.T, client *kubernetes.Clientset, name string) {
	t.Helper()
	if err := client.CoreV1().ConfigMaps("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func gone(t *testing.T, client *kubernetes.Clientset, name string) error {
	t.Helper()
	_, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
	return notFound(err)
}

func tokenFor(t *testing.T, client *kubernetes.Clientset, account string) string {
	t.Helper()
	made, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Status.Token
}

func reviewOf(t *testing.T, client *kubernetes.Clientset, token string) authenticationv1.TokenReviewStatus {
	t.Helper()
	review, err := client.AuthenticationV1().TokenReviews().Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status
}

func expectMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", path, got, want)
	}
}

// An audit log has the writes of users with what they have stored, also after a restart.
func TestAuditLogHasTheWritesOfUsers(t *testing.T) {
	skipShort(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	c := Start(t, "--audit-log", path)
	made := create(t, clientFor(t, c.Config), configMap("before"))
	if err := c.Restart(); err != nil {
		t.Fatal(err)
	}
	create(t, clientFor(t, c.Config), configMap("after"))
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for line := range strings.Lines(string(log)) {
		var e struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Name string }
			ResponseObject corev1.ConfigMap
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.ObjectRef.Name == "before" && e.ResponseObject.ResourceVersion != made.ResourceVersion {
			t.Errorf("the reply in the log is %s", line)
		}
		written = append(written, e.User.Username+" "+e.Verb+" "+e.ObjectRef.Name)
	}
	if want := []string{"admin create before", "admin create after"}; !slices.Equal(written, want) {
		t.Errorf("the log has %q, want %q", written, want)
	}
}
