package cache

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
)

// These tests follow parts of a kind on a real API server.

// narrowWorld has ConfigMaps of which users follow parts.
type narrowWorld struct {
	t      *testing.T
	c      *Cache
	client *kubernetes.Clientset
	ns     []string // three, in order
	woken  chan Owner
}

func newNarrowWorld(t *testing.T, config Config) *narrowWorld {
	w := &narrowWorld{t: t, woken: make(chan Owner, 1000)}
	w.c, w.client = openReal(t, config, Hooks{Wake: func(o Owner, _ Event, _ bool) { w.woken <- o }})
	for range 3 {
		w.ns = append(w.ns, namespace(t, w.client))
	}
	slices.Sort(w.ns)
	return w
}

// put creates a ConfigMap or changes its label.
func (w *narrowWorld) put(ns, name, label string) *object.Object {
	w.t.Helper()
	m := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"app": label}}, Data: map[string]string{"a": label},
	}
	maps := w.client.CoreV1().ConfigMaps(ns)
	var err error
	if _, err = maps.Get(within(w.t), name, metav1.GetOptions{}); err == nil {
		m, err = maps.Update(within(w.t), m, metav1.UpdateOptions{})
	} else {
		m, err = maps.Create(within(w.t), m, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return &object.Object{ObjectMeta: m.ObjectMeta, Kind: configMap}
}

func (w *narrowWorld) acquire(s abi.Selector) *Informer {
	w.t.Helper()
	of, err := scope.Of(abi.Followed{Kind: configMap, Selector: s})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.acquireScope(of)
}

func (w *narrowWorld) acquireScope(s scope.Scope) *Informer {
	w.t.Helper()
	i, err := w.c.Acquire(within(w.t), s)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := i.WaitForSync(within(w.t)); err != nil {
		w.t.Fatal(err)
	}
	return i
}

func (w *narrowWorld) running() int {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	return len(w.c.informers)
}

// expect waits until an informer shows exactly these objects, by place of the namespace
// and name.
func (w *narrowWorld) expect(i *Informer, want ...string) {
	w.t.Helper()
	got := func() (all []string) {
		for _, o := range i.List("", nil) {
			if at := slices.Index(w.ns, o.Namespace); at >= 0 && o.Name != "kube-root-ca.crt" {
				all = append(all, string(rune('0'+at))+o.Name)
			}
		}
		return all
	}
	await.Until(w.t, "the informer shows "+strings.Join(want, " "), func() bool { return slices.Equal(got(), want) })
}

func TestRealInformerShowsWhatIsSelected(t *testing.T) {
	w := newNarrowWorld(t, Config{})
	w.put(w.ns[0], "a", "x")
	w.put(w.ns[0], "b", "y")
	w.put(w.ns[1], "c", "x")
	w.put(w.ns[2], "d", "x")
	labelled := w.acquire(abi.Selector{LabelSelector: "app = x"})
	w.expect(labelled, "0a", "1c", "2d")
	if same := w.acquire(abi.Selector{LabelSelector: "app=x"}); w.running() != 1 || !same.IsServedAs(labelled) {
		t.Errorf("%d informers for equal selectors", w.running())
	}
	two := w.acquire(abi.Selector{LabelSelector: "app=x", Namespaces: []string{w.ns[2], w.ns[0]}})
	w.expect(two, "0a", "2d")
	if w.running() != 1 {
		t.Errorf("%d informers: a wider one serves a narrower one", w.running())
	}
	if !two.Has(w.ns[0]) || two.Has(w.ns[1]) {
		t.Error("the informer has other namespaces than it follows")
	}
	events := record(t, two)
	events.expect("initial "+w.ns[0]+"/a", "initial "+w.ns[2]+"/d")
	w.put(w.ns[1], "c", "z")
	w.put(w.ns[0], "a", "z")
	events.expect("delete " + w.ns[0] + "/a")
	w.put(w.ns[0], "b", "x")
	events.expect("add " + w.ns[0] + "/b")
	w.expect(labelled, "0b", "2d")
}

func TestRealNamespacesAreFollowedByThemselves(t *testing.T) {
	w := newNarrowWorld(t, Config{})
	two := w.acquire(abi.Selector{Namespaces: []string{w.ns[2], w.ns[0]}})
	shared := w.acquire(abi.Selector{Namespaces: []string{w.ns[1], w.ns[2]}})
	if w.running() != 3 {
		t.Errorf("%d informers for three namespaces", w.running())
	}
	events := record(t, two)
	for _, ns := range two.scope.Namespaces {
		receive(t, events.events) // kube-root-ca.crt, or the first of the below
		w.put(ns, "a", "x")
	}
	w.put(w.ns[1], "b", "x")
	w.expect(two, "0a", "2a")
	w.expect(shared, "1b", "2a")
	two.Release()
	shared.Release()
	shared.Release()
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for _, i := range w.c.informers {
		if i.users != 0 {
			t.Errorf("%s has %d users", i.scope, i.users)
		}
	}
}

func TestRealMetadataIsAllThatIsKept(t *testing.T) {
	w := newNarrowWorld(t, Config{})
	made := w.put(w.ns[0], "a", "x")
	narrow := w.acquire(abi.Selector{Namespaces: w.ns[:1], MetadataOnly: true})
	w.expect(narrow, "0a")
	expectMetadata := func(i *Informer) {
		t.Helper()
		o, _ := i.Get(made.Key())
		if o == nil || !o.MetadataOnly || strings.Contains(string(o.Raw), `"data"`) || !strings.HasPrefix(string(o.Raw), `{"apiVersion":"v1","kind":"ConfigMap","metadata":{`) || o.Kind != configMap {
			t.Errorf("got %+v", o)
		}
	}
	expectMetadata(narrow)
	wide := w.acquire(abi.Selector{Namespaces: w.ns[:1]})
	if served := w.acquire(abi.Selector{Namespaces: w.ns[:1], MetadataOnly: true, LabelSelector: "app"}); w.running() != 2 {
		t.Errorf("%d informers", w.running())
	} else {
		expectMetadata(served)
	}
	if o, _ := wide.Get(made.Key()); o == nil || o.MetadataOnly {
		t.Errorf("the whole object is %+v", o)
	}
	changed := w.put(w.ns[0], "a", "y")
	await.Until(t, "the watch shows the change", func() bool {
		o, _ := narrow.Get(made.Key())
		return o.ResourceVersion == changed.ResourceVersion && o.Labels["app"] == "y"
	})
	expectMetadata(narrow)
	if o, err := narrow.Live(within(t), made.Key()); err != nil || !o.MetadataOnly {
		t.Errorf("read from the server: %+v, %v", o, err)
	}
	var own OwnWrites
	whole, err := object.Parse([]byte(`{"metadata":{"namespace":"`+w.ns[0]+`","name":"new","uid":"u","resourceVersion":"1`+changed.ResourceVersion+`"},"data":{}}`), configMap)
	if err != nil {
		t.Fatal(err)
	}
	own.Wrote(narrow, whole)
	if o := own.Get(narrow, whole.Key()); o == nil || !o.MetadataOnly {
		t.Errorf("an own write is %+v", o)
	}
}

// What plugins own is followed by one informer, and each sees what is its own.
func TestRealManagedObjectsAreFollowedOnce(t *testing.T) {
	w := newNarrowWorld(t, Config{})
	of := func(plugin string) *Informer {
		m := &abi.Manifest{Name: plugin, Managed: true, Controllers: []abi.Controller{{Name: "c", For: widget.All(), Owns: []abi.Followed{configMap.All()}}}}
		p, err := scope.OfManifest(m, w.ns)
		if err != nil {
			t.Fatal(err)
		}
		return w.acquireScope(p.Controllers[0].Owns[0])
	}
	p, q := of("p"), of("q")
	if w.running() != len(w.ns) {
		t.Errorf("%d informers", w.running())
	}
	w.put(w.ns[0], "none", "x")
	w.put(w.ns[0], "a", "x")
	w.put(w.ns[1], "b", "x")
	w.label(w.ns[0], "a", `"p"`)
	w.label(w.ns[1], "b", `"q"`)
	w.expect(p, "0a")
	w.expect(q, "1b")
	if size := w.c.Stats()[0].Objects; size != 2 {
		t.Errorf("%d objects are kept", size)
	}
	events := record(t, p)
	events.expect("initial " + w.ns[0] + "/a")
	w.label(w.ns[0], "a", "null")
	events.expect("delete " + w.ns[0] + "/a")
	w.label(w.ns[0], "a", `"q"`)
	w.expect(q, "0a", "1b")
	events.expectNone()
}

func (w *narrowWorld) label(ns, name, value string) {
	w.t.Helper()
	patch := `{"metadata":{"labels":{"thole.dev/managed-by":` + value + `}}}`
	if _, err := w.client.CoreV1().ConfigMaps(ns).Patch(within(w.t), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// A run reads over several namespaces as though they were one, in pages too.
func TestRealRunReadsNamespacesInOrder(t *testing.T) {
	t.Run("of informers of their own", func(t *testing.T) { readNamespaces(t, newNarrowWorld(t, Config{})) })
	t.Run("of a wider informer", func(t *testing.T) {
		w := newNarrowWorld(t, Config{})
		w.acquire(abi.Selector{})
		readNamespaces(t, w)
	})
}

func readNamespaces(t *testing.T, w *narrowWorld) {
	for _, ns := range w.ns {
		w.put(ns, "a", "x")
		w.put(ns, "b", "x")
		w.put(ns, "c", "y")
	}
	i := w.acquire(abi.Selector{Namespaces: []string{w.ns[0], w.ns[2]}})
	w.expect(i, "0a", "0b", "0c", "2a", "2b", "2c")
	me := Owner{Controller: "p/c", Key: object.Key{Name: "me"}}
	run := w.c.Begin(me, &OwnWrites{}, func(abi.Kind) *Informer { return i })
	l := Reading{Kind: configMap, Selector: selector(t, "app=x"), Limit: 3}
	var got []string
	for {
		found, err := run.List(l)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range found.Items {
			got = append(got, string(rune('0'+slices.Index(w.ns, o.Namespace)))+o.Name)
		}
		if !found.More {
			break
		}
		l.After = found.Items[len(found.Items)-1].Key()
	}
	if want := []string{"0a", "0b", "2a", "2b"}; !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	for _, ns := range w.ns {
		_, err := run.Get(configMap, object.Key{Namespace: ns, Name: "a"}, whole)
		if followed := ns != w.ns[1]; followed != (err == nil) {
			t.Errorf("get in namespace %d: %v", slices.Index(w.ns, ns), err)
		}
	}
	if _, err := run.List(Reading{Kind: configMap, Namespaces: w.ns}); err == nil {
		t.Error("a list of a namespace that is not followed has no error")
	}
	run.Commit()
	w.put(w.ns[1], "a", "z")
	w.put(w.ns[2], "d", "x")
	if o := receive(t, w.woken); o != me {
		t.Errorf("woke %v", o)
	}
}

// A write that takes an object out of what is followed hides it, until the watch shows
// what came after it.
func TestRealOwnWriteThatLeavesIsNotShown(t *testing.T) {
	w := newNarrowWorld(t, Config{})
	made := w.put(w.ns[0], "a", "x")
	i := w.acquire(abi.Selector{Namespaces: w.ns[:1], LabelSelector: "app=x"})
	w.expect(i, "0a")
	var own OwnWrites
	at := func(version, label string) *object.Object {
		o, err := object.Parse([]byte(`{"metadata":{"namespace":"`+w.ns[0]+`","name":"a","uid":"`+string(made.UID)+`","resourceVersion":"`+version+`","labels":{"app":"`+label+`"}}}`), configMap)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	own.Wrote(i, at(made.ResourceVersion+"0", "y"))
	if o := own.Get(i, made.Key()); o != nil {
		t.Errorf("shows %s", o.Raw)
	}
	own.Wrote(i, at(made.ResourceVersion+"1", "x"))
	if o := own.Get(i, made.Key()); o == nil || o.ResourceVersion != made.ResourceVersion+"1" {
		t.Errorf("after it has come back: %+v", o)
	}
	foreign := at(made.ResourceVersion+"2", "y")
	foreign.Name = "other"
	own.Wrote(i, foreign)
	if n := own.Len(); n != 1 {
		t.Errorf("%d writes are kept: one that was never shown is of no interest", n)
	}
	var late OwnWrites
	gone := w.put(w.ns[0], "a", "y")
	late.Wrote(i, at(gone.ResourceVersion, "y"))
	back := w.put(w.ns[0], "a", "x")
	await.Until(t, "the object is shown again", func() bool {
		o := late.Get(i, made.Key())
		return o != nil && o.ResourceVersion == back.ResourceVersion
	})
	if n := late.Len(); n != 0 {
		t.Errorf("%d writes are kept after they were passed", n)
	}
}

// What does not fit into a page ends it, also if what follows in the next namespace fits.
func TestRealPageEndsWithWhatDoesNotFit(t *testing.T) {
	w := newNarrowWorld(t, Config{})
	small, large, last := w.put(w.ns[0], "a", "x"), w.put(w.ns[0], "b", strings.Repeat("x", 60)), w.put(w.ns[1], "c", "x")
	i := w.acquire(abi.Selector{Namespaces: w.ns[:2], LabelSelector: "app"})
	w.expect(i, "0a", "0b", "1c")
	size := 0
	for _, o := range []*object.Object{small, last} {
		shown, _ := i.Get(o.Key())
		size += len(shown.Raw)
	}
	run := w.c.Begin(Owner{Controller: "p/c"}, &OwnWrites{}, func(abi.Kind) *Informer { return i })
	defer run.Abandon()
	l := Reading{Kind: configMap, Limit: 3, MaxBytes: size + 50}
	found, err := run.List(l)
	if err != nil || !found.More || len(found.Items) != 1 {
		t.Fatalf("%d objects, more: %v, %v", len(found.Items), found.More, err)
	}
	l.After, l.MaxBytes = small.Key(), 0
	if found, err = run.List(l); err != nil || len(found.Items) != 2 || found.Items[0].Key() != large.Key() {
		t.Errorf("%d objects follow, %v", len(found.Items), err)
	}
}

// A wider informer may lack a right that a narrower one does not need.
func TestInformerThatFailsServesNobodyElse(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	c := open(t, p, Config{})
	wide := acquire(t, c)
	one := scope.Scope{Kind: widget, Namespaces: []string{"a"}}
	served, err := c.Acquire(within(t), one)
	if err != nil || !served.IsServedAs(wide) {
		t.Fatalf("a working informer does not serve a narrower scope: %v", err)
	}
	p.set(true, func(*http.Request) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	})
	p.cutWatches()
	await.Until(t, "the informer fails", func() bool { return wide.Err() != nil })
	other, err := c.Acquire(within(t), one)
	if err != nil || other.IsServedAs(wide) {
		t.Errorf("an informer that fails serves another user: %v", err)
	}
}

func TestRealScopesThatCannotBeFollowed(t *testing.T) {
	w := newNarrowWorld(t, Config{})
	of, err := scope.Of(abi.Followed{Kind: configMap, Selector: abi.Selector{FieldSelector: "data.a=b"}})
	if err != nil {
		t.Fatal(err)
	}
	i, err := w.c.Acquire(within(t), of)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.WaitForSync(within(t)); err == nil || !strings.Contains(err.Error(), "is not a known field selector") {
		t.Errorf("a field that the API server does not select by: %v", err)
	}
	only, _ := openReal(t, Config{Namespace: w.ns[0]})
	if _, err := only.Acquire(context.Background(), scope.Scope{Kind: configMap, Namespaces: w.ns[1:]}); err == nil || !strings.Contains(err.Error(), "the host is restricted to the namespace") {
		t.Errorf("a namespace that the host may not follow: %v", err)
	}
	some, err := only.Acquire(within(t), scope.Scope{Kind: configMap, Namespaces: w.ns})
	if err != nil || some.Has(w.ns[1]) || !some.Has(w.ns[0]) {
		t.Errorf("%v", err)
	}
	node := abi.Kind{APIVersion: "v1", Kind: "Node"}
	nodes, err := w.c.Acquire(within(t), scope.Scope{Kind: node, Namespaces: w.ns})
	if err != nil || len(nodes.parts) != 1 || !nodes.Has("") {
		t.Errorf("a cluster-scoped kind: %+v, %v", nodes, err)
	}
}
