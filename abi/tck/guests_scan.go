package tck

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/abi/scans"
)

// This file has guests that scan: correct ones, ones that look for what an earlier call has left, and
// ones whose scans fail.

// scanName is that of the scan of the guests.
const scanName = "due"

// ScanRequest returns the message that [Run] calls the export scan with.
func ScanRequest() []byte {
	return scans.EncodeRequest(&scans.Request{Controller: controller, Scan: scanName})
}

// scanned returns a manifest whose controller has scans and what change has set.
func scanned(name string, change func(*abi.Controller)) []byte {
	return narrow(name, func(c *abi.Controller) {
		c.Sections = sectionWith(scans.Scan{Name: scanName, Interval: 1})
		change(c)
	})
}

func sectionWith(all ...scans.Scan) []abi.Section {
	return []abi.Section{{Name: scans.Name, Value: scans.Encode(all)}}
}

// scanLoadCases are refused for how they ask for scans.
func scanLoadCases() []Case {
	const noExport, signature = "scan-without-export", "scan-wrong-signature"
	of := func(name, explain string, all []scans.Scan, mentions ...string) Case {
		return refused(name, explain, describing(scanned(name, func(c *abi.Controller) { c.Sections = sectionWith(all...) })), append(mentions, "manifest")...)
	}
	many := make([]scans.Scan, scans.Max+1)
	for i := range many {
		many[i] = scans.Scan{Name: "scan-" + strconv.Itoa(i), Interval: 1}
	}
	unknown := "manifest-scan-unknown-field"
	return []Case{
		refused(noExport, "has scans, and no export that makes them", describing(scanned(noExport, nothingElse)), "manifest", controller, scans.Export),
		refused(signature, "the export scan takes an i64", func(g *guest) []byte {
			g.manifest = scanned(signature, nothingElse)
			g.export(scans.Export, g.Func(i64Only, i32Only, nil, I32Const(0)))
			return g.finish(nil, g.ok())
		}, scans.Export),
		of("manifest-scan-without-interval", "a scan without an interval", []scans.Scan{{Name: scanName}}, "scans[0].interval"),
		of("manifest-scan-name", "a scan whose name is no DNS label", []scans.Scan{{Name: "Due!", Interval: 1}}, "scans[0].name"),
		of("manifest-scan-twice", "two scans of one name", []scans.Scan{{Name: scanName, Interval: 1}, {Name: scanName, Interval: 2}}, "scans[1].name"),
		of("manifest-scan-too-many", "one scan too many", many, "scans"),
		refused(unknown, "a field of a scan that does not exist", describing(
			bytes.Replace(scanned(unknown, nothingElse), []byte(`"scans":[{`), []byte(`"scans":[{"every":1,`), 1)), "manifest", "scans[0]", "every"),
	}
}

// scanCases make scans.
func scanCases() []Case {
	full := &scans.Result{}
	for i := range scans.MaxObjects {
		full.Objects = append(full.Objects, scans.Object{Namespace: "default", Name: "object-" + strconv.Itoa(i), Signal: []byte("1")})
	}
	one := &scans.Result{Objects: []scans.Object{
		{Namespace: "default", Name: "one", Signal: quoted(abi.MaxSignal)}, {Namespace: "default", Name: "one"}, {Name: "cluster-scoped"},
	}}
	return []Case{
		echoScan(),
		writesScan("scan-nothing", "a scan names nothing, and does not read its request", &scans.Result{}),
		writesScan("scan-objects", "a scan names an object twice, with the largest signal and without one, and one that is cluster-scoped", one),
		writesScan("scan-full", "a scan names as many objects as it may", full),
		failsScan("scan-retry", abi.CodeRetry), failsScan("scan-stalled", abi.CodeStalled), failsScan("scan-waiting", abi.CodeWaiting),
		silentScan(),
		readsScan(),
	}
}

// scanCase is a case whose scans, with the given body, must succeed with a result.
func scanCase(name, explain string, output []byte, scan func(*guest) []byte) Case {
	c := succeeds(name, explain, 2, output, scanning(name, scan))
	c.Scan = true
	return c
}

// scanning is a guest whose scans have the given body, with two locals, and whose reconcile succeeds.
func scanning(name string, scan func(*guest) []byte) func(*guest) []byte {
	return func(g *guest) []byte {
		g.manifest = scanned(name, nothingElse)
		body := scan(g) // may import, and replace the manifest
		g.export(scans.Export, g.Func(i32Only, i32Only, types{i32, i32}, body))
		return g.finish(nil, g.ok())
	}
}

func writesScan(name, explain string, result *scans.Result) Case {
	output := scans.EncodeResult(result)
	return scanCase(name, explain, output, func(g *guest) []byte { return join(g.writes(output), I32Const(0)) })
}

func failsScan(name string, code abi.Code) Case {
	output := scans.EncodeResult(&scans.Result{Error: &abi.Failure{Reason: "Conformance", Message: "failed"}})
	c := scanCase(name, "a scan returns "+strconv.Itoa(int(code))+" with an error", output, func(g *guest) []byte {
		return join(g.writes(output), I32Const(int32(code)))
	})
	c.Code = code
	return c
}

func silentScan() Case {
	c := scanCase("scan-fails-without-result", "a scan returns 1 and has written no result", nil, func(*guest) []byte {
		return I32Const(int32(abi.CodeRetry))
	})
	c.Code = abi.CodeRetry
	return c
}

// echoScan is a guest whose signal is its request.
func echoScan() Case {
	const before, after = `{"objects":[{"namespace":"default","name":"one","signal":`, `}]}`
	c := scanCase("scan", "a scan reads its request and gives it to an object", nil, func(g *guest) []byte {
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
	output := scans.EncodeResult(&scans.Result{})
	return scanCase(name, "get, list and index_get return what they return in a run, and an import with effects -2", output, func(g *guest) []byte {
		g.manifest = scanned(name, func(c *abi.Controller) {
			listsKeys(c)
			c.Sections = append(c.Sections, conformanceSection())
		})
		call := func(function string, message, reply []byte) []byte {
			f := g.Import(abi.ImportModule, function, ptrLen, i64Only)
			return trapIf(g.constant(message), Call(f), I64Const(int64(len(reply))), I64Ne)
		}
		key := getKey(objectEntry().Key)
		listed, _ := List(listObjects())
		found, _ := Import(functionindexes.Import, key)
		body := join(
			call(abi.ImportList, listObjects(), listed),
			call(functionindexes.Import, key, found),
			call(abi.ImportGet, getObject(), []byte(Object)),
			deniesCapabilities(g, http.Import),
			g.writes(output), I32Const(0))
		g.export(functionindexes.Export, g.Func(i32Only, i32Only, nil, Unreachable))
		return body
	})
}

// scanResetCases look for what the scan before, or a run, has left.
func scanResetCases() []Case {
	clean := scans.EncodeResult(&scans.Result{Objects: []scans.Object{{Name: "clean"}}})
	of := func(name, explain string, body func(*guest) []byte) Case {
		c := scanCase("scan-"+name, explain, clean, func(g *guest) []byte {
			g.clean, g.leaked = clean, scans.EncodeResult(&scans.Result{Objects: []scans.Object{{Name: "leaked"}}})
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
	with := func(objects ...scans.Object) []byte {
		return scans.EncodeResult(&scans.Result{Objects: objects})
	}
	many := make([]scans.Object, scans.MaxObjects+1)
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
		invalid("long-name", "a name that is one byte too long", with(scans.Object{Name: strings.Repeat("n", abi.MaxName+1)})),
		invalid("long-namespace", "a namespace that is one byte too long", with(scans.Object{Namespace: strings.Repeat("n", abi.MaxName+1), Name: "x"})),
		invalid("too-many", "one object too many", with(many...)),
		invalid("large-signal", "a signal that is one byte too large", with(scans.Object{Name: "x", Signal: quoted(abi.MaxSignal + 1)})),
		invalid("deep-signal", "a signal that is nested too deep", with(scans.Object{Name: "x", Signal: nested})),
		invalid("broken-signal", "a signal that is not UTF-8", []byte("{\"objects\":[{\"name\":\"x\",\"signal\":\"\xff\"}]}")),
	}
}

// failsInScan is a case that loads and whose scans, with the given body, must fail with a class.
func failsInScan(name string, class abi.Class, explain string, scan func(*guest) []byte) Case {
	c := failing(name, class, explain, scanning(name, scan))
	c.Scan = true
	return c
}
