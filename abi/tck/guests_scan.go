package tck

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi"
)

// This file has guests that scan: correct ones, ones that look for what an earlier call has left, and
// ones whose scans fail.

// scanName is that of the scan of the guests.
const scanName = "due"

// ScanRequest returns the message that [Run] calls the export scan with.
func ScanRequest() []byte {
	return abi.EncodeScanRequest(&abi.ScanRequest{Controller: controller, Scan: scanName})
}

// scanned returns a manifest whose controller has scans and what change has set.
func scanned(name string, change func(*abi.Controller), features ...string) []byte {
	return narrow(name, func(c *abi.Controller) {
		c.Scans = []abi.Scan{{Name: scanName, Interval: 1}}
		change(c)
	}, append(features, abi.FeatureScans)...)
}

// scanLoadCases are refused for how they ask for scans.
func scanLoadCases() []Case {
	const noExport, signature, noFeature = "scan-without-export", "scan-wrong-signature", "manifest-scan-without-feature"
	of := func(name, explain string, scans []abi.Scan, mentions ...string) Case {
		return refused(name, explain, describing(scanned(name, func(c *abi.Controller) { c.Scans = scans })), append(mentions, "manifest")...)
	}
	many := make([]abi.Scan, abi.MaxScans+1)
	for i := range many {
		many[i] = abi.Scan{Name: "scan-" + strconv.Itoa(i), Interval: 1}
	}
	unknown := "manifest-scan-unknown-field"
	return []Case{
		refused(noExport, "has scans, and no export that makes them", describing(scanned(noExport, nothingElse)), "manifest", controller, abi.ExportScan),
		refused(signature, "the export scan takes an i64", func(g *guest) []byte {
			g.manifest = scanned(signature, nothingElse)
			g.export(abi.ExportScan, g.Func(i64Only, i32Only, nil, I32Const(0)))
			return g.finish(nil, g.ok())
		}, abi.ExportScan),
		refused(noFeature, "a scan without its feature: a host without it would make none", describing(narrow(noFeature, func(c *abi.Controller) {
			c.Scans = []abi.Scan{{Name: scanName, Interval: 1}}
		})), "manifest", "scan", "features"),
		of("manifest-scan-without-interval", "a scan without an interval", []abi.Scan{{Name: scanName}}, "scans[0].interval"),
		of("manifest-scan-name", "a scan whose name is no DNS label", []abi.Scan{{Name: "Due!", Interval: 1}}, "scans[0].name"),
		of("manifest-scan-twice", "two scans of one name", []abi.Scan{{Name: scanName, Interval: 1}, {Name: scanName, Interval: 2}}, "scans[1].name"),
		of("manifest-scan-too-many", "one scan too many", many, "scans"),
		refused(unknown, "a field of a scan that does not exist", describing(
			bytes.Replace(scanned(unknown, nothingElse), []byte(`"scans":[{`), []byte(`"scans":[{"every":1,`), 1)), "manifest", "scans[0]", "every"),
	}
}

// scanCases make scans.
func scanCases() []Case {
	full := &abi.ScanResult{}
	for i := range abi.MaxScanned {
		full.Objects = append(full.Objects, abi.Scanned{Namespace: "default", Name: "object-" + strconv.Itoa(i), Signal: []byte("1")})
	}
	one := &abi.ScanResult{Objects: []abi.Scanned{
		{Namespace: "default", Name: "one", Signal: quoted(abi.MaxSignal)}, {Namespace: "default", Name: "one"}, {Name: "cluster-scoped"},
	}}
	return []Case{
		echoScan(),
		writesScan("scan-nothing", "a scan names nothing, and does not read its request", &abi.ScanResult{}),
		writesScan("scan-objects", "a scan names an object twice, with the largest signal and without one, and one that is cluster-scoped", one),
		writesScan("scan-full", "a scan names as many objects as it may", full),
		failsScan("scan-retry", abi.CodeRetry), failsScan("scan-stalled", abi.CodeStalled), failsScan("scan-waiting", abi.CodeWaiting),
		silentScan(),
		readsScan(),
	}
}

// scans is a case whose scans, with the given body, must succeed with a result.
func scans(name, explain string, output []byte, scan func(*guest) []byte) Case {
	c := succeeds(name, explain, 2, output, scanning(name, scan))
	c.Scan = true
	return c
}

// scanning is a guest whose scans have the given body, with two locals, and whose reconcile succeeds.
func scanning(name string, scan func(*guest) []byte) func(*guest) []byte {
	return func(g *guest) []byte {
		g.manifest = scanned(name, nothingElse)
		body := scan(g) // may import, and replace the manifest
		g.export(abi.ExportScan, g.Func(i32Only, i32Only, types{i32, i32}, body))
		return g.finish(nil, g.ok())
	}
}

func writesScan(name, explain string, result *abi.ScanResult) Case {
	output := abi.EncodeScanResult(result)
	return scans(name, explain, output, func(g *guest) []byte { return join(g.writes(output), I32Const(0)) })
}

func failsScan(name string, code abi.Code) Case {
	output := abi.EncodeScanResult(&abi.ScanResult{Error: &abi.Failure{Reason: "Conformance", Message: "failed"}})
	c := scans(name, "a scan returns "+strconv.Itoa(int(code))+" with an error", output, func(g *guest) []byte {
		return join(g.writes(output), I32Const(int32(code)))
	})
	c.Code = code
	return c
}

func silentScan() Case {
	c := scans("scan-fails-without-result", "a scan returns 1 and has written no result", nil, func(*guest) []byte {
		return I32Const(int32(abi.CodeRetry))
	})
	c.Code = abi.CodeRetry
	return c
}

// echoScan is a guest whose signal is its request.
func echoScan() Case {
	const before, after = `{"objects":[{"namespace":"default","name":"one","signal":`, `}]}`
	c := scans("scan", "a scan reads its request and gives it to an object", nil, func(g *guest) []byte {
		return join(
			readsInput(g),
			g.writes([]byte(before)), I32Const(scratch), LocalGet(0), Call(g.output), g.writes([]byte(after)),
			I32Const(0))
	})
	c.Output = func(request []byte) []byte { return join([]byte(before), request, []byte(after)) }
	return c
}

// readsScan is a guest whose scans call every capability.
func readsScan() Case {
	const name = "scan-reads"
	output := abi.EncodeScanResult(&abi.ScanResult{})
	return scans(name, "get, list and index_get return what they return in a run, and http -2", output, func(g *guest) []byte {
		g.manifest = scanned(name, func(c *abi.Controller) {
			listsKeys(c)
			c.HTTP = []abi.HTTPHost{conformanceHost()}
		}, abi.FeatureIndexes, abi.FeatureHTTP)
		call := func(function string, message, reply []byte) []byte {
			f := g.Import(abi.ImportModule, function, ptrLen, i64Only)
			return trapIf(g.constant(message), Call(f), I64Const(int64(len(reply))), I64Ne)
		}
		key := abi.EncodeIndexGetCall(&abi.IndexGetCall{Index: keysIndex, Key: objectEntry().Key})
		listed, _ := List(listObjects())
		found, _ := IndexGet(key)
		body := join(
			call(abi.ImportList, listObjects(), listed),
			call(abi.ImportIndexGet, key, found),
			call(abi.ImportGet, getObject(), []byte(Object)),
			deniesCapabilities(g, abi.ImportHTTP),
			g.writes(output), I32Const(0))
		g.export(abi.ExportIndex, g.Func(i32Only, i32Only, nil, Unreachable))
		return body
	})
}

// scanResetCases look for what the scan before, or a run, has left.
func scanResetCases() []Case {
	clean := abi.EncodeScanResult(&abi.ScanResult{Objects: []abi.Scanned{{Name: "clean"}}})
	of := func(name, explain string, body func(*guest) []byte) Case {
		c := scans("scan-"+name, explain, clean, func(g *guest) []byte {
			g.clean, g.leaked = clean, abi.EncodeScanResult(&abi.ScanResult{Objects: []abi.Scanned{{Name: "leaked"}}})
			return join(body(g), I32Const(0))
		})
		c.Calls = 4
		return c
	}
	// besideRuns has runs that count in memory, and scans that look for that.
	besideRuns := func(name, explain string, mark bool) Case {
		c := of(name, explain, func(g *guest) []byte {
			if mark {
				g.Custom(standardGo, nil)
			}
			calls := g.Global(0)
			g.export(abi.ExportReconcile, g.Func(i32Only, i32Only, nil,
				I32Const(1), GlobalSet(calls), I32Const(scratch), I32Const(1), I32Store, g.writes(success()), I32Const(0)))
			return g.reportsLeak(GlobalGet(calls), I32Const(scratch), I32Load, I32Add)
		})
		c.Runs = true
		return c
	}
	return []Case{
		of("reset-global", "counts its scans in a global", resetGlobal),
		of("reset-memory", "counts its scans in memory", func(g *guest) []byte { return g.countsAt(scratch) }),
		of("reset-grown-memory", "grows its memory in every scan", resetGrownMemory),
		of("reset-all-memory", "fills all of its free memory in every scan", resetAllMemory),
		of("reset-table", "replaces a function in its table", func(g *guest) []byte {
			_, one := g.twoFunctions()
			return g.changesTable(I32Const(0), RefFunc(one), TableSet)
		}),
		besideRuns("reset-beside-runs", "a scan looks for what reconcile, which is called before each scan, has left in memory and a global", false),
		besideRuns("reset-of-namespaces", "has the mark of standard Go, and a scan looks for what runs of a namespace have left", true),
	}
}

// hostileScanCases have scans that fail. Their reconcile succeeds.
func hostileScanCases() []Case {
	invalid := func(name, explain string, result []byte) Case {
		return failsInScan("scan-"+name, abi.ClassABI, "a scan writes "+explain, func(g *guest) []byte {
			return join(g.writes(result), I32Const(0))
		})
	}
	with := func(objects ...abi.Scanned) []byte {
		return abi.EncodeScanResult(&abi.ScanResult{Objects: objects})
	}
	many := make([]abi.Scanned, abi.MaxScanned+1)
	for i := range many {
		many[i].Name = "x"
	}
	nested := []byte(strings.Repeat("[", abi.MaxDepth) + strings.Repeat("]", abi.MaxDepth))
	loop := failsInScan("scan-loop", abi.ClassTimeout, "a scan never returns", infiniteLoop)
	loop.Limits.Deadline = shortDeadline
	return []Case{
		loop,
		failsInScan("scan-trap", abi.ClassPanic, "a scan traps", func(*guest) []byte { return Unreachable }),
		failsInScan("scan-exit", abi.ClassPanic, "a scan calls proc_exit", exit),
		failsInScan("scan-recursion", abi.ClassStackOverflow, "a scan calls itself without end", deepRecursion),
		failsInScan("scan-memory-bomb", abi.ClassOutOfMemory, "a scan grows its memory until the host refuses, then traps", memoryBomb),
		failsInScan("scan-without-result", abi.ClassABI, "a scan returns 0 without a result", func(*guest) []byte { return I32Const(0) }),
		failsInScan("scan-unknown-code", abi.ClassABI, "a scan returns 4", func(g *guest) []byte { return join(g.writes([]byte("{}")), I32Const(4)) }),
		invalid("not-json", "a result that is not JSON", []byte("\x00garbage")),
		invalid("two-values", "a result followed by another one", []byte("{}{}")),
		invalid("unknown-field", "a field that does not exist", []byte(`{"object":[]}`)),
		invalid("objects-object", "objects that are an object", []byte(`{"objects":{}}`)),
		invalid("without-name", "an object without a name", []byte(`{"objects":[{"namespace":"default"}]}`)),
		invalid("long-name", "a name that is one byte too long", with(abi.Scanned{Name: strings.Repeat("n", abi.MaxName+1)})),
		invalid("long-namespace", "a namespace that is one byte too long", with(abi.Scanned{Namespace: strings.Repeat("n", abi.MaxName+1), Name: "x"})),
		invalid("too-many", "one object too many", with(many...)),
		invalid("large-signal", "a signal that is one byte too large", with(abi.Scanned{Name: "x", Signal: quoted(abi.MaxSignal + 1)})),
		invalid("deep-signal", "a signal that is nested too deep", with(abi.Scanned{Name: "x", Signal: nested})),
		invalid("broken-signal", "a signal that is not UTF-8", []byte("{\"objects\":[{\"name\":\"x\",\"signal\":\"\xff\"}]}")),
	}
}

// failsInScan is a case that loads and whose scans, with the given body, must fail with a class.
func failsInScan(name string, class abi.Class, explain string, scan func(*guest) []byte) Case {
	c := failing(name, class, explain, scanning(name, scan))
	c.Scan = true
	return c
}
