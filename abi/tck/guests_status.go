package tck

import (
	"github.com/thole-dev/thole/abi"
)

// This file has guests that own the status of their primary, or run
// while it is being deleted.

// statusLoadCases are refused for how they ask for that.
func statusLoadCases() []Case {
	of := func(name, explain string, change func(*abi.Controller), mentions ...string) Case {
		return refused(name, explain, describing(narrow(name, change)), append(mentions, "manifest")...)
	}
	return []Case{
		of("manifest-status-owner-unknown", "a status that belongs to somebody whom no host knows", func(c *abi.Controller) {
			c.StatusOwner = "nobody"
		}, "statusOwner", "nobody"),
		of("manifest-status-owner-conditions", "conditions of the host in a status that is the guest's", func(c *abi.Controller) {
			ownsStatus(c)
			c.Conditions.Owned = []string{"Synced"}
		}, "conditions", "statusOwner"),
		of("manifest-status-owner-metadata", "the whole status of an object of which only metadata is followed", func(c *abi.Controller) {
			ownsStatus(c)
			c.For.MetadataOnly = true
		}, "statusOwner", "metadataOnly"),
		of("manifest-applied-unknown", "what was applied at a place that no host knows", func(c *abi.Controller) {
			c.Applied, c.Owns = "configmap", pods(false)
		}, "applied", "configmap"),
		of("manifest-applied-without-owns", "what was applied to objects of which it owns none", func(c *abi.Controller) {
			c.Applied = abi.AppliedMemory
		}, "applied", "owns"),
		of("manifest-applied-metadata", "what was applied compared with objects of which only metadata is followed", func(c *abi.Controller) {
			c.Applied, c.Owns = abi.AppliedMemory, pods(true)
		}, "applied", "metadataOnly"),
		of("manifest-while-deleting-finalizer", "runs without a finalizer, and a finalizer", func(c *abi.Controller) {
			c.WhileDeleting, c.Finalizer = true, true
		}, "whileDeleting", "finalizer"),
	}
}

func pods(metadataOnly bool) []abi.Followed {
	return []abi.Followed{{Kind: abi.Kind{APIVersion: "v1", Kind: "Pod"}, Selector: abi.Selector{MetadataOnly: metadataOnly}}}
}

func ownsStatus(c *abi.Controller) { c.StatusOwner = abi.StatusOwnerGuest }

// statusCases return results of which the owner of the status decides whether they are valid.
func statusCases() []Case {
	const owned, conditions = "status-owner", "status-owner-conditions"
	output := []byte(`{"result":"success","status":{"observedGeneration":3,"conditions":[{"type":"ReplicaFailure","status":"False"}]}}`)
	manifest := func(name string) []byte {
		return narrow(name, func(c *abi.Controller) { c.StatusOwner, c.WhileDeleting = abi.StatusOwnerGuest, true })
	}
	valid := succeeds(owned, "owns the status, and writes conditions and observedGeneration there", 2, output, func(g *guest) []byte {
		g.manifest = manifest(owned)
		return g.finish(nil, g.writes(output), I32Const(int32(abi.CodeOK)))
	})
	invalid := failing(conditions, abi.ClassABI, "owns the status, and returns conditions for the host to write there", func(g *guest) []byte {
		g.manifest = manifest(conditions)
		return g.finish(nil, g.writes([]byte(`{"result":"success","conditions":[{"type":"Ready","status":"True","reason":"A"}]}`)), I32Const(int32(abi.CodeOK)))
	})
	valid.StatusOwner, invalid.StatusOwner = abi.StatusOwnerGuest, abi.StatusOwnerGuest
	return []Case{valid, invalid}
}
