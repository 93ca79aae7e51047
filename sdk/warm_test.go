package sdk

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// versionOf returns a version with types that are warmed.
func versionOf[Spec, Status any](name string) VersionOf[parts, parts] {
	return Version(name,
		func(*Object[Spec, Status], *Object[parts, parts]) error { return nil },
		func(*Object[parts, parts], *Object[Spec, Status]) error { return nil })
}

// TestTypesOfVersionsAreWarmed: what a codec computes about them becomes part of the image.
func TestTypesOfVersionsAreWarmed(t *testing.T) {
	if err := versionOf[parts, parts]("v2").warm(); err != nil {
		t.Error(err)
	}
	if versionOf[chan int, parts]("v2").warm() == nil || versionOf[parts, chan int]("v2").warm() == nil {
		t.Error("a channel is encoded")
	}
	c := &abi.Controller{Name: "warm", For: Kind{APIVersion: "example.com/v1", Kind: "Warm"}.All()}
	var w webhooks.Webhooks
	Convert(versionOf[parts, parts]("v2")).register(c, &w)
	if err := guest.Warm(); err != nil || !w.Convert {
		t.Errorf("%+v, %v", w, err)
	}
	Convert(versionOf[parts, parts]("v2"), versionOf[chan int, parts]("v3")).register(c, &w)
	if err := guest.Warm(); err == nil || !strings.HasPrefix(err.Error(), `controller "warm": `) {
		t.Errorf("the error is %v", err)
	}
}
