//go:build !wasip1

package guest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// register replaces the registered controllers for one test.
func register(t *testing.T, controllers ...*Controller) {
	t.Helper()
	before := plugin
	plugin.name, plugin.version, plugin.managed, plugin.controllers = "", "", false, nil
	t.Cleanup(func() { plugin = before })
	for _, c := range controllers {
		Register(c)
	}
}

func controller(name string) *Controller {
	return &Controller{
		Manifest: &abi.Controller{Name: name, For: abi.Kind{APIVersion: "v1", Kind: "Thing"}.All()},
		Begin:    func() *Run { return begin(name) },
		Warm:     func() error { return nil },
	}
}

// begin returns a run whose result has the object that it was given.
func begin(name string) *Run {
	var read []byte
	return &Run{
		Read: func(object *rawjson.Reader) { read = object.Raw() },
		Reconcile: func(_ Host, q *abi.Request) (abi.Code, *abi.Result) {
			message := name + " got " + string(q.Object)
			if !bytes.Equal(read, q.Object) {
				message += ", and read " + string(read)
			}
			return abi.CodeWaiting, &abi.Result{Error: &abi.Failure{Message: message}}
		},
	}
}

func TestManifestOfSingleControllerHasItsName(t *testing.T) {
	register(t, controller("one"))
	m, err := abi.DecodeManifest(abi.EncodeManifest(Manifest()))
	if err != nil || m.Name != "one" || len(m.Controllers) != 1 {
		t.Errorf("the manifest is %+v, %v", m, err)
	}
	register(t, controller("one"), controller("two"))
	if m := Manifest(); m.Name != "" {
		t.Errorf("two controllers, but the plugin is called %q", m.Name)
	}
	Name("both", "1")
	MemoVersion("2")
	if m := Manifest(); m.Name != "both" || m.Version != "1" || m.MemoVersion != "2" || len(m.Controllers) != 2 {
		t.Errorf("the manifest is %+v", m)
	}
}

func TestReconcileCallsControllerOfRequest(t *testing.T) {
	register(t, controller("one"), controller("two"))
	for request, want := range map[string]string{
		string(abi.EncodeRequest(&abi.Request{Controller: "two", Object: []byte(`{}`)})):   "two got {}",
		string(abi.EncodeRequest(&abi.Request{Controller: "three", Object: []byte(`{}`)})): `no controller "three"`,
		`{"object":{"a":1},"controller":"one"}`:                                            `one got {"a":1}`, // no host writes this order
		`{"controller":"one"}`:                                                             "one got ",
		`{"controller":"one","object":null}`:                                               "one got ",
		`{`:                                                                                "read request: ",
	} {
		code, text := Reconcile(nil, []byte(request))
		out, err := abi.DecodeResult(text)
		if err != nil || code == abi.CodeOK || out.Error == nil || !strings.Contains(out.Error.Message, want) {
			t.Errorf("%s: returned %d %s, expected %q", request, code, text, want)
		}
	}
}

func TestWarmErrorNamesController(t *testing.T) {
	bad := controller("bad")
	bad.Warm = func() error { return errors.New("no such type") }
	register(t, controller("good"), bad)
	if err := Warm(); err == nil || err.Error() != `controller "bad": no such type` {
		t.Errorf("the error is %v", err)
	}
}
