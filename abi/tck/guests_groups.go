package tck

import (
	"fmt"

	"github.com/thole-dev/thole/abi"
)

// This file has guests that return groups of intents, and list what their
// object owns.

// groupsCases use every field of a group, and every value of ownedBy.
func groupsCases() []Case {
	const grouped = "children-groups"
	output := abi.EncodeResult(&abi.Result{
		Result: abi.OutcomeSuccess,
		Events: []abi.Event{{Type: abi.EventNormal, Reason: "Conformance", Group: "pods"}},
		Groups: []abi.Group{{Name: "pods", Condition: "Available"}, {Name: "services"}},
	})
	lists := func(name, explain string, owner abi.OwnedBy, reply int64) Case {
		call := abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "ConfigMap", OwnedBy: owner})
		return succeeds(name, explain, 2, success(), func(g *guest) []byte {
			g.manifest = reading(name, "")
			return expectCode(abi.ImportList, call, reply)(g)
		})
	}
	none := int64(len(abi.EncodeListReply(&abi.ListReply{})))
	return []Case{
		succeeds(grouped, "returns a group with a condition that its controller owns, and one with none", 2, output, func(g *guest) []byte {
			g.manifest = narrow(grouped, func(c *abi.Controller) { c.Conditions.Owned = []string{"Available"} })
			return g.finish(nil, g.writes(output), I32Const(int32(abi.CodeOK)))
		}),
		lists("list-owned-by-self", "a list of what the object owns has nothing that it does not own", abi.OwnedBySelf, none),
		lists("list-owned-by-invalid", "a list of what somebody else owns returns -5", "others", abi.CodeInvalid),
	}
}

// hostileGroupsCases return groups that a host must refuse.
func hostileGroupsCases() []Case {
	invalid := func(name, explain, fields string) Case {
		return fails("result-"+name, abi.ClassABI, "writes a result "+explain,
			func(g *guest) []byte {
				return join(g.writes(fmt.Appendf(nil, `{"result":"success",%s}`, fields)), I32Const(0))
			})
	}
	return []Case{
		invalid("group-twice", "with two groups of one name: which condition tells of it?", `"groups":[{"name":"pods"},{"name":"pods","condition":"Available"}]`),
		invalid("group-nameless", "with a group that has no name", `"groups":[{"condition":"Available"}]`),
		invalid("group-path", "with a group whose name is a path", `"groups":[{"name":"../pods"}]`),
		invalid("group-condition-text", "with a group whose condition is a sentence", `"groups":[{"name":"pods","condition":"is available"}]`),
		invalid("group-unknown-field", "with an unknown field in a group", `"groups":[{"name":"pods","retry":true}]`),
		invalid("group-of-apply", "with an apply in a group whose name is no DNS label", `"apply":[{"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}},"group":"A B"}]`),
		invalid("group-of-delete", "with a delete in a group whose name is no DNS label", `"delete":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","group":"A B"}]`),
		invalid("group-of-event", "with an Event in a group whose name is no DNS label", `"events":[{"type":"Normal","reason":"A","group":"A B"}]`),
	}
}
