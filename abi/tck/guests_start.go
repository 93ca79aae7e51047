package tck

import "github.com/thole-dev/thole/abi"

// startCases misbehave before the first reconcile: no entry into a guest is
// without limits.
func startCases() []Case {
	return []Case{
		starts("start-loops", "the start function never returns", abi.ClassTimeout, infiniteLoop),
		starts("start-call-tree", "the start function calls sixty functions, each the next twice", abi.ClassTimeout,
			func(g *guest) []byte { return Call(g.callTree(func(next Func) []byte { return Call(next) })) }),
		starts("start-fills", "the start function fills memory again and again, without a loop", abi.ClassTimeout, func(g *guest) []byte {
			fill := join(I32Const(0), I32Const(7), I32Const(hugeBytes), MemoryFill)
			return join(g.grown(), repeated(500, fill), I32Const(0))
		}),
		starts("start-recursion", "the start function calls itself without end", abi.ClassStackOverflow, deepRecursion),
		starts("start-memory-bomb", "the start function takes all memory, then traps", abi.ClassOutOfMemory, memoryBomb),
		starts("start-logs", "the start function logs without end", abi.ClassTimeout, func(g *guest) []byte {
			return g.logsForever(join(I32Const(0), I32Const(64)))
		}),
		starts("start-exits", "the start function calls proc_exit", abi.ClassPanic, exit),
		enters("initialize-loops", abi.ExportInitialize, StepInitialize, noTypes),
		enters("describe-loops", abi.ExportDescribe, StepDescribe, i32Only),
		enters("warm-loops", abi.ExportWarm, StepWarm, i32Only),
	}
}

// starts is a case with that start function, whose result is dropped.
func starts(name, explain string, class abi.Class, body func(*guest) []byte) Case {
	return Case{
		Name: name, Stage: StageLoad, Step: StepStart, Class: class, Explain: explain,
		Limits: timedLimits(class),
		Wasm: func() []byte {
			g := newGuest(name)
			code := body(g)
			g.Start(g.Func(noTypes, noTypes, nil, code, Drop))
			return g.finish(nil, g.ok())
		},
	}
}

func timedLimits(class abi.Class) Limits {
	limits := Limits{MemoryBytes: hugeBytes}
	if class == abi.ClassTimeout {
		limits.Deadline = stopped
	}
	return limits
}

// enters is a case one of whose exports never returns.
func enters(name, export string, step Step, results []Type) Case {
	return Case{
		Name: name, Stage: StageLoad, Step: step, Class: abi.ClassTimeout, Mentions: []string{export},
		Explain: export + " never returns",
		Limits:  timedLimits(abi.ClassTimeout),
		Wasm: func() []byte {
			g := newGuest(name)
			body := infiniteLoop(g)
			if len(results) == 0 {
				body = join(body, Drop)
			}
			g.export(export, g.Func(noTypes, results, nil, body))
			return g.finish(nil, g.ok())
		},
	}
}
