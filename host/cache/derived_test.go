package cache

import (
	"errors"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
)

func TestDerivedKindIsThatOfItsSource(t *testing.T) {
	deployment := abi.Kind{APIVersion: "apps/v1", Kind: "Deployment"}
	kind := DerivedKind(deployment, "p/x")
	if of, derived := SourceOf(kind); of != deployment || !derived {
		t.Errorf("%s is made of %s, %v", kind, of, derived)
	}
	if of, derived := SourceOf(deployment); of != deployment || derived {
		t.Errorf("%s is made of %s, %v", deployment, of, derived)
	}
	if other := DerivedKind(deployment, "p/y"); other == kind {
		t.Error("two names have one kind")
	}
}

func TestDerivedInformerIsFoundUntilItStops(t *testing.T) {
	c, err := New(Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	source, err := c.Derive(abi.Kind{APIVersion: "v1", Kind: "Pod"}, true)
	if err != nil {
		t.Fatal(err)
	}
	kind := DerivedKind(source.Informer().Kind(), "p/x")
	first, err := source.Informer().Derive("p/x")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Derived(kind); got != first.Informer() || !got.Namespaced() || got.Kind() != kind {
		t.Errorf("%+v", got)
	}
	second, err := source.Informer().Derive("p/x")
	if err != nil {
		t.Fatal(err)
	}
	first.Stop() // another one is in its place
	if c.Derived(kind) != second.Informer() {
		t.Error("the next one is not found")
	}
	if second.Stop(); c.Derived(kind) != nil {
		t.Error("it is found after it has stopped")
	}
	c.Stop()
	if _, err := source.Informer().Derive("p/x"); !errors.Is(err, ErrStopped) {
		t.Errorf("after the cache has stopped: %v", err)
	}
}
