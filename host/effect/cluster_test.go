package effect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/object"
)

// The API server that all tests share, started by the first that needs it.
var shared = sync.OnceValues(devcluster.StartMain)

var started bool

func TestMain(m *testing.M) {
	code := m.Run()
	if started {
		if cluster, err := shared(); err == nil {
			if err := cluster.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if code == 0 {
		if err := await.Success(func() error { return goleak.Find() }); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// newCluster returns a world on the real API server, in a namespace of its
// own.
func newCluster(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server")
	}
	started = true
	cluster, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, cluster.Config, change...)
	w.define()
	ns := w.create(namespace, `{"metadata":{"generateName":"effect-"}}`)
	w.ns = ns.Name
	w.until("the namespace has its service account, which pods need", func() bool { return w.live(serviceAccount, "default") != nil })
	return w
}

// create posts an object; metadata.namespace is the world's.
func (w *world) create(r object.Resource, text string) *object.Object {
	w.Helper()
	raw, err := w.admin.rest.Post().AbsPath(r.Collection(w.ns)...).Body(withKind(w.T, r, text)).Do(w.Context()).Raw()
	if err != nil {
		w.Fatalf("create %s: %v: %s", r.Kind, err, raw)
	}
	o, err := object.Parse(raw, r.Kind)
	if err != nil {
		w.Fatal(err)
	}
	return o
}

func withKind(t *testing.T, r object.Resource, text string) []byte {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	o["apiVersion"], o["kind"] = r.Kind.APIVersion, r.Kind.Kind
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// live returns the object as it is on the server, nil if there is none.
func (w *world) live(r object.Resource, name string) *object.Object {
	w.Helper()
	o, err := w.admin.get(w.Context(), r, w.key(r, name))
	if gone(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return o
}

// seen lets the store show an object as it is on the server.
func (w *world) seen(r object.Resource, name string) *object.Object {
	w.Helper()
	o := w.live(r, name)
	if o == nil {
		w.store.drop(r.Kind, w.key(r, name))
		return nil
	}
	w.store.put(o)
	return o
}

func (w *world) key(r object.Resource, name string) object.Key {
	if !r.Namespaced {
		return object.Key{Name: name}
	}
	return object.Key{Namespace: w.ns, Name: name}
}

// edit merge patches an object as somebody else; sub is "" or "status".
func (w *world) edit(r object.Resource, name, sub, body string) *object.Object {
	w.Helper()
	o, err := w.admin.patch(w.Context(), r, w.key(r, name), patch{
		mediaType: mergePatch, manager: "somebody", status: sub == "status", body: []byte(body),
	})
	if err != nil {
		w.Fatal(err)
	}
	return o
}

// remove deletes an object as somebody else.
func (w *world) remove(r object.Resource, name string) {
	w.Helper()
	if _, err := w.admin.delete(w.Context(), r, w.key(r, name), []byte(`{"gracePeriodSeconds":0}`)); err != nil {
		w.Fatal(err)
	}
}

// intents performs intents and fails the test if they fail.
func (w *world) intents(t Target, in Intents) Report {
	w.Helper()
	report, failure := w.Intents(w.Context(), t, in)
	if failure != nil {
		w.Fatalf("%+v", failure)
	}
	return report
}

// expectSent checks the methods and paths of the requests since the last call.
func (w *world) expectSent(want ...string) []request {
	w.Helper()
	sent := w.wire.take()
	var got []string
	for _, r := range sent {
		got = append(got, r.String())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Fatalf("sent\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	return sent
}
