package rights

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestAStatusOfTheGuestHasToBeAllowed(t *testing.T) {
	served := func(kind abi.Kind) (object.Resource, bool) {
		return object.Resource{Kind: kind, Namespaced: true, Status: true}, true
	}
	reads := Entry{Groups: []string{"apps"}, Kinds: []string{"Deployment"}, Verbs: []string{Get, List, Watch}, Namespaces: []string{Any}}
	patches := Entry{Groups: []string{"apps"}, Kinds: []string{"Deployment/status"}, Verbs: []string{Patch}, Namespaces: []string{Any}}
	for _, c := range []struct {
		owner   abi.StatusOwner
		entries Entries
		missing bool
	}{
		{"", Entries{reads}, false},
		{abi.StatusOwnerGuest, Entries{reads}, true},
		{abi.StatusOwnerGuest, Entries{reads, patches}, false},
	} {
		m := &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: deployment.All(), StatusOwner: c.owner}}}
		if got := c.entries.Suffice(Asked{Manifest: m, Resources: served}); got == c.missing {
			t.Errorf("statusOwner %q: %t with %+v", c.owner, got, c.entries)
		}
		if completed := c.entries.CompletedFor(Asked{Manifest: m, Resources: served}); !completed.Suffice(Asked{Manifest: m, Resources: served}) {
			t.Errorf("statusOwner %q: %+v is not enough", c.owner, completed)
		}
	}
}
