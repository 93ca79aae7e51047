package abi

import "testing"

func TestTheAnnotationsOfCapabilitiesAreReserved(t *testing.T) {
	for name, want := range map[string]bool{
		"site.web.thole.dev/handled": true, "site.web.thole.dev/": true, "web.thole.dev/handled": false, "thole.dev/handled": false,
		"site.web.thole.dev/applied": false, "site.web.thole.dev/applied-1": false, "applied.web.thole.dev/handled": true,
		"site.web.example.com/handled": false, "handled": false, "": false,
	} {
		if got := StateAnnotation(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
		if want && !ReservedAnnotation(name) {
			t.Errorf("a plugin can set %q", name)
		}
	}
}

func TestFinalizersOfTheHostAreReserved(t *testing.T) {
	for name, want := range map[string]bool{
		"web.thole.dev/site": true, "other.thole.dev/": true, "a.web.thole.dev/site": true,
		"thole.dev/site": false, "webthole.dev/site": false, "example.com/web.thole.dev/site": false, "orphan": false, "": false,
	} {
		if got := ReservedFinalizer(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
