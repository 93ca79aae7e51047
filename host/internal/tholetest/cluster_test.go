package tholetest

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

// faulty is a client of a real control plane through the proxy, an informer of its
// ConfigMaps, and a client beside the proxy.
type faulty struct {
	*testing.T
	proxy          *Proxy
	client, beside *kubernetes.Clientset
	store          cache.Store
}

func newClientset(t *testing.T, kubeconfig string) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.ContentType, config.QPS = "application/json", -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// startInformer returns the store of a synced informer.
func (f *faulty) startInformer() cache.Store {
	f.Helper()
	factory := informers.NewSharedInformerFactory(f.client, 0)
	configMaps := factory.Core().V1().ConfigMaps().Informer()
	factory.StartWithContext(f.Context())
	if !cache.WaitForCacheSync(f.Context().Done(), configMaps.HasSynced) {
		f.Fatal("not synced")
	}
	return configMaps.GetStore()
}

func (f *faulty) rules(text string) {
	f.Helper()
	if err := f.proxy.SetRules(text); err != nil {
		f.Fatal(err)
	}
}

func (f *faulty) create(by *kubernetes.Clientset, name string) error {
	_, err := by.CoreV1().ConfigMaps("default").Create(f.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// make creates a ConfigMap beside the proxy.
func (f *faulty) make(name string) {
	f.Helper()
	if err := f.create(f.beside, name); err != nil {
		f.Fatal(err)
	}
}

func (f *faulty) has(name string) bool {
	_, ok, err := f.store.GetByKey("default/" + name)
	return ok && err == nil
}

func (f *faulty) awaitSeen(name string) {
	f.Helper()
	await.Until(f.T, "the informer has "+name, func() bool { return f.has(name) })
}

func (f *faulty) watches() (n int) {
	for _, r := range f.proxy.Requests() {
		if r.Verb == "watch" && r.Resource == "configmaps" {
			n++
		}
	}
	return n
}

// TestFaultsOnARealControlPlane has the faults whose effect depends on the API
// server or on client-go's reflector.
func TestFaultsOnARealControlPlane(t *testing.T) {
	cluster := devcluster.Start(t)
	proxy := NewProxy(t, cluster.Config)
	f := &faulty{T: t, proxy: proxy, client: newClientset(t, proxy.Kubeconfig), beside: newClientset(t, cluster.Kubeconfig)}
	f.store = f.startInformer()
	f.make("first")
	f.awaitSeen("first")

	f.rules("create configmaps lost times=1")
	if err := f.create(f.client, "lost"); err == nil || errors.As(err, new(*apierrors.StatusError)) {
		t.Errorf("the client got a reply: %v", err)
	}
	f.awaitSeen("lost") // the write took place
	if err := f.create(f.client, "lost"); !apierrors.IsAlreadyExists(err) {
		t.Error(err)
	}

	for name, rule := range map[string]string{
		"frozen": "watch configmaps freeze", "old": "watch configmaps bookmarks-only", "late": "watch configmaps delay=1h",
	} {
		f.rules(rule)
		f.make(name)
		if err := f.create(f.client, "with-"+name); err != nil { // the API server has sent the event before this
			t.Error(err)
		}
		if f.has(name) || proxy.Rules()[0].Applied != 1 {
			t.Errorf("%s: the informer has the object: %+v", rule, proxy.Rules())
		}
		f.rules("")
		f.awaitSeen("with-" + name)
	}

	for name, rule := range map[string]string{"gone": "watch configmaps gone times=1", "cut": "watch configmaps cut times=1"} {
		before := f.watches()
		f.rules(rule)
		await.Until(t, rule+": the informer watches again", func() bool { return f.watches() > before })
		f.make(name)
		f.awaitSeen(name)
	}

	f.rules("list configmaps stale\nwatch configmaps freeze")
	f.make("new")
	stale := f.store
	f.store = f.startInformer()
	if !f.has("first") || f.has("new") {
		t.Errorf("a stale list has: first %v, new %v", f.has("first"), f.has("new"))
	}
	f.rules("")
	f.awaitSeen("new")
	f.store = stale
	f.awaitSeen("new")
	if _, denied := proxy.Rights(); len(denied) > 0 {
		t.Errorf("denied: %v", denied)
	}
}
