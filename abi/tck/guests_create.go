package tck

import (
	"fmt"

	"github.com/thole-dev/thole/abi"
)

// This file has guests whose results create, replace and delete with options.

// createIntents returns a result with an apply and a delete that have these members beside
// their object.
func createIntents(apply, deleted string) []byte {
	return fmt.Appendf(nil, `{"result":"success","apply":[{"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}%s}],`+
		`"delete":[{"apiVersion":"v1","kind":"ConfigMap","name":"d"%s}]}`, apply, deleted)
}

func createCase(name, explain string, result []byte) Case {
	return succeeds(name, explain, 1, result, func(g *guest) []byte {
		g.manifest = abi.EncodeManifest(&abi.Manifest{
			Name: name, Controllers: []abi.Controller{conformance(controller)},
		})
		return g.finish(nil, g.writes(result), I32Const(0))
	})
}

func createCases() []Case {
	return []Case{
		createCase("children-create", "an apply only creates, and a delete is in the foreground, of one version and at once",
			createIntents(`,"create":true`, `,"propagation":"Foreground","gracePeriodSeconds":0,"resourceVersion":"7"`)),
		createCase("children-replace", "an apply replaces and may adopt, and a delete leaves orphans",
			createIntents(`,"adopt":true,"replace":true`, `,"propagation":"Orphan"`)),
	}
}

// createResultCases return 0 with such results that a host must refuse.
func createResultCases() []Case {
	invalid := func(name, explain, apply, deleted string) Case {
		return fails("result-"+name, abi.ClassABI, "writes a result "+explain,
			func(g *guest) []byte { return join(g.writes(createIntents(apply, deleted)), I32Const(0)) })
	}
	return []Case{
		invalid("create-adopt", "with an apply that only creates, and adopts", `,"create":true,"adopt":true`, ""),
		invalid("create-replace", "with an apply that only creates, and replaces", `,"create":true,"replace":true`, ""),
		invalid("create-text", "with an apply whose create is a string", `,"create":"true"`, ""),
		invalid("propagation-unknown", "with a delete whose propagation does not exist", "", `,"propagation":"background"`),
		invalid("grace-negative", "with a delete that leaves a negative time", "", `,"gracePeriodSeconds":-1`),
		invalid("grace-large", "with a delete that leaves more seconds than 64 bits have", "", `,"gracePeriodSeconds":9223372036854775808`),
		invalid("version-long", "with a delete of a version that is too long", "", fmt.Sprintf(`,"resourceVersion":"%0*d"`, abi.MaxName+1, 0)),
	}
}
