package effect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestApplyOfThePrimaryNeverMakesItItsOwnOwner(t *testing.T) {
	w, target := newFake(t, answer(200, "application/json", primary))
	w.store.put(target.Object)
	target.Controller = controller(list(widget), list(widget))
	w.intents(target, apply(`{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"w","labels":{"x":"1"}}}`))
	sent := w.wire.take()
	if len(sent) != 1 || strings.Contains(sent[0].body, "ownerReferences") || !strings.Contains(sent[0].body, "main.demo.thole.dev/applied") {
		t.Errorf("sent %+v", sent)
	}
}

func TestOneObjectUnderTwoVersionsIsOneObject(t *testing.T) {
	w, target := newFake(t, answer(404, "application/json", `{}`))
	target.Controller = controller(list(widget, widgetV2), nil)
	const of = `{"apiVersion":"test.thole.dev/%s","kind":"Widget","metadata":{"name":"other"}}`
	in := Intents{Apply: slices.Concat(apply(of, "v1").Apply, apply(of, "v2").Apply)}
	_, failure := w.Intents(t.Context(), target, in)
	if failure == nil || failure.Reason != reasonInvalid || !strings.Contains(failure.Message, "named by two intents") {
		t.Errorf("got %+v", failure)
	}
	w.expectSent()
}

// What the host keeps of a run until the next one must not keep the run's
// result, or a reply, in memory.
func TestWhatIsReportedKeepsNothingElse(t *testing.T) {
	text := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"conf","namespace":"default"}}`)
	w, target := newFake(t, answer(404, "application/json", `{"kind":"Status","apiVersion":"v1","code":404,"reason":"NotFound"}`))
	_, failure := w.Intents(t.Context(), target, Intents{Apply: []abi.Apply{{Object: text}}})
	clear(text)
	if want := (abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "conf"}); failure == nil || failure.Ref != want {
		t.Errorf("the failure is about %+q", failure.Ref)
	}

	name := []byte("conf")
	ref := abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: unsafe.String(&name[0], len(name))}
	config := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"conf","namespace":"default","uid":"u7","resourceVersion":"9","ownerReferences":[{"uid":"u1","controller":true}]}}`)
	w, target = newFake(t, answer(200, "application/json", string(config.Raw)))
	w.store.put(config)
	report := w.intents(target, Intents{Delete: []abi.Ref{ref}})
	clear(name)
	clear(config.Raw)
	want := Write{Verb: "delete", Kind: configMap.Kind, Key: object.Key{Namespace: "default", Name: "conf"}, UID: "u7", ResourceVersion: "9"}
	if len(report.Writes) != 1 || report.Writes[0] != want {
		t.Errorf("wrote %+q", report.Writes)
	}
}

// messages keeps messages as they come, as client-go's recorder does to find
// those that are alike.
type messages []string

func (m *messages) Event(_ runtime.Object, _, _, message string) { *m = append(*m, message) }

func TestAnEventKeepsNothingOfTheResult(t *testing.T) {
	var said messages
	w, target := newFake(t, func(http.ResponseWriter, *http.Request) {}, func(c *Config) { c.Recorder = &said })
	message := []byte("half way")
	w.intents(target, Intents{Events: []abi.Event{{Type: "Normal", Reason: "A", Message: unsafe.String(&message[0], len(message))}}})
	clear(message)
	if len(said) != 1 || said[0] != "half way" {
		t.Errorf("said %+q", said)
	}
}

// unreachable is a store that cannot ask what the API server serves.
type unreachable struct{ *store }

func (unreachable) Resource(context.Context, abi.Kind) (object.Resource, error) {
	return object.Resource{}, fmt.Errorf("look up v1 ConfigMap: %w", &url.Error{Op: "Get", URL: "https://10.0.0.1:443/api/v1", Err: io.EOF})
}

func TestAKindThatCannotBeLookedUpIsNotOneThatIsMissing(t *testing.T) {
	w, target := newFake(t, func(http.ResponseWriter, *http.Request) {}, func(c *Config) { c.Store = unreachable{c.Store.(*store)} })
	_, failure := w.Intents(t.Context(), target, apply(configObject, "v"))
	if failure == nil || failure.Reason != reasonUnavailable ||
		!strings.Contains(failure.Message, "10.0.0.1:443 cannot be reached") || !errors.Is(failure, io.EOF) {
		t.Errorf("got %+v", failure)
	}
}
