package effect

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// allKinds are applies of typed kinds with defaults, atomic lists and maps,
// empty objects and quantities.
var allKinds = &abi.Result{Apply: []abi.Apply{
	{Object: fmt.Appendf(nil, podObject, "web:1")},
	{Object: fmt.Appendf(nil, configObject, "v")},
	{Object: []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"type":"Opaque","data":{"k":"dg=="}}`)},
	{Object: []byte(serviceObject)},
	{Object: []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","creationTimestamp":null},"spec":{"selector":{"matchLabels":{"app":"x"}},
"template":{"metadata":{"creationTimestamp":null,"labels":{"app":"x"}},"spec":{"volumes":[{"name":"tmp","emptyDir":{}}],
"containers":[{"name":"main","image":"x","resources":{},"env":[{"name":"A","value":"1"}],"volumeMounts":[{"name":"tmp","mountPath":"/tmp"}]}]}}},"status":{}}`)},
	{Object: []byte(`{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"part"},"spec":{"size":3,"tags":["x"],"parts":[{"a":"1"}]}}`)},
}}

// restarted applies allKinds and starts a new performer. The returned function
// puts all objects into the store.
func restarted(t *testing.T) (*world, Target, func()) {
	w := newCluster(t)
	target := w.owner(list(pod, configMap, service, deployment, secret, widget), nil)
	w.intents(target, allKinds)
	seen := func() { seeAll(w) }
	seen()
	w.wire.take()
	w.start()
	return w, target, seen
}

// seeAll puts the objects of allKinds into the store as they are on the server.
func seeAll(w *world) {
	w.Helper()
	w.seen(pod, "web")
	w.seen(configMap, "c")
	w.seen(secret, "s")
	w.seen(service, "svc")
	w.seen(deployment, "d")
	w.seen(widget, "part")
}

func TestApplyAfterARestartWritesNothing(t *testing.T) {
	w, target, _ := restarted(t)
	if report := w.intents(target, allKinds); len(report.Writes) != 0 {
		t.Errorf("wrote %v", report.Writes)
	}
	w.expectSent()
}

// The cache has what it was told, without managedFields. Objects with defaults differ
// from the intent.
func TestApplyAfterARestartReadsManagedFieldsThatAreNotKept(t *testing.T) {
	w, target, _ := restarted(t)
	for _, r := range []object.Resource{pod, configMap, secret, service, deployment, widget} {
		for o := range w.store.All(r.Kind) {
			w.store.put(parse(t, string(o.Raw)))
		}
	}
	for range 2 {
		if report := w.intents(target, allKinds); len(report.Writes) != 0 {
			t.Errorf("wrote %v", report.Writes)
		}
	}
	w.expectSent("GET /api/v1/namespaces/"+w.ns+"/pods/web", "GET /api/v1/namespaces/"+w.ns+"/services/svc",
		"GET /apis/apps/v1/namespaces/"+w.ns+"/deployments/d")
}

// Another manager has changed a value of ours, and changed it back: the value is as
// the intent wants it, but whoever has it may change it again.
func TestApplyAfterARestartTakesItsFieldsBack(t *testing.T) {
	for name, take := range map[string]func(*world){
		"changed and changed back": func(w *world) {
			w.edit(pod, "web", "", `{"metadata":{"labels":{"app":"theirs"}}}`)
			w.edit(pod, "web", "", `{"metadata":{"labels":{"app":"web"}}}`)
		},
		"removed and added": func(w *world) {
			w.edit(pod, "web", "", `{"metadata":{"labels":{"app":null}}}`)
			w.edit(pod, "web", "", `{"metadata":{"labels":{"app":"web"}}}`)
		},
		"managedFields removed": func(w *world) { w.edit(pod, "web", "", `{"metadata":{"managedFields":[{}]}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			w, target, seen := restarted(t)
			take(w)
			seen()
			if report := w.intents(target, allKinds); len(report.Writes) != 1 || report.Writes[0].Kind != pod.Kind {
				t.Errorf("wrote %+v", report.Writes)
			}
			seen()
			w.start()
			w.wire.take()
			w.intents(target, allKinds)
			w.expectSent()
		})
	}
}

// One object that was applied with the same fields as another does not speak for it:
// each primary has children of its own.
func TestChildrenOfOtherPrimariesAreKeptApart(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one", "two")
	services := []string{strings.Replace(serviceObject, "svc", "one", 1), strings.Replace(serviceObject, "svc", "two", 1)}
	for i := range p {
		p[i].Controller = controller(list(service), nil)
		w.intents(p[i], apply("%s", services[i]))
	}
	w.edit(service, "two", "", `{"spec":{"selector":{"app":"theirs"}}}`)
	w.seen(service, "one")
	w.seen(service, "two")
	w.start()
	w.wire.take()
	for i, want := range []string{"", "PATCH"} {
		w.intents(p[i], apply("%s", services[i]))
		if got := w.wire.methods(); got != want {
			t.Errorf("for %s sent %q", p[i].Object.Name, got)
		}
	}
}

func TestApplyAfterARestartRemovesFieldsThatLeftTheIntent(t *testing.T) {
	w, target, _ := restarted(t)
	for _, less := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`,
		`{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"part"},"spec":{"size":3}}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"main","image":"web:1","resources":{"requests":{"cpu":"1000m"}},"ports":[{"containerPort":80}],"args":["a","b"]}]}}`,
	} {
		if report := w.intents(target, apply("%s", less)); len(report.Writes) != 1 {
			t.Errorf("wrote %+v for %s", report.Writes, less)
		}
	}
	if c, part, web := w.live(configMap, "c"), w.live(widget, "part"), w.live(pod, "web"); field(c, "data") != "" || field(part, "spec", "tags") != "" || len(web.Labels) != 0 {
		t.Errorf("left\n%s\n%s\n%s", c.Raw, part.Raw, web.Raw)
	}
}

func TestApplyAfterARestartUndoesChangesOfItsFields(t *testing.T) {
	for name, c := range map[string]struct {
		resource object.Resource
		name     string
		edit     string
		undone   bool
	}{
		"a wanted value":                    {configMap, "c", `{"data":{"k":"theirs"}}`, true},
		"a value beside defaults":           {pod, "web", `{"metadata":{"labels":{"app":"theirs"}}}`, true},
		"an addition to an atomic map":      {service, "svc", `{"spec":{"selector":{"theirs":"1"}}}`, true},
		"an addition to an atomic list":     {widget, "part", `{"spec":{"parts":[{"a":"1","b":"theirs"}]}}`, true},
		"a removed field":                   {widget, "part", `{"spec":{"size":null}}`, true},
		"the annotation":                    {configMap, "c", `{"metadata":{"annotations":{"thole.dev/applied":"theirs"}}}`, true},
		"a field that is not in the intent": {deployment, "d", `{"spec":{"paused":true}}`, false},
		"a label that is not in the intent": {pod, "web", `{"metadata":{"labels":{"theirs":"1"}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, target, seen := restarted(t)
			w.edit(c.resource, c.name, "", c.edit)
			seen()
			report := w.intents(target, allKinds)
			if wrote := len(report.Writes) == 1; wrote != c.undone {
				t.Fatalf("wrote %+v, want a write: %v", report.Writes, c.undone)
			}
			undone := !strings.Contains(string(w.live(c.resource, c.name).Raw), "theirs") && !strings.Contains(c.edit, "paused")
			if undone != c.undone {
				t.Errorf("undone is %v: %s", undone, w.live(c.resource, c.name).Raw)
			}
		})
	}
}

// What a webhook changes counts as wanted. Otherwise the host and the webhook
// would undo each other's changes for ever.
func TestChangesOfAWebhookAreNotUndone(t *testing.T) {
	w := newCluster(t)
	var calls atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body)
		uid, _ := rawjson.Lookup(body, "request", "uid")
		stamp := fmt.Sprintf(`[{"op":"add","path":"/data/stamp","value":"%d"},{"op":"replace","path":"/data/k","value":"webhook"}]`, calls.Add(1))
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%s,"allowed":true,"patchType":"JSONPatch","patch":%q}}`,
			uid, base64.StdEncoding.EncodeToString([]byte(stamp)))
	}))
	defer server.Close()
	server.TLS.MinVersion = tls.VersionTLS12
	ca, _ := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	name := "stamp-" + w.ns
	w.create(webhook, fmt.Sprintf(`{"metadata":{"name":%[1]q},"webhooks":[{"name":"stamp.test.thole.dev","sideEffects":"None","admissionReviewVersions":["v1"],
"clientConfig":{"url":%[2]q,"caBundle":%[3]s},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE","UPDATE"]}],
"objectSelector":{"matchLabels":{"stamped":%[1]q}}}]}`, name, server.URL, ca))
	defer w.remove(webhook, name)

	target := w.owner(list(configMap), nil)
	var in *abi.Result
	attempts := 0
	w.until("the webhook is called", func() bool {
		w.start()
		// What was applied before the API server knew of the webhook is not applied again.
		attempts++
		in = apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"stamped":%q}},"data":{"k":"guest %d"}}`, name, attempts)
		w.intents(target, in)
		return field(w.seen(configMap, "c"), "data", "stamp") != ""
	})
	w.wire.take()
	for range 3 {
		w.intents(target, in)
		w.seen(configMap, "c")
	}
	w.expectSent()

	w.start()
	for range 3 {
		w.intents(target, in)
		w.seen(configMap, "c")
	}
	w.expectSent()
}

func TestFieldSetOwnsOnlyWhatItContains(t *testing.T) {
	const fields = `{"f:metadata":{"f:labels":{"f:a":{}},"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}},
"f:spec":{"f:atomic":{},"f:set":{"v:\"x\"":{},"v:2":{}},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:name":{}}},"f:empty":{}}}`
	for value, want := range map[string]bool{
		`{"metadata":{"labels":{"a":"1"}}}`:                              true,
		`{"metadata":{"labels":{"a":"1","b":"2"}}}`:                      false,
		`{"metadata":{"ownerReferences":[{"uid":"u","name":"any"}]}}`:    true,
		`{"metadata":{"ownerReferences":[{"uid":"u"},{"uid":"v"}]}}`:     false,
		`{"spec":{"atomic":[{"any":["thing"]}]}}`:                        true,
		`{"spec":{"set":["x",2]}}`:                                       true,
		`{"spec":{"set":["x","2"]}}`:                                     false,
		`{"spec":{"ports":[{"port":80,"name":"n"}]}}`:                    true,
		`{"spec":{"ports":[{"port":80,"name":"n","protocol":"UDP"}]}}`:   false,
		`{"spec":{"ports":[{"port":80,"name":"n","target":1}]}}`:         false,
		`{"spec":{"ports":[{"port":81}]}}`:                               false,
		`{"spec":{"ports":[{"port":80}, {"port":80,"protocol":"UDP"}]}}`: false,
		`{"spec":{"empty":{}}}`:                                          true,
		`{"spec":{"absent":{}}}`:                                         false,
		`{"spec":{"absent":null}}`:                                       true,
		`{"spec":{"set":"scalar"}}`:                                      false,
		`{"spec":{"ports":[5]}}`:                                         false,
		`{}`:                                                             true,
	} {
		if got := new(comparison).owns([]byte(fields), []byte(value)); got != want {
			t.Errorf("%s: got %v", value, got)
		}
	}
}

// A restore of etcd brings back an older version of an object.
func TestAnOlderVersionIsNotTakenForTheLastApply(t *testing.T) {
	for _, metadataOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("metadata only %v", metadataOnly), func(t *testing.T) {
			w := newCluster(t)
			w.store.metadata = map[abi.Kind]bool{configMap.Kind: metadataOnly}
			target := w.owner(list(configMap), nil)
			w.intents(target, apply(configObject, "v1"))
			w.seen(configMap, "c")
			w.intents(target, apply(configObject, "v2"))
			w.wire.take()
			w.intents(target, apply(configObject, "v2"))
			w.expectSent("PATCH /api/v1/namespaces/" + w.ns + "/configmaps/c?fieldManager=thole%2Fdemo%2Fmain&force=true")
		})
	}
}

// After a restore of etcd a resourceVersion may be that of another content.
func TestForgottenApplyIsComparedWithTheObject(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(configObject, "v0"))
	restored := *w.seen(configMap, "c")
	w.intents(target, apply(configObject, "v1"))
	restored.ResourceVersion = w.live(configMap, "c").ResourceVersion
	w.store.put(&restored)
	w.wire.take()
	w.intents(target, apply(configObject, "v1"))
	w.expectSent()
	w.ForgetAll()
	w.intents(target, apply(configObject, "v1"))
	w.expectSent("PATCH /api/v1/namespaces/" + w.ns + "/configmaps/c?fieldManager=thole%2Fdemo%2Fmain&force=true")
}

// An API server without resourceVersions has the same one for every state.
func TestAnApplyIsComparedWithAnObjectThatHasNoVersion(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	show := func(o object.Object) {
		o.ResourceVersion = ""
		w.store.put(&o)
		w.wire.take()
	}
	w.intents(target, apply(configObject, "v0"))
	changed := *w.seen(configMap, "c")
	w.intents(target, apply(configObject, "v1"))
	show(*w.seen(configMap, "c"))
	w.intents(target, apply(configObject, "v1"))
	w.expectSent()
	show(changed)
	w.intents(target, apply(configObject, "v1"))
	w.expectSent("PATCH /api/v1/namespaces/" + w.ns + "/configmaps/c?fieldManager=thole%2Fdemo%2Fmain&force=true")
}
