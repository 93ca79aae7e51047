package tck

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/changes"
)

// This file has guests that ask for changes.

// inMode returns the sections of a controller with changes.
func inMode(mode changes.Mode) []abi.Section {
	return []abi.Section{{Name: changes.Name, Value: mode.Encode()}}
}

// changesLoadCases are refused for how they ask for changes.
func changesLoadCases() []Case {
	of := func(name, explain string, change func(*abi.Controller), mentions ...string) Case {
		return refused(name, explain, describing(narrow(name, change)), append(mentions, "manifest")...)
	}
	return []Case{
		of("manifest-changes-elsewhere", "changes that are kept where no host knows", func(c *abi.Controller) {
			c.Sections = inMode("disk")
		}, "changes", "disk"),
		of("manifest-changes-secret", "the content of Secrets in their annotations", func(c *abi.Controller) {
			c.For, c.Sections = abi.Kind{APIVersion: "v1", Kind: "Secret"}.All(), inMode(changes.Annotation)
		}, "changes", "Secret"),
	}
}

// changesCases use every field that is about changes.
func changesCases() []Case {
	const name = "changes"
	output := abi.EncodeResult(&abi.Result{Error: &abi.Failure{Reason: "Conformance"}, Sections: []abi.Section{
		{Name: changes.Name, Value: (&changes.Result{Progress: []byte(`{"dns":1}`)}).Encode()},
	}})
	c := succeeds(name, "asks for changes, and for objects that are gone, and returns 1 with its progress", 2, output, func(g *guest) []byte {
		g.manifest = narrow(name, func(c *abi.Controller) {
			c.Sections, c.Gone = inMode(changes.Annotation), true
		})
		return g.finish(nil, g.writes(output), I32Const(int32(abi.CodeRetry)))
	})
	c.Code = abi.CodeRetry
	return []Case{c}
}
