package tck

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/scans"
)

// This file has guests that follow every rule, each for another part of the
// contract: every call must succeed with exactly the expected result.

func okCases() []Case {
	return []Case{
		succeeds("correct", "the smallest guest that follows every rule", 3, success(), correct),
		echoCase(),
		succeeds("all-exports", "has every optional export; the marker and those that the manifest does not name, such as index, daemon and validate, trap and are never called", 2, success(), allExports),
		succeeds("logs", "logs at every level, and an empty message", 1, success(), logs),
		succeeds("nested-calls", "nests ten thousand calls of a small function", 2, success(), func(g *guest) []byte {
			return g.finish(nil, I32Const(10_000), Call(g.nested(nil, nil)), g.ok())
		}),
		failureCode("code-retry", abi.CodeRetry, "returns 1 with an error"),
		failureCode("code-stalled", abi.CodeStalled, "returns 2 with an error"),
		failureCode("code-waiting", abi.CodeWaiting, "returns 3 with an error"),
		retryCase("retry-after", "has a retry, and returns 1 with the time of the next run", abi.Failure{After: 1}),
		retryCase("retry-terminal", "has a retry, and returns 1 with an error that is terminal", abi.Failure{Terminal: true}),
		succeeds("get", "get returns the length of the reply, which input then reads", 2, memo([]byte(Object)), gets),
		succeeds("get-not-found", "get of an object that does not exist returns -1", 1, success(),
			expectCode(abi.ImportGet, getMissing(), abi.CodeNotFound)),
		succeeds("get-invalid", "get of a message that cannot be decoded returns -5 and does not fail the call", 1, success(),
			expectCode(abi.ImportGet, []byte("?"), abi.CodeInvalid)),
		succeeds("list", "list returns the length of the reply", 1, success(), lists),
		fieldsCase(),
		readCase("get-fields-invalid", "get of a field that is no pointer returns -5", abi.ImportGet,
			abi.EncodeGetCall(&abi.GetCall{Ref: objectRef(), Fields: []string{"data.greeting"}}), abi.CodeInvalid),
		listCase("list-page", "a page of a list that has all objects has no continue", abi.ListCall{Limit: 1}),
		listCase("list-index", "list finds objects by a field", abi.ListCall{FieldSelector: "data.greeting=hello", Fields: []string{"status"}}),
		listCase("list-index-other", "no object has another value of the field", abi.ListCall{FieldSelector: "data.greeting!=hello"}),
		listCase("list-continue-invalid", "a continue that no reply had returns -5", abi.ListCall{Limit: 1, Continue: "unknown"}),
		succeeds("warm-denied", "in warm every capability returns -2, and the output is discarded", 1, success(), warmDenied),
		succeeds("summaries", "the manifest has a second target condition", 1, success(), describing(
			manifestWith("summaries", summarizing()))),
		succeeds("selectors", "the manifest follows parts of kinds, watches others, and has managed children", 1, success(), describing(
			managed("selectors", everyNarrowing))),
		succeeds("wasi", "there is one argument and no environment, unknown descriptors are EBADF, sleeping advances the clock", 2, success(), systemInterface),
	}
}

// succeeds is a case whose calls must all succeed with code 0 and the given
// result.
func succeeds(name, explain string, calls int, output []byte, build func(*guest) []byte) Case {
	return Case{
		Name: name, Stage: StageOK, Calls: calls, Explain: explain, Output: always(output),
		Wasm: func() []byte { return build(newGuest(name)) },
	}
}

func correct(g *guest) []byte {
	return g.finish(nil, I32Const(scratch), LocalGet(0), Call(g.input), g.ok())
}

const memoOpen, memoClose = `{"result":"success","memo":`, `}`

// memo is a result with the given memo.
func memo(value []byte) []byte {
	return append(append([]byte(memoOpen), value...), memoClose...)
}

func echoCase() Case {
	c := succeeds("echo", "reads the request in two pieces and writes it as the memo, in three", 2, nil, func(g *guest) []byte {
		rest := join(LocalGet(0), I32Const(-1), I32Add)
		return g.finish(nil,
			I32Const(scratch), I32Const(1), Call(g.input),
			I32Const(scratch+1), rest, Call(g.input),
			g.writesMemo(LocalGet(0)))
	})
	c.Output = memo
	return c
}

func allExports(g *guest) []byte {
	g.export(abi.ExportMarker, g.Func(noTypes, noTypes, nil, Unreachable))
	g.export(abi.ExportInitialize, g.Func(noTypes, noTypes, nil))
	g.export(abi.ExportWarm, g.Func(noTypes, i32Only, nil, I32Const(0)))
	g.export(functionindexes.Export, g.Func(i32Only, i32Only, nil, Unreachable))
	g.export(daemon.Export, g.Func(i32Only, i32Only, nil, Unreachable))
	g.export(scans.Export, g.Func(i32Only, i32Only, nil, Unreachable))
	for _, export := range reviewExports {
		g.export(export, g.Func(i32Only, i32Only, nil, Unreachable))
	}
	g.export("something_else", g.Func(noTypes, noTypes, nil, Unreachable))
	return g.finish(nil, g.ok())
}

func logs(g *guest) []byte {
	log := g.log()
	message := g.constant([]byte("the tck was here"))
	var body []byte
	for level := abi.LogDebug; level <= abi.LogError; level++ {
		body = join(body, I32Const(level), message, Call(log))
	}
	return g.finish(nil, body, I32Const(abi.LogInfo), I32Const(0), I32Const(0), Call(log), g.ok())
}

func failureCode(name string, code abi.Code, explain string) Case {
	output := abi.EncodeResult(&abi.Result{Error: &abi.Failure{Reason: "Conformance", Message: explain, After: 1000}})
	c := succeeds(name, explain, 2, output, func(g *guest) []byte {
		return g.finish(nil, g.writes(output), I32Const(int32(code)))
	})
	c.Code = code
	return c
}

// retryCase is a guest with every field of retry in its manifest, that
// returns 1 with an error.
func retryCase(name, explain string, failure abi.Failure) Case {
	failure.Reason = "Conformance"
	output := abi.EncodeResult(&abi.Result{Error: &failure})
	c := succeeds(name, explain, 2, output, func(g *guest) []byte {
		g.manifest = retrying(name, abi.Retry{
			Initial: 1, Factor: 100, Cap: 60_000, Jitter: 100, Attempts: 1, Then: abi.ThenCap,
		})
		return g.finish(nil, g.writes(output), I32Const(int32(abi.CodeRetry)))
	})
	c.Code = abi.CodeRetry
	return c
}

func gets(g *guest) []byte { return g.getsMemo(getObject()) }

// getsMemo makes a call of get, and writes the reply as the memo.
func (g *guest) getsMemo(call []byte) []byte {
	get := g.get()
	return g.finish(i32Only,
		g.constant(call), Call(get), I32WrapI64, LocalSet(1),
		I32Const(scratch), LocalGet(1), Call(g.input),
		g.writesMemo(LocalGet(1)))
}

// fieldsCase is a guest that gets a field that the object does not have.
func fieldsCase() Case {
	const name = "get-fields"
	call := abi.EncodeGetCall(&abi.GetCall{Ref: objectRef(), Fields: []string{"/metadata/labels"}})
	const reply = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"tck","namespace":"default"}}`
	return succeeds(name, "get returns what identifies the object and the fields of the call", 2, memo([]byte(reply)), func(g *guest) []byte {
		g.manifest = reading(name, "")
		return g.getsMemo(call)
	})
}

// listCase is a guest that lists ConfigMaps, and
// expects what [List] returns.
func listCase(name, explain string, call abi.ListCall) Case {
	call.APIVersion, call.Kind = "v1", "ConfigMap"
	message := abi.EncodeListCall(&call)
	reply, code := List(message)
	return readCase(name, explain, abi.ImportList, message, code+int64(len(reply)))
}

// readCase is a guest that makes a call, and traps
// unless that returns want.
func readCase(name, explain, function string, call []byte, want int64) Case {
	return succeeds(name, explain, 2, success(), func(g *guest) []byte {
		g.manifest = reading(name, "data.greeting")
		return expectCode(function, call, want)(g)
	})
}

// writesMemo writes what is at scratch as the memo, and returns 0.
func (g *guest) writesMemo(length []byte) []byte {
	return join(
		g.writes([]byte(memoOpen)), I32Const(scratch), length, Call(g.output), g.writes([]byte(memoClose)), I32Const(0))
}

// expectCode traps unless the capability returns exactly that code.
func expectCode(function string, call []byte, code int64) func(*guest) []byte {
	return func(g *guest) []byte {
		f := g.Import(abi.ImportModule, function, ptrLen, i64Only)
		return g.finish(nil, trapIf(g.constant(call), Call(f), I64Const(code), I64Ne), g.ok())
	}
}

func lists(g *guest) []byte {
	message := abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default"})
	reply, _ := List(message)
	return expectCode(abi.ImportList, message, int64(len(reply)))(g)
}

func warmDenied(g *guest) []byte {
	get := g.get()
	g.export(abi.ExportWarm, g.Func(noTypes, i32Only, nil,
		trapIf(g.constant(getObject()), Call(get), I64Const(abi.CodeDenied), I64Ne),
		g.writes([]byte("discard me")),
		I32Const(0)))
	return g.finish(nil, g.ok())
}

// Error numbers and constants of the system interface.
const (
	errnoSuccess   = 0
	errnoBadFile   = 8
	errnoFault     = 21
	clockRealtime  = 0
	clockMonotonic = 1
	sleepNanos     = 3_600_000_000_000 // an hour, which no test waits for
)

// Where guests have the system interface write its results.
const (
	firstWord     = scratch
	secondWord    = scratch + 8
	timeBefore    = scratch + 16
	timeAfter     = scratch + 24
	subscriptions = scratch + 64
	events        = scratch + 128
)

// systemInterface traps if the host's system interface deviates.
func systemInterface(g *guest) []byte {
	sizes := types{i32, i32}
	args := g.Import(wasi, "args_sizes_get", sizes, i32Only)
	environ := g.Import(wasi, "environ_sizes_get", sizes, i32Only)
	prestat := g.Import(wasi, "fd_prestat_get", sizes, i32Only)
	write := g.fdWrite()
	clock := g.clockTimeGet()
	poll := g.pollOneoff()
	return g.finish(nil,
		expectList(args, 1), expectList(environ, 0),
		expectErrno(errnoBadFile, I32Const(3), I32Const(firstWord), Call(prestat)),
		expectErrno(errnoBadFile, I32Const(9), I32Const(firstWord), I32Const(0), I32Const(secondWord), Call(write)),
		expectErrno(errnoSuccess, I32Const(clockRealtime), I64Const(1), I32Const(timeBefore), Call(clock)),
		subscribesToAnHour(), expectErrno(errnoSuccess,
			I32Const(subscriptions), I32Const(events), I32Const(1), I32Const(firstWord), Call(poll)),
		trapIf(I32Const(firstWord), I32Load, I32Const(1), I32Ne),
		expectErrno(errnoSuccess, I32Const(clockRealtime), I64Const(1), I32Const(timeAfter), Call(clock)),
		trapIf(I32Const(timeAfter), I64Load, I32Const(timeBefore), I64Load, I64Const(sleepNanos), I64Add, I64LtU),
		g.ok(),
	)
}

func (g *guest) clockTimeGet() Func {
	return g.Import(wasi, "clock_time_get", types{i32, i64, i32}, i32Only)
}

func (g *guest) pollOneoff() Func {
	return g.Import(wasi, "poll_oneoff", types{i32, i32, i32, i32}, i32Only)
}

func (g *guest) fdWrite() Func {
	return g.Import(wasi, "fd_write", types{i32, i32, i32, i32}, i32Only)
}

// expectList traps unless a list of strings has that many entries.
func expectList(sizes Func, entries int32) []byte {
	return join(
		I32Const(firstWord), I32Const(-1), I32Store,
		expectErrno(errnoSuccess, I32Const(firstWord), I32Const(secondWord), Call(sizes)),
		trapIf(I32Const(firstWord), I32Load, I32Const(entries), I32Ne),
	)
}

// expectErrno traps unless the instructions push that error number.
func expectErrno(errno int32, instructions ...[]byte) []byte {
	return trapIf(join(instructions...), I32Const(errno), I32Ne)
}

// subscribesToAnHour writes a subscription to an hour on the monotonic clock,
// relative: userdata u64, tag u8, clock u32 at 16, timeout u64 at 24, precision
// u64, flags u16.
func subscribesToAnHour() []byte {
	var body []byte
	for i, v := range []int64{7, 0, clockMonotonic, sleepNanos, 0, 0} {
		body = join(body, I32Const(subscriptions+8*int32(i)), I64Const(v), I64Store)
	}
	return body
}
