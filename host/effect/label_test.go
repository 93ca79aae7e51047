package effect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// label labels the children of a controller.
func (w *world) label(t Target) {
	w.Helper()
	if _, err := w.LabelChildren(w.Context(), []abi.Controller{*t.Controller}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) inNamespace(c *Config) { c.Managed, c.Namespaces = true, []string{w.ns} }

// child applies a ConfigMap as a field manager, with that owner as its controller.
func (w *world) child(name, manager string, owner *object.Object, labels string) *object.Object {
	w.Helper()
	owners := "[]"
	if owner != nil {
		owners = "[" + string(controllerReference(owner)) + "]"
	}
	o, err := w.admin.patch(w.Context(), configMap, w.key(configMap, name), patch{
		patchType: types.ApplyPatchType, manager: manager,
		body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":%s,"ownerReferences":%s},"data":{"k":"v"}}`, name, labels, owners),
	})
	if err != nil {
		w.Fatal(err)
	}
	return o
}

func TestOnlyChildrenOfThePluginAreLabelled(t *testing.T) {
	w := newCluster(t)
	w.start(w.inNamespace)
	target := w.owner(list(configMap, widget, secret), list(service))
	primary := target.Object
	other := w.create(gadget, `{"metadata":{"name":"g"}}`)
	older := *primary
	older.Kind.APIVersion = "test.thole.dev/v0"
	ours := map[string]*object.Object{
		"plain":                       w.child("plain", "thole/demo/main", primary, `{}`),
		"of a label of its own":       w.child("labelled", "thole/demo/main", primary, `{"a":"b"}`),
		"of another plugin's label":   w.child("theirs", "thole/demo/main", primary, `{"thole.dev/managed-by":"theirs"}`),
		"of an older primary version": w.child("older", "thole/demo/main", &older, `{}`),
	}
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"done"},"data":{"k":"v"}}`))
	others := map[string]*object.Object{
		"labelled already":           w.live(configMap, "done"),
		"of another plugin":          w.child("a", "thole/demo2/main", primary, `{}`),
		"of another controller":      w.child("b", "thole/demo/second", primary, `{}`),
		"of the same prefix":         w.child("c1", "thole/demo/main/1", primary, `{}`),
		"of a person":                w.child("d", "kubectl", primary, `{}`),
		"of another primary kind":    w.child("e", "thole/demo/main", other, `{}`),
		"of nobody":                  w.child("f", "thole/demo/main", nil, `{}`),
		"of a manager that updates":  w.create(configMap, `{"metadata":{"name":"g"}}`),
		"the primary of the plugin":  primary,
		"of a kind in writes":        w.create(service, `{"metadata":{"name":"h"},"spec":{"ports":[{"port":80}]}}`),
		"of an owner, no controller": w.child("i", "thole/demo/main", nil, `{}`),
	}
	w.edit(configMap, "i", "", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"w","uid":%q}]}}`, primary.UID))
	others["of an owner, no controller"] = w.live(configMap, "i")
	w.wire.take()
	w.label(target)

	if got := w.wire.methods(); got != "GET GET PATCH PATCH PATCH PATCH GET" {
		t.Errorf("sent %s", got)
	}
	for name, before := range ours {
		got := w.live(configMap, before.Name)
		diff := diffOf(t, before, got)
		if got.Labels[abi.LabelManagedBy] != "demo" || diff != `{"metadata":{"labels":{"thole.dev/managed-by":"demo"}}}` {
			t.Errorf("%s: changed %s", name, diff)
		}
	}
	for name, before := range others {
		got, err := w.admin.get(t.Context(), resourceOf(before.Kind), before.Key())
		if err != nil || got.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s: %v, changed %s", name, err, diffOf(t, before, got))
		}
	}
	w.label(target)
	for _, r := range w.wire.take() {
		if r.method != http.MethodGet {
			t.Errorf("then sent %s", r)
		}
	}
}

// More objects than fit into one page, of which the last one is the plugin's.
func TestChildrenAreListedInPages(t *testing.T) {
	w := newCluster(t)
	w.start(w.inNamespace)
	target := w.owner(list(configMap), nil)
	for i := range labelPage + 1 {
		w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"a%d"}}`, i))
	}
	w.child("z", "thole/demo/main", target.Object, `{}`)
	w.wire.take()
	w.label(target)
	sent := w.wire.take()
	if len(sent) != 3 || !strings.HasPrefix(sent[1].query, "continue=") || w.live(configMap, "z").Labels[abi.LabelManagedBy] != "demo" {
		t.Errorf("sent %v", sent)
	}
}

func TestADryRunLabelsNothing(t *testing.T) {
	w := newCluster(t)
	w.start(w.inNamespace, func(c *Config) { c.DryRun = true })
	target := w.owner(list(configMap), nil)
	before := w.child("z", "thole/demo/main", target.Object, `{}`)
	w.wire.take()
	w.label(target)
	if got := w.wire.methods(); got != "GET" || w.live(configMap, "z").ResourceVersion != before.ResourceVersion {
		t.Errorf("sent %s", got)
	}
	if line := w.logs.Next(t); line.Message != "dry run: would label" {
		t.Errorf("logged %v", line)
	}
}

// Whatever happens to an object after it was listed, no other one is labelled, and
// none that needs the label is left.
func TestObjectsThatChangeWhileTheyAreLabelled(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(w *world, owner *object.Object)
		requests string
		labels   string // of the object, "none" if there is no object
	}{
		"deleted": {func(w *world, _ *object.Object) { w.remove(configMap, "z") }, "GET PATCH", "none"},
		"changed": {func(w *world, _ *object.Object) { w.edit(configMap, "z", "", `{"metadata":{"labels":{"a":"b"}}}`) }, "GET PATCH", "map[a:b thole.dev/managed-by:demo]"},
		"replaced by a foreign one": {func(w *world, _ *object.Object) {
			w.remove(configMap, "z")
			w.create(configMap, `{"metadata":{"name":"z"}}`)
		}, "GET PATCH GET", "map[]"},
		"replaced by ours": {func(w *world, owner *object.Object) {
			w.remove(configMap, "z")
			w.child("z", "thole/demo/main", owner, `{}`)
		}, "GET PATCH GET PATCH", "map[thole.dev/managed-by:demo]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			w.start(w.inNamespace)
			target := w.owner(list(configMap), nil)
			w.child("z", "thole/demo/main", target.Object, `{}`)
			w.wire.take()
			w.wire.before = func(request) {
				w.wire.before = func(request) { c.change(w, target.Object) } // before the patch
			}
			w.label(target)
			if got := w.wire.methods(); got != c.requests {
				t.Errorf("sent %s, want %s", got, c.requests)
			}
			got := "none"
			if o := w.live(configMap, "z"); o != nil {
				got = fmt.Sprint(o.Labels)
			}
			if got != c.labels {
				t.Errorf("labels are %s, want %s", got, c.labels)
			}
		})
	}
}

// unlabelled is an API server with children of the plugin: one a page.
type unlabelled struct {
	mu       sync.Mutex
	children []string
	expire   int // so many continue tokens have expired
	conflict int // so many patches are a conflict
}

func (u *unlabelled) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	token := in.URL.Query().Get("continue")
	switch {
	case in.Method == http.MethodPatch && u.conflict > 0:
		u.conflict--
		respondStatus(409, "Conflict", "the object has been modified", "")(out, in)
	case in.Method == http.MethodPatch:
		name := in.URL.Path[strings.LastIndex(in.URL.Path, "/")+1:]
		u.children = slices.DeleteFunc(u.children, func(s string) bool { return s == name })
		respond(200, "application/json", u.child(name))(out, in)
	case token != "" && u.expire > 0:
		u.expire--
		respondStatus(410, "Expired", "the provided continue parameter is too old", "")(out, in)
	default:
		respond(200, "application/json", u.page(token))(out, in)
	}
}

func (u *unlabelled) child(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default","uid":"u-%[1]s","resourceVersion":"7",
"ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"w","uid":"u1","controller":true}],
"managedFields":[{"manager":"thole/demo/main","operation":"Apply","apiVersion":"v1","fieldsV1":{}}]}}`, name)
}

// page returns the first child after one.
func (u *unlabelled) page(after string) string {
	items, next := "", ""
	for _, name := range u.children {
		switch {
		case name <= after:
		case items == "":
			items = u.child(name)
		case next == "":
			next = items[strings.Index(items, `"name":"`)+8:][:1]
		}
	}
	return fmt.Sprintf(`{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{"continue":%q},"items":[%s]}`, next, items)
}

func TestLabellingStartsAgainWhereTheListIsOutdated(t *testing.T) {
	for name, c := range map[string]struct {
		expire, conflict int
		fails            string
	}{
		"nothing fails":              {0, 0, ""},
		"tokens expire":              {2, 0, ""},
		"tokens expire all the time": {1000, 0, ""}, // each pass labels one object
		"conflicts":                  {0, 4, ""},
		"both":                       {3, 3, ""},
		"nothing is ever labelled":   {0, 1000, "label objects of v1 ConfigMap with thole.dev/managed-by: default/j: the object has been modified"},
		"expires before anything is": {1000, 1000, "the provided continue parameter is too old"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unlabelled{children: strings.Split("abcdefghij", ""), expire: c.expire, conflict: c.conflict}
			w, target := newFake(t, u.ServeHTTP, managed)
			_, err := w.LabelChildren(t.Context(), []abi.Controller{*target.Controller})
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("got %v", err)
			}
			if err == nil && len(u.children) != 0 {
				t.Errorf("%v are left", u.children)
			}
		})
	}
}

func TestLabellingFailuresAreExplained(t *testing.T) {
	forbidden := func(verb string) http.HandlerFunc {
		return respondStatus(403, "Forbidden", `configmaps is forbidden: User "u" cannot `+verb+` resource "configmaps" in API group "" at the cluster scope`, "")
	}
	u := &unlabelled{children: []string{"a"}}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"list": {forbidden("list"), `add to a ClusterRole the rule {apiGroups: [''], resources: ['configmaps'], verbs: ['list']}`},
		"patch": {func(out http.ResponseWriter, in *http.Request) {
			if in.Method == http.MethodPatch {
				forbidden("patch")(out, in)
				return
			}
			u.ServeHTTP(out, in)
		}, `default/a: "u" lacks a right: add to a ClusterRole the rule {apiGroups: [''], resources: ['configmaps'], verbs: ['patch']}`},
		"server": {respondStatus(500, "InternalError", "etcd is away", ""), "label objects of v1 ConfigMap with thole.dev/managed-by: etcd is away"},
	} {
		t.Run(name, func(t *testing.T) {
			w, target := newFake(t, c.handler, managed)
			_, err := w.LabelChildren(t.Context(), []abi.Controller{*target.Controller})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	w, target := newFake(t, u.ServeHTTP, managed)
	target.Controller.Owns = abi.AllOf(abi.Kind{APIVersion: "v1", Kind: "Unserved"})
	_, err := w.LabelChildren(t.Context(), []abi.Controller{*target.Controller})
	if _, ok := errors.AsType[*object.UnknownKindError](err); !ok {
		t.Errorf("got %v", err)
	}
}

func TestLabellingWaitsForTheLimitOfWrites(t *testing.T) {
	u := &unlabelled{children: []string{"a", "b", "c"}}
	var waits int
	w, target := newFake(t, u.ServeHTTP, managed, func(c *Config) {
		c.QPS, c.Burst, c.ObserveWait = 0.001, 2, func(time.Duration) { waits++ }
	})
	ctx, cancel := context.WithCancel(t.Context())
	w.wire.before = func(request) {
		w.wire.before = func(request) {
			w.wire.before = func(request) { // the list of b, after a was labelled
				w.wire.before = func(request) { w.wire.before = func(request) { cancel() } }
			}
		}
	}
	_, err := w.LabelChildren(ctx, []abi.Controller{*target.Controller})
	if !errors.Is(err, context.Canceled) || len(u.children) != 1 || waits < 2 {
		t.Errorf("got %v, %v are left, %d waits", err, u.children, waits)
	}
}

// diffOf returns the difference between two states of an object, without what the
// server sets.
func diffOf(t *testing.T, before, after *object.Object) string {
	t.Helper()
	diff, err := rawjson.Diff(withoutServerFields(before.Raw), withoutServerFields(after.Raw))
	if err != nil {
		t.Fatal(err)
	}
	return string(diff)
}

// A revision that is about to be replaced by a managed one creates objects before, during
// and after the list of what is to be labelled.
func TestWhatIsAppliedWhileChildrenAreLabelledIsLabelled(t *testing.T) {
	w := newCluster(t)
	w.start(func(c *Config) { c.Namespaces = []string{w.ns} })
	target := w.owner(list(configMap), nil)
	object := func(name string) *abi.Result {
		return apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"k":"v"}}`, name)
	}
	sending, send, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w.wire.before = func(request) {
		close(sending)
		<-send
	}
	go func() {
		w.intents(target, object("before"))
		close(ended)
	}()
	<-sending
	old := w.Performer
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for range 2 { // a start that has failed, and the next one
		if err := old.BeginLabelling(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("labelling has begun while an object was being created without the label: %v", err)
		}
		old.EndLabelling()
	}
	begun := make(chan error, 1)
	go func() { begun <- old.BeginLabelling(t.Context()) }()
	close(send)
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	<-ended
	w.wire.before = func(request) { // after the list
		w.wire.before = func(request) { w.intents(target, object("during")) }
	}
	w.label(target)
	w.start(managed)
	w.Inherit(old)
	if _, failure := old.PerformIntents(t.Context(), target, object("after")); failure != nil { // a run that ends on the old revision
		t.Fatal(failure)
	}
	for _, name := range []string{"before", "during", "after"} {
		if got := w.live(configMap, name); got.Labels[abi.LabelManagedBy] != "demo" {
			t.Errorf("%s has the labels %v", name, got.Labels)
		}
	}
	w.start()
	w.Inherit(old)
	w.intents(target, object("later"))
	if got := w.live(configMap, "later"); got.Labels[abi.LabelManagedBy] != "" {
		t.Errorf("a revision that is not managed labels: %v", got.Labels)
	}
}
