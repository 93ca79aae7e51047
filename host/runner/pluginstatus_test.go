package runner

import (
	"testing"

	"github.com/thole-dev/thole/host/catalog"
)

func TestProblem(t *testing.T) {
	for want, p := range map[string]PluginStatus{
		"":                                   {Status: catalog.Status{FailedStep: "verify"}},
		"bro ken":                            {Status: catalog.Status{LastError: "bro\x1bken"}},
		"verify: no marker":                  {Status: catalog.Status{LastError: "no marker", FailedStep: "verify"}},
		"waits for the first list of v1 Pod": {WaitsFor: "the first list of v1 Pod"},
		"it has no stamp; its mail is late":  {Problems: map[string]string{"mail": "its mail is late", "letters": "it has no stamp"}},
		`"u" lacks a right; waits for x`:     {MissingRights: []string{`"u" lacks a right`}, WaitsFor: "x"},
		"late; cannot follow v1 Pod: forbidden; cannot follow v1 Node: gone": {
			Status: catalog.Status{LastError: "late"}, CannotFollow: []string{"v1 Pod: forbidden", "v1 Node: gone"},
		},
	} {
		if got := p.Problem(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
