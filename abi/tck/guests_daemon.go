package tck

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/http"
)

// This file has guests with a daemon: correct ones, ones that look for what an earlier step or
// run has left, and ones whose steps fail.

// DaemonRequest returns the message that [Run] calls the export daemon with: that of a first step.
func DaemonRequest() []byte { return daemonRequest("default", false) }

// daemonRequest returns [DaemonRequest] for an object in a namespace, or that of its last step.
func daemonRequest(namespace string, last bool) []byte {
	q := &daemon.Request{Controller: controller, Object: objectIn(namespace), Events: []daemon.Event{daemon.Start}}
	if last {
		q.Events, q.State = []daemon.Event{daemon.Stop}, []byte(`{"steps":1}`)
	}
	return daemon.EncodeRequest(q)
}

// watched returns a manifest whose controller has a daemon and what change has set.
func watched(name string, change func(*abi.Controller)) []byte {
	return narrow(name, func(c *abi.Controller) {
		c.Finalizer, c.Sections = true, sectionOf(daemon.Daemon{})
		change(c)
	})
}

func sectionOf(d daemon.Daemon) []abi.Section {
	return []abi.Section{{Name: daemon.Name, Value: daemon.Encode(&d)}}
}

func nothingElse(*abi.Controller) {}

// daemonLoadCases are refused for how they ask for a daemon.
func daemonLoadCases() []Case {
	const noExport, signature = "daemon-without-export", "daemon-wrong-signature"
	of := func(name, explain string, change func(*abi.Controller), mentions ...string) Case {
		return refused(name, explain, describing(watched(name, change)), append(mentions, "manifest")...)
	}
	unknown := "manifest-daemon-unknown-field"
	return []Case{
		refused(noExport, "asks for a daemon, and has no export that makes its steps", describing(watched(noExport, nothingElse)), "manifest", controller, daemon.Export),
		refused(signature, "the export daemon takes an i64", func(g *guest) []byte {
			g.manifest = watched(signature, nothingElse)
			g.export(daemon.Export, g.Func(i64Only, i32Only, nil, I32Const(0)))
			return g.finish(nil, g.ok())
		}, daemon.Export),
		of("manifest-daemon-without-finalizer", "a daemon without a finalizer: the object would be gone before its daemon is stopped", func(c *abi.Controller) {
			c.Finalizer = false
		}, "daemon", "finalizer"),
		of("manifest-daemon-long-selector", "a label selector that is one byte too long", func(c *abi.Controller) {
			c.Sections = sectionOf(daemon.Daemon{LabelSelector: strings.Repeat("a", abi.MaxSelector+1)})
		}, "daemon.labelSelector"),
		refused(unknown, "a field of daemon that does not exist", describing(
			bytes.Replace(watched(unknown, nothingElse), []byte(`"daemon":{`), []byte(`"daemon":{"interval":1`), 1)), "manifest", "daemon", "interval"),
	}
}

// daemonCases make steps.
func daemonCases() []Case {
	full := &daemon.Result{State: quoted(daemon.MaxState)}
	for range abi.MaxSignals {
		full.Signals = append(full.Signals, quoted(abi.MaxSignal))
	}
	last := steps("daemon-denied", "in the last step every capability returns -2", []byte("{}"), func(g *guest) []byte {
		return g.mayRead(deniesCapabilities(g, http.Import), capabilitiesDenied(g))
	})
	last.Last = true
	return []Case{
		echoStep(),
		writesStep("daemon-no-op", "a step waits for nothing, and does not read its request", &daemon.Result{}),
		writesStep("daemon-ends", "a step gives a signal and ends the daemon", &daemon.Result{End: true, Signals: [][]byte{quoted(2)}}),
		writesStep("daemon-full", "a step gives as many and as large signals as it may, and keeps the largest state", full),
		failsStep("daemon-retry", abi.CodeRetry, "a step returns 1 with an error"),
		failsStep("daemon-stalled", abi.CodeStalled, "a step returns 2 with an error"),
		failsStep("daemon-waiting", abi.CodeWaiting, "a step returns 3 with an error"),
		silentStep(),
		readsStep(),
		last,
	}
}

// quoted returns a string as JSON that has that many bytes.
func quoted(size int) []byte { return fmt.Appendf(nil, "%q", strings.Repeat("x", size-2)) }

// steps is a case whose steps, with the given body, must succeed with a result.
func steps(name, explain string, output []byte, step func(*guest) []byte) Case {
	c := succeeds(name, explain, 2, output, stepping(name, step))
	c.Daemon = true
	return c
}

// stepping is a guest whose daemon has the given body, with two locals, and whose reconcile
// succeeds.
func stepping(name string, step func(*guest) []byte) func(*guest) []byte {
	return func(g *guest) []byte {
		g.manifest = watched(name, nothingElse)
		body := step(g) // may import, and replace the manifest
		g.export(daemon.Export, g.Func(i32Only, i32Only, types{i32, i32}, body))
		return g.finish(nil, g.ok())
	}
}

func writesStep(name, explain string, result *daemon.Result) Case {
	output := daemon.EncodeResult(result)
	return steps(name, explain, output, func(g *guest) []byte {
		return join(g.writes(output), I32Const(0))
	})
}

func failsStep(name string, code abi.Code, explain string) Case {
	output := daemon.EncodeResult(&daemon.Result{Error: &abi.Failure{Reason: "Conformance", Message: explain}})
	c := steps(name, explain, output, func(g *guest) []byte {
		return join(g.writes(output), I32Const(int32(code)))
	})
	c.Code = code
	return c
}

func silentStep() Case {
	c := steps("daemon-fails-without-result", "a step returns 1 and has written no result", nil, func(*guest) []byte {
		return I32Const(int32(abi.CodeRetry))
	})
	c.Code = abi.CodeRetry
	return c
}

// echoStep is a guest whose manifest and results have every field of a daemon.
func echoStep() Case {
	const name = "daemon"
	const before, after = `{"wait":{"after":1,"object":true,"reads":true},"signals":[{"reachable":false},null],"state":`, `}`
	c := steps(name, "a step reads its request, keeps it as the state, waits for everything and gives two signals", nil, func(g *guest) []byte {
		g.manifest = watched(name, func(c *abi.Controller) {
			c.Sections = sectionOf(daemon.Daemon{LabelSelector: "thole.dev/conformance in (a,b)", Timeout: 1, Grace: 1})
		})
		return join(
			I32Const(scratch), LocalGet(0), Call(g.input),
			g.writes([]byte(before)), I32Const(scratch), LocalGet(0), Call(g.output), g.writes([]byte(after)),
			I32Const(0))
	})
	c.Output = func(request []byte) []byte { return join([]byte(before), request, []byte(after)) }
	return c
}

// readsStep is a guest whose steps call every capability, and keep what get returns.
func readsStep() Case {
	const open, end = `{"state":`, `}`
	return steps("daemon-reads", "capabilities return in a step what they return in a run", []byte(open+Object+end), func(g *guest) []byte {
		call := func(function string, message, reply []byte) []byte {
			f := g.Import(abi.ImportModule, function, ptrLen, i64Only)
			return trapIf(g.constant(message), Call(f), I64Const(int64(len(reply))), I64Ne)
		}
		key := getKey(objectEntry().Key)
		listed, _ := List(listObjects())
		found, _ := Import(functionindexes.Import, key)
		sent, _ := Import(http.Import, putCall(nil))
		return g.mayRead(
			call(http.Import, putCall(nil), sent),
			call(abi.ImportList, listObjects(), listed),
			call(functionindexes.Import, key, found),
			call(abi.ImportGet, getObject(), []byte(Object)),
			I32Const(scratch), I32Const(int32(len(Object))), Call(g.input),
			g.writes([]byte(open)), I32Const(scratch), I32Const(int32(len(Object))), Call(g.output), g.writes([]byte(end)),
			I32Const(0))
	})
}

// mayRead returns the body, which has imported what it needs, of a step whose controller reads
// ConfigMaps, has an index of them by keys, and sends requests.
func (g *guest) mayRead(body ...[]byte) []byte {
	g.manifest = watched(g.name, func(c *abi.Controller) {
		listsKeys(c)
		c.Sections = append(c.Sections, conformanceSection())
	})
	g.export(functionindexes.Export, g.Func(i32Only, i32Only, nil, Unreachable))
	return join(body...)
}

// daemonResetCases look for what the step before, or a run, has left.
func daemonResetCases() []Case {
	foundNothing := []byte(`{"state":{"steps":1}}`)
	of := func(name, explain string, body func(*guest) []byte) Case {
		c := steps("daemon-"+name, explain, foundNothing, func(g *guest) []byte {
			g.clean, g.leaked = foundNothing, []byte(`{"state":{"steps":2}}`)
			return join(body(g), I32Const(0))
		})
		c.Calls = 4
		return c
	}
	beside := of("reset-beside-runs", "a step counts in the same memory and global as reconcile, which is called before each step", func(g *guest) []byte {
		calls := g.Global(0)
		count := g.Func(noTypes, i32Only, nil,
			GlobalGet(calls), I32Const(scratch), I32Load, I32Add,
			I32Const(1), GlobalSet(calls), I32Const(scratch), I32Const(1), I32Store)
		g.export(abi.ExportReconcile, g.Func(i32Only, i32Only, nil,
			Call(count), If, g.writes(leaked()), Else, g.writes(success()), End, I32Const(0)))
		return g.reportsLeak(Call(count))
	})
	beside.Runs = true
	namespaces := calledOften(of("reset-namespaces", "has the mark of standard Go, and counts steps of objects in different namespaces in memory", func(g *guest) []byte {
		g.Custom(standardGo, nil)
		return g.countsAt(scratch)
	}))
	namespaces.Namespaces = true
	return []Case{
		of("reset-global", "counts its steps in a global", resetGlobal),
		of("reset-memory", "counts its steps in memory", func(g *guest) []byte { return g.countsAt(scratch) }),
		of("reset-grown-memory", "grows its memory in every step", resetGrownMemory),
		of("reset-all-memory", "fills all of its free memory in every step", resetAllMemory),
		of("reset-table", "replaces a function in its table", func(g *guest) []byte {
			_, one := g.twoFunctions()
			return g.changesTable(I32Const(0), RefFunc(one), TableSet)
		}),
		beside, namespaces,
	}
}

// hostileDaemonCases have steps that fail. Their reconcile succeeds.
func hostileDaemonCases() []Case {
	invalid := func(name, explain string, result []byte) Case {
		return failsIn("daemon-"+name, abi.ClassABI, "a step writes "+explain, func(g *guest) []byte {
			return join(g.writes(result), I32Const(0))
		})
	}
	with := func(result *daemon.Result) []byte { return daemon.EncodeResult(result) }
	many := &daemon.Result{}
	for range abi.MaxSignals + 1 {
		many.Signals = append(many.Signals, []byte("1"))
	}
	nested := []byte(strings.Repeat("[", abi.MaxDepth) + strings.Repeat("]", abi.MaxDepth))
	loop := failsIn("daemon-loop", abi.ClassTimeout, "a step never returns", infiniteLoop)
	loop.Limits.Deadline = shortDeadline
	loopLast := failsIn("daemon-loop-last", abi.ClassTimeout, "the last step never returns", infiniteLoop)
	loopLast.Limits.Deadline, loopLast.Last = shortDeadline, true
	return []Case{
		loop, loopLast,
		failsIn("daemon-trap", abi.ClassPanic, "a step traps", func(*guest) []byte { return Unreachable }),
		failsIn("daemon-exit", abi.ClassPanic, "a step calls proc_exit", exit),
		failsIn("daemon-recursion", abi.ClassStackOverflow, "a step calls itself without end", deepRecursion),
		failsIn("daemon-memory-bomb", abi.ClassOutOfMemory, "a step grows its memory until the host refuses, then traps", memoryBomb),
		failsIn("daemon-without-result", abi.ClassABI, "a step returns 0 without a result", func(*guest) []byte { return I32Const(0) }),
		failsIn("daemon-unknown-code", abi.ClassABI, "a step returns 4", func(g *guest) []byte { return join(g.writes([]byte("{}")), I32Const(4)) }),
		invalid("not-json", "a result that is not JSON", []byte("\x00garbage")),
		invalid("two-values", "a result followed by another one", []byte("{}{}")),
		invalid("unknown-field", "a field that does not exist", []byte(`{"signal":[1]}`)),
		invalid("state-twice", "two states", []byte(`{"state":1,"state":2}`)),
		invalid("negative-after", "a time in the past", []byte(`{"wait":{"after":-1}}`)),
		invalid("wait-number", "a wait that is a number", []byte(`{"wait":1000}`)),
		invalid("signals-object", "signals that are an object", []byte(`{"signals":{}}`)),
		invalid("too-many-signals", "one signal too many", with(many)),
		invalid("large-signal", "a signal that is one byte too large", with(&daemon.Result{Signals: [][]byte{quoted(abi.MaxSignal + 1)}})),
		invalid("deep-signal", "a signal that is nested too deep", with(&daemon.Result{Signals: [][]byte{nested}})),
		invalid("large-state", "a state that is one byte too large", with(&daemon.Result{State: quoted(daemon.MaxState + 1)})),
		invalid("deep-state", "a state that is nested too deep", with(&daemon.Result{State: nested})),
		invalid("broken-state", "a state that is not UTF-8", []byte("{\"state\":\"\xff\"}")),
	}
}

// failsIn is a case that loads and whose steps, with the given body, must fail with a class.
func failsIn(name string, class abi.Class, explain string, step func(*guest) []byte) Case {
	c := failing(name, class, explain, stepping(name, step))
	c.Daemon = true
	return c
}
