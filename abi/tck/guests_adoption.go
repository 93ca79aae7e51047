package tck

import "github.com/thole-dev/thole/abi"

// This file has guests that adopt and release objects. What a host
// does with that is in [AdoptionRules].

func adoptionCases() []Case {
	const name = "children-adoption"
	output := abi.EncodeResult(&abi.Result{
		Result:  abi.OutcomeSuccess,
		Release: []abi.Ref{objectRef()},
		Apply:   []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"free","uid":"u"}}`), Adopt: true}},
	})
	return []Case{
		succeeds(name, "releases an object and adopts another one", 2, output, func(g *guest) []byte {
			g.manifest = narrow(name, func(*abi.Controller) {})
			return g.finish(nil, g.writes(output), I32Const(0))
		}),
	}
}
