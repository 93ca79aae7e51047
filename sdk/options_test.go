package sdk_test

import (
	"testing"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
	"github.com/thole-dev/thole/sdk/sdktest"
)

func TestAdoptTakesOverUncontrolledObject(t *testing.T) {
	var options []sdk.ApplyOption
	w := world(t, doing(func(r *widget) {
		r.Apply(ConfigMap{TypeMeta: configMap.Type(), Metadata: sdk.ObjectMeta{Name: "theirs"}, Data: map[string]string{"k": "mine"}}, options...)
	}))
	theirs := w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"theirs"},"data":{"k":"theirs"}}`)
	data := func(w *sdktest.World) string {
		var have ConfigMap
		w.Get(theirs, &have)
		return have.Data["k"]
	}

	w.Reconcile(one).ExpectRetry("NotAdopted")
	if got := data(w); got != "theirs" {
		t.Errorf("without Adopt: %s", got)
	}
	options = append(options, sdk.Adopt())
	w.Reconcile(one).ExpectReady()
	if got := data(w); got != "mine" {
		t.Errorf("with Adopt: %s", got)
	}
}

func TestMemoVersionIsInManifest(t *testing.T) {
	if got := guest.Manifest().MemoVersion; got != "" {
		t.Errorf("the default memo version is %q", got)
	}
	sdk.MemoVersion("2")
	defer sdk.MemoVersion("")
	if got := guest.Manifest().MemoVersion; got != "2" {
		t.Errorf("memo version is %q", got)
	}
}

func TestOnlyAReferenceWithControllerIsThatOfTheController(t *testing.T) {
	m := sdk.ObjectMeta{OwnerReferences: []sdk.OwnerReference{{UID: "a"}, {UID: "b", Controller: true}}}
	if c := m.ControllerRef(); c == nil || c.UID != "b" || !m.ControlledBy("b") || m.ControlledBy("a") {
		t.Errorf("the controller is %+v", c)
	}
	if m.OwnerReferences = m.OwnerReferences[:1]; m.ControllerRef() != nil || m.ControlledBy("a") || m.ControlledBy("") {
		t.Error("an object without a controller has one")
	}
}
