package webhooks

import (
	"strings"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/with"
)

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:          contract.Name,
		Check:         contract.Check,
		CheckManifest: contract.CheckManifest,
		Exports:       exports(),
		Policy:        func() config.PolicySection { return NewSettings() },
		Config:        func() config.HostSection { return NewHostSettings() },
		Allow:         config.Named{},
		Missing:       missing,
		Rules:         rules,
		Title:         "Webhooks",
		Describe:      describe,
		New:           newCapability,
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

// rules returns what the host needs to tell the API server of the webhooks of a plugin, and of the conversion of its
// kinds. The next revision may have other webhooks: whatever there is one of them, it may write both configurations.
func rules(m *abi.Manifest, resources rights.Resources) (all []rights.Rule) {
	reviews := false
	for _, c := range m.Controllers {
		of := contract.Of(&c)
		reviews = reviews || len(of.Validate)+len(of.Mutate) > 0
		if found, served := resources(c.For.Kind); of.Convert && served {
			all = append(all, rights.Rule{
				Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: found.GVR.GroupResource().String(),
				Verbs: []string{rights.Get, rights.Watch, rights.Patch}, Uses: []string{"get, watch, patch: the conversion between its versions"},
			})
		}
	}
	if !reviews {
		return all
	}
	for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		all = append([]rights.Rule{{
			Group: "admissionregistration.k8s.io", Resource: resource, Name: ConfigurationName(m.Name),
			Verbs: []string{rights.Get, rights.Create, rights.Patch, rights.Delete}, Uses: []string{"get, create, patch, delete: the webhooks of the plugin"},
		}}, all...)
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
