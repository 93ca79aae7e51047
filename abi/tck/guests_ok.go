package tck

import "github.com/thole-dev/thole/abi"

func okCases() []Case {
	return []Case{
		{
			Name: "correct", Stage: StageOK, Calls: 3, Output: always(success()),
			Explain: "the smallest guest that follows every rule",
			Wasm:    func() []byte { return correct("correct") },
		},
		{
			Name: "echo", Stage: StageOK, Calls: 2, Output: echoed,
			Explain: "reads the request in two pieces and writes it back as the memo, in three",
			Wasm:    echo,
		},
		{
			Name: "all-exports", Stage: StageOK, Calls: 2, Output: always(success()),
			Explain: "has every optional export, and the marker is never called",
			Wasm:    allExports,
		},
		{
			Name: "logs", Stage: StageOK, Calls: 1, Output: always(success()),
			Explain: "logs at every level, an empty message too",
			Wasm:    logs,
		},
		failure("code-retry", abi.CodeRetry, "answers 1 with an error"),
		failure("code-stalled", abi.CodeStalled, "answers 2 with an error"),
		failure("code-waiting", abi.CodeWaiting, "answers 3 with an error"),
		{
			Name: "get", Stage: StageOK, Calls: 2, Output: always(memo([]byte(Object))),
			Explain: "the length of the reply is returned, and input then reads the reply",
			Wasm:    gets,
		},
		{
			Name: "get-not-found", Stage: StageOK, Calls: 1, Output: always(success()),
			Explain: "an object that does not exist is -1",
			Wasm:    refusedCall("get-not-found", abi.ImportGet, missing(), abi.CodeNotFound),
		},
		{
			Name: "get-invalid", Stage: StageOK, Calls: 1, Output: always(success()),
			Explain: "a message that is not understood is -5, not a failed call",
			Wasm:    refusedCall("get-invalid", abi.ImportGet, []byte("?"), abi.CodeInvalid),
		},
		{
			Name: "list", Stage: StageOK, Calls: 1, Output: always(success()),
			Explain: "a list's reply has the announced length",
			Wasm:    lists,
		},
		{
			Name: "warm-denied", Stage: StageOK, Calls: 1, Output: always(success()),
			Explain: "in warm every capability answers -2, and its output is discarded",
			Wasm:    warmDenied,
		},
		{
			Name: "wasi", Stage: StageOK, Calls: 2, Output: always(success()),
			Explain: "arguments and environment are empty, unknown descriptors are EBADF, sleeping advances the clock",
			Wasm:    systemInterface,
		},
	}
}

func correct(name string) []byte {
	g := newGuest(name)
	return g.finish(nil, I32Const(scratch), LocalGet(0), Call(g.input), g.ok())
}

const memoOpen, memoClose = `{"result":"success","memo":`, `}`

func memo(value []byte) []byte {
	return append(append([]byte(memoOpen), value...), memoClose...)
}

func echoed(request []byte) []byte { return memo(request) }

func echo() []byte {
	g := newGuest("echo")
	rest := join(LocalGet(0), I32Const(-1), I32Add)
	return g.finish(nil,
		I32Const(scratch), I32Const(1), Call(g.input),
		I32Const(scratch+1), rest, Call(g.input),
		g.say([]byte(memoOpen)),
		I32Const(scratch), LocalGet(0), Call(g.output),
		g.say([]byte(memoClose)),
		I32Const(0),
	)
}

func allExports() []byte {
	g := newGuest("all-exports")
	g.export(abi.ExportMarker, g.Func(noTypes, noTypes, nil, Unreachable))
	g.export(abi.ExportInitialize, g.Func(noTypes, noTypes, nil))
	g.export(abi.ExportWarm, g.Func(noTypes, i32Only, nil, I32Const(0)))
	g.export("something_else", g.Func(noTypes, noTypes, nil, Unreachable))
	return g.finish(nil, g.ok())
}

func logs() []byte {
	g := newGuest("logs")
	log := g.Import(abi.ImportModule, abi.ImportLog, leveled, noTypes)
	message := g.put([]byte("the tck was here"))
	var body []byte
	for level := abi.LogDebug; level <= abi.LogError; level++ {
		body = join(body, I32Const(level), message, Call(log))
	}
	return g.finish(nil, body, I32Const(abi.LogInfo), I32Const(0), I32Const(0), Call(log), g.ok())
}

func failure(name string, code abi.Code, explain string) Case {
	output := abi.EncodeResult(&abi.Result{Error: &abi.Failure{Reason: "Conformance", Message: explain, After: 1000}})
	return Case{
		Name: name, Stage: StageOK, Calls: 2, Code: code, Explain: explain, Output: always(output),
		Wasm: func() []byte {
			g := newGuest(name)
			return g.finish(nil, g.say(output), I32Const(int32(code)))
		},
	}
}

func gets() []byte {
	g := newGuest("get")
	get := g.Import(abi.ImportModule, abi.ImportGet, pointer, capability)
	call := g.put(abi.EncodeGetCall(&abi.GetCall{Ref: present()}))
	return g.finish(i32Only,
		call, Call(get), I32WrapI64, LocalSet(1),
		I32Const(scratch), LocalGet(1), Call(g.input),
		g.say([]byte(memoOpen)),
		I32Const(scratch), LocalGet(1), Call(g.output),
		g.say([]byte(memoClose)),
		I32Const(0),
	)
}

func missing() []byte {
	return abi.EncodeGetCall(&abi.GetCall{Ref: abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "absent"}})
}

// refusedCall traps unless the capability answers exactly that code.
func refusedCall(name, function string, call []byte, code int64) func() []byte {
	return func() []byte {
		g := newGuest(name)
		f := g.Import(abi.ImportModule, function, pointer, capability)
		return g.finish(nil, trapIf(g.put(call), Call(f), I64Const(code), I64Ne), g.ok())
	}
}

func lists() []byte {
	g := newGuest("list")
	list := g.Import(abi.ImportModule, abi.ImportList, pointer, capability)
	message := abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default"})
	reply, _ := List(message)
	return g.finish(nil, trapIf(g.put(message), Call(list), I64Const(int64(len(reply))), I64Ne), g.ok())
}

func warmDenied() []byte {
	g := newGuest("warm-denied")
	get := g.Import(abi.ImportModule, abi.ImportGet, pointer, capability)
	call := g.put(abi.EncodeGetCall(&abi.GetCall{Ref: present()}))
	g.export(abi.ExportWarm, g.Func(noTypes, i32Only, nil,
		trapIf(call, Call(get), I64Const(abi.CodeDenied), I64Ne),
		g.say([]byte("discard me")),
		I32Const(0)))
	return g.finish(nil, g.ok())
}
