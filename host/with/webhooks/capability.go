package webhooks

import (
	"strings"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/with"
)

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:          contract.Name,
		Check:         contract.Check,
		CheckManifest: contract.CheckManifest,
		Exports:       exports(),
		Title:         "Webhooks",
		Describe:      describe,
	}
}

// exports are the functions that the API server calls by way of the host.
func exports() (all []with.Export) {
	meanings := map[string]string{
		contract.ExportValidate: "allows or denies requests",
		contract.ExportMutate:   "changes objects before they are stored",
		contract.ExportConvert:  "converts objects between versions",
	}
	for _, name := range contract.Exports() {
		all = append(all, with.Export{Name: name, Meaning: meanings[name], Needed: contract.NeededFor(name), Imports: contract.Imports(name)})
	}
	return all
}

// describe describes webhooks such as "validates CREATE, DELETE; converts between versions".
func describe(c *abi.Controller) string {
	var all []string
	of := contract.Of(c)
	for _, r := range []struct {
		verb       string
		operations []contract.Operation
	}{{"validates", of.Validate}, {"mutates", of.Mutate}} {
		var names []string
		for _, o := range r.operations {
			names = append(names, string(o))
		}
		if len(names) > 0 {
			all = append(all, r.verb+" "+strings.Join(names, ", "))
		}
	}
	if of.Convert {
		all = append(all, "converts between versions")
	}
	return strings.Join(all, "; ")
}
