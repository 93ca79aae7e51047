package rights

import (
	"testing"

	"github.com/thole-dev/thole/abi"
)

func TestRulesOfEventsFromOutside(t *testing.T) {
	m := &abi.Manifest{Controllers: []abi.Controller{{For: widget.All()}, {For: widget.All(), Receives: []abi.Receive{{Type: "a"}}}}}
	expectRules(t, "receives", ReceiveRules(m), "authentication.k8s.io/tokenreviews create", "authorization.k8s.io/subjectaccessreviews create")
	m.Controllers[1].Receives = nil
	expectRules(t, "without", ReceiveRules(m))
}
