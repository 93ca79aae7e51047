package tck

import (
	"github.com/thole-dev/thole/abi"
)

// This file has guests of the features changes and timers.

// changesLoadCases are refused for how they ask for changes and timers.
func changesLoadCases() []Case {
	of := func(name, explain string, change func(*abi.Controller), mentions ...string) Case {
		return refused(name, explain, describing(narrow(name, change, abi.FeatureChanges, abi.FeatureTimers)), append(mentions, "manifest")...)
	}
	without := func(name, explain string, change func(*abi.Controller), mentions ...string) Case {
		return refused(name, explain, describing(narrow(name, change)), append(mentions, "features", "manifest")...)
	}
	timer := abi.Timer{Name: "probe", Interval: 1000}
	return []Case{
		without("manifest-changes-without-feature", "changes without their feature: a host without it would send none", func(c *abi.Controller) {
			c.Changes = abi.ChangesMemory
		}, "changes"),
		without("manifest-gone-without-feature", "gone without its feature: a host without it would run nothing", func(c *abi.Controller) {
			c.Gone = true
		}, "gone"),
		without("manifest-timers-without-feature", "timers without their feature: a host without it would run nothing", func(c *abi.Controller) {
			c.Timers = []abi.Timer{timer}
		}, "timers"),
		of("manifest-changes-elsewhere", "changes that are kept where no host knows", func(c *abi.Controller) {
			c.Changes = "disk"
		}, "changes", "disk"),
		of("manifest-changes-secret", "the content of Secrets in their annotations", func(c *abi.Controller) {
			c.For, c.Changes = abi.Kind{APIVersion: "v1", Kind: "Secret"}.All(), abi.ChangesAnnotation
		}, "changes", "Secret"),
		of("manifest-timer-twice", "two timers of one name: which one is due?", func(c *abi.Controller) {
			c.Timers = []abi.Timer{timer, timer}
		}, "timers[1]", "probe"),
		of("manifest-timer-without-interval", "a timer that says only what it is called", func(c *abi.Controller) {
			c.Timers = []abi.Timer{{Name: "probe"}}
		}, "timers[0].interval"),
	}
}

// changesCases use every field of the features.
func changesCases() []Case {
	const name = "feature-changes"
	output := abi.EncodeResult(&abi.Result{Error: &abi.Failure{Reason: "Conformance"}, Progress: []byte(`{"dns":1}`)})
	c := succeeds(name, "asks for changes, for objects that are gone, and for a timer, and returns 1 with its progress", 2, output, func(g *guest) []byte {
		g.manifest = narrow(name, func(c *abi.Controller) {
			c.Changes, c.Gone = abi.ChangesAnnotation, true
			c.Timers = []abi.Timer{{Name: "probe", Interval: 1, InitialDelay: 1, Idle: 1, Sharp: true}}
		}, abi.FeatureChanges, abi.FeatureTimers)
		return g.finish(nil, g.writes(output), I32Const(int32(abi.CodeRetry)))
	})
	c.Code = abi.CodeRetry
	return []Case{c}
}
