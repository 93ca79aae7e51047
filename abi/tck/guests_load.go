package tck

import (
	"bytes"

	"github.com/thole-dev/thole/abi"
)

// This file has guests that a host must refuse to load: not a module, against
// the contract, or failing before the first reconcile.

func loadCases() []Case {
	return []Case{
		file("not-wasm", "the file is YAML", []byte("apiVersion: v1\nkind: ConfigMap\n")),
		refused("component", "a component of the component model, as a build for wasip2 is", func(*guest) []byte {
			return []byte("\x00asm\x0d\x00\x01\x00")
		}, "component"),
		file("empty-file", "the file is empty, as it is at the begin of a copy", nil),
		file("count-bomb", "ten bytes that claim four billion functions", []byte("\x00asm\x01\x00\x00\x00\x03\x06\xff\xff\xff\xff\x0f\x00")),
		refused("truncated", "the second half of the file is missing", func(g *guest) []byte {
			wasm := correct(g)
			return wasm[:len(wasm)/2]
		}),
		refused("missing-marker", "no export states the version of the ABI", func(g *guest) []byte {
			g.exported[abi.ExportMarker] = true
			return g.finish(nil, g.ok())
		}, abi.ExportMarker),
		refused("other-version", "the guest was built for another version of the ABI", func(g *guest) []byte {
			g.export("thole_v2", g.Func(noTypes, noTypes, nil))
			g.exported[abi.ExportMarker] = true
			return g.finish(nil, g.ok())
		}, abi.ExportMarker, "thole_v2"),
		refused("missing-export", "reconcile is not exported", (*guest).finishWithoutReconcile, abi.ExportReconcile),
		refused("wrong-signature", "reconcile takes an i64", func(g *guest) []byte {
			g.export(abi.ExportReconcile, g.Func(i64Only, i32Only, nil, I32Const(0)))
			return g.finishWithoutReconcile()
		}, abi.ExportReconcile),
		refused("wrong-kind", "the export reconcile is a memory", func(g *guest) []byte {
			g.ExportMemory(abi.ExportReconcile)
			return g.finishWithoutReconcile()
		}, abi.ExportReconcile),
		refused("wrong-import-signature", "log is imported without its level",
			importing(abi.ImportModule, abi.ImportLog, ptrLen), abi.ImportLog),
		refused("unknown-import", "a function of thole/v1 that does not exist",
			importing(abi.ImportModule, "outptu", ptrLen), "outptu"),
		refused("unknown-import-module", "an import from a module that hosts do not provide",
			importing("env", "abort", noTypes), "env", "abort"),
		refused("memory-not-exported", "the host has no access to the guest's memory", func(g *guest) []byte {
			g.Memory(pages)
			return g.finish(nil, g.ok())
		}, abi.ExportMemory),
		refused("huge-memory", "4 GiB of memory from the start", func(g *guest) []byte {
			g.Memory(1 << 16)
			g.ExportMemory(abi.ExportMemory)
			return g.finish(nil, g.ok())
		}, abi.ExportMemory),
		refused("start-traps", "the start function traps", func(g *guest) []byte {
			g.Start(g.Func(noTypes, noTypes, nil, Unreachable))
			return g.finish(nil, g.ok())
		}),
		refused("initialize-traps", "_initialize traps", exporting(abi.ExportInitialize, noTypes, Unreachable), abi.ExportInitialize),
		refused("warm-traps", "warm traps", exporting(abi.ExportWarm, i32Only, Unreachable), abi.ExportWarm),
	}
}

// refused is a case that must not load. The error must mention all the texts.
func refused(name, explain string, build func(g *guest) []byte, mentions ...string) Case {
	return Case{
		Name: name, Stage: StageLoad, Explain: explain, Mentions: mentions,
		Wasm: func() []byte { return build(newGuest(name)) },
	}
}

// file is refused for bytes that are not a whole module.
func file(name, explain string, content []byte) Case {
	return refused(name, explain, func(*guest) []byte { return content })
}

// importing adds an import without results.
func importing(module, function string, params types) func(g *guest) []byte {
	return func(g *guest) []byte {
		g.Import(module, function, params, noTypes)
		return g.finish(nil, g.ok())
	}
}

// exporting adds an export without parameters, with the given body.
func exporting(name string, results types, body ...[]byte) func(g *guest) []byte {
	return func(g *guest) []byte {
		g.export(name, g.Func(noTypes, results, nil, body...))
		return g.finish(nil, g.ok())
	}
}

func manifestCases() []Case {
	const (
		noControllers = "manifest-without-controllers"
		twice         = "manifest-same-controller-twice"
		noKind        = "manifest-without-kind"
		elsewhere     = "manifest-kind-elsewhere"
		unknownField  = "manifest-unknown-field"
		badFactor     = "manifest-retry-factor"
		badPath       = "manifest-index-path"
	)
	misspelt := bytes.Replace(manifest(unknownField), []byte(`"controllers"`), []byte(`"controlers"`), 1)
	return []Case{
		refused("describe-traps", "describe traps", exporting(abi.ExportDescribe, i32Only, Unreachable), abi.ExportDescribe),
		refused("describe-fails", "describe returns a code other than 0", exporting(abi.ExportDescribe, i32Only, I32Const(1)), abi.ExportDescribe),
		refused("describe-without-manifest", "describe returns 0 and has written no manifest",
			exporting(abi.ExportDescribe, i32Only, I32Const(0)), abi.ExportDescribe),
		refused("manifest-not-json", "the manifest is not JSON", describing([]byte("\xff\xfe{")), "manifest"),
		refused(unknownField, "a misspelt field, which would have no effect", describing(misspelt), "manifest", "controlers"),
		refused("manifest-other-name", "the manifest's name is not the plugin's", describing(manifest("other-plugin")), "manifest", "other-plugin"),
		refused(noControllers, "there is no controller", describing(manifestWith(noControllers)), "manifest", "controller"),
		refused(twice, "two controllers have one name, and so one finalizer and the same metrics",
			describing(manifestWith(twice, conformance("twin"), conformance("twin"))), "manifest", "twin"),
		refused(badFactor, "delays that double are 200 percent, not 2",
			describing(retrying(badFactor, abi.Retry{Factor: 2})), "manifest", "retry.factor"),
		refused(badPath, "an index of a field that is no path: it would be empty",
			describing(reading(badPath, "/data/greeting")), "manifest", "indexes[0].field"),
		narrowed("manifest-owns-selector", "a selector of what is owned: the others would be forgotten", func(c *abi.Controller) {
			c.Owns = []abi.Followed{{Kind: c.For.Kind, Selector: abi.Selector{LabelSelector: "a=b"}}}
		}, "owns[0].labelSelector", "managed"),
		refused("manifest-prune-without-owns", "prune without anything that is owned: each result with it would be refused",
			describing(narrow("manifest-prune-without-owns", func(c *abi.Controller) { c.Prune = true })), "manifest", "prune", "owns"),
		narrowed("manifest-metadata-conditions", "conditions of a primary of which only the metadata is followed", func(c *abi.Controller) {
			c.For.MetadataOnly, c.Conditions.Owned = true, []string{"Checked"}
		}, "conditions", "metadataOnly"),
		narrowed("manifest-watch-by", "a watch by something that no host knows: it would run nothing", func(c *abi.Controller) {
			c.Watches = []abi.Watch{{Followed: c.For, By: "guess"}}
		}, "watches[0].by", "guess"),
		narrowed("manifest-same-watch-twice", "two watches of a kind by the same key", func(c *abi.Controller) {
			w := abi.Watch{Followed: c.For, By: abi.WatchByLabel, Key: "a"}
			c.Watches = []abi.Watch{w, w}
		}, "watches[1]"),
		refused(noKind, "a controller for no kind",
			describing(manifestWith(noKind, abi.Controller{Name: controller, For: abi.Kind{APIVersion: "v1"}.All()})), "manifest", "kind"),
		refused(elsewhere, "a kind whose version leads to another path of the API server",
			describing(manifestWith(elsewhere, abi.Controller{Name: controller, For: abi.Kind{APIVersion: "../metrics", Kind: "Metrics"}.All()})), "manifest", "../metrics"),
	}
}

// narrowed is refused for what it follows.
func narrowed(name, explain string, change func(*abi.Controller), mentions ...string) Case {
	return refused(name, explain, describing(narrow(name, change)), append(mentions, "manifest")...)
}

// describing has describe write the given bytes as the manifest.
func describing(manifest []byte) func(g *guest) []byte {
	return func(g *guest) []byte {
		g.manifest = manifest
		return g.finish(nil, g.ok())
	}
}

// startCases misbehave before the first reconcile: limits hold for every entry
// into a guest.
func startCases() []Case {
	return []Case{
		startCase("start-loops", "the start function never returns", abi.ClassTimeout, infiniteLoop),
		startCase("start-call-tree", "the start function calls the first of sixty functions, each of which calls the next one twice", abi.ClassTimeout,
			func(g *guest) []byte { return Call(g.callTree(Call)) }),
		startCase("start-fills", "the start function fills memory five hundred times, without a loop", abi.ClassTimeout, func(g *guest) []byte {
			return join(g.growsToHuge(), repeated(500, fillsHuge()), I32Const(0))
		}),
		startCase("start-recursion", "the start function calls itself without end", abi.ClassStackOverflow, deepRecursion),
		startCase("start-memory-bomb", "the start function takes all memory, then traps", abi.ClassOutOfMemory, memoryBomb),
		startCase("start-logs", "the start function logs without end", abi.ClassTimeout, func(g *guest) []byte {
			return g.logsForever(join(I32Const(0), I32Const(64)))
		}),
		startCase("start-exits", "the start function calls proc_exit", abi.ClassPanic, exit),
		loopsIn("initialize-loops", abi.ExportInitialize, StepInitialize, noTypes),
		loopsIn("describe-loops", abi.ExportDescribe, StepDescribe, i32Only),
		loopsIn("warm-loops", abi.ExportWarm, StepWarm, i32Only),
	}
}

// startCase has a start function with the given body, whose result is dropped.
func startCase(name, explain string, class abi.Class, body func(*guest) []byte) Case {
	c := refused(name, explain, func(g *guest) []byte {
		code := body(g)
		g.Start(g.Func(noTypes, noTypes, nil, code, Drop))
		return g.finish(nil, g.ok())
	})
	c.Step, c.Class, c.Limits.MemoryBytes = StepStart, class, hugeBytes
	if class == abi.ClassTimeout {
		c.Limits.Deadline = shortDeadline
	}
	return c
}

// loopsIn has an export that never returns.
func loopsIn(name, export string, step Step, results types) Case {
	body := infiniteLoop(nil)
	if len(results) == 0 {
		body = join(body, Drop)
	}
	c := refused(name, export+" never returns", exporting(export, results, body), export)
	c.Step, c.Class = step, abi.ClassTimeout
	c.Limits = Limits{Deadline: shortDeadline, MemoryBytes: hugeBytes}
	return c
}
