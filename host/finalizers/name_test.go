package finalizers

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

func TestOwnerIsParsedAndFormatted(t *testing.T) {
	for text, want := range map[string]Owner{
		"demo":      {"demo", ""},
		"demo/main": {"demo", "main"},
		"a-1/b-2":   {"a-1", "b-2"},
		"":          {}, "Demo": {}, "demo.thole.dev": {}, "demo/": {}, "/main": {}, "demo/main/x": {}, "demo/Main": {}, "*": {}, "-A": {},
		strings.Repeat("x", 64): {},
	} {
		got, err := ParseOwner(text)
		if got != want || (err == nil) != (want != Owner{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if err == nil && got.String() != text {
			t.Errorf("%q is formatted as %q", text, got)
		}
	}
}

func TestOwnerOfAFinalizer(t *testing.T) {
	for _, c := range []struct {
		owner, finalizer, controller string
	}{
		{"demo", "demo.thole.dev/main", "main"},
		{"demo/main", "demo.thole.dev/main", "main"},
		{"demo/other", "demo.thole.dev/main", ""},
		{"demo", "demo2.thole.dev/main", ""},
		{"demo", "x.demo.thole.dev/main", ""},
		{"demo", "demo.thole.dev", ""},
		{"demo", "demo.thole.dev/", ""},
		{"demo", "demo.thole.dev/main/x", ""},
		{"demo", "kubernetes.io/pvc-protection", ""},
	} {
		owner, err := ParseOwner(c.owner)
		if err != nil {
			t.Fatal(err)
		}
		if controller, ok := owner.owns(c.finalizer); ok != (c.controller != "") || ok && controller != c.controller {
			t.Errorf("%s owns %s: %q, %v", c.owner, c.finalizer, controller, ok)
		}
	}
}

func TestCommandReleasesTheFinalizersOfAnOwner(t *testing.T) {
	kinds := []abi.Kind{{APIVersion: "example.thole.dev/v1", Kind: "PodManager"}, {APIVersion: "v1", Kind: "Pod"}}
	for want, got := range map[string]string{
		"thole finalizers demo PodManager.v1.example.thole.dev Pod.v1 -A --release": Command(Owner{"demo", ""}, kinds, ""),
		"thole finalizers demo/main -n web --release":                               Command(Owner{"demo", "main"}, nil, "web"),
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
