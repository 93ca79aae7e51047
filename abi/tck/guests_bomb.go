package tck

import (
	"math"
	"slices"

	"github.com/thole-dev/thole/abi/wasm"
)

// This file has small files that would cost a host much: by the counts that
// they claim, or by the time and memory that compiling them takes. A host must
// refuse them before any of it is spent.

func bombCases() []Case {
	out := []Case{
		bombCase("locals-bomb", "forty bytes with a function of four billion locals", func() []byte {
			return withBody(join([]byte{1}, leb(math.MaxUint32), []byte{byte(i64)}, End))
		}),
		bombCase("locals-bomb-groups", "a function of fifty million locals in a thousand groups", func() []byte {
			group := append(leb(50_000), byte(i64))
			return withBody(join(leb(1000), repeated(1000, group), End))
		}),
		bombCase("locals-bomb-spread", "twenty thousand functions of fifty thousand locals each", func() []byte {
			return withBodies(20_000, join([]byte{1}, leb(50_000), []byte{byte(i64)}, End))
		}),
		bombCase("types-bomb", "ten thousand types of eight hundred parameters", func() []byte {
			return withSections(vectorSection(wasm.TypeSection, 10_000, typeOf(800, 0)))
		}),
		bombCase("signatures-bomb", "a hundred thousand functions with a thousand parameters and results each", func() []byte {
			return withSections(
				vectorSection(wasm.TypeSection, 1, typeOf(1000, 1000)),
				vectorSection(wasm.FunctionSection, 100_000, leb(0)),
				vectorSection(wasm.CodeSection, 100_000, wasm.AppendBody(nil, nil, join(Unreachable, End))),
			)
		}),
		bombCase("huge-function", "a function of two million bytes", func() []byte {
			return withBody(join([]byte{0}, repeated(2<<20, Nop), End))
		}),
		bombCase("huge-table", "a table of four billion elements", func() []byte {
			return withSections(vectorSection(wasm.TableSection, 1, tableOf(math.MaxUint32)))
		}),
		bombCase("huge-tables", "a thousand tables of a hundred thousand elements", func() []byte {
			return withSections(vectorSection(wasm.TableSection, 1000, tableOf(100_000)))
		}),
		refusedBefore("table-without-maximum", "a table without a maximum, which the code grows", func(g *guest) []byte {
			g.TableWithoutMaximum(0)
			return g.finish(nil, NullFunc, I32Const(1<<20), TableGrow, Drop, g.ok())
		}),
		bombCase("elements-bomb", "ten segments of two hundred thousand function references, in two million bytes", func() []byte {
			segment := join([]byte{passiveSegment, functionElements}, leb(200_000), make([]byte, 200_000))
			return withSections(
				vectorSection(wasm.TypeSection, 1, wasm.FuncType{}.Append(nil)),
				vectorSection(wasm.FunctionSection, 1, leb(0)),
				vectorSection(wasm.TableSection, 1, tableOf(0)),
				vectorSection(wasm.ElementSection, 10, segment),
				vectorSection(wasm.CodeSection, 1, wasm.AppendBody(nil, nil, End)),
			)
		}),
	}
	out = append(out, compileBombs()...)
	return append(out, countBombs()...)
}

// bombCase is a file that a host must refuse before any of its code runs.
func bombCase(name, explain string, wasm func() []byte) Case {
	return refusedBefore(name, explain, func(*guest) []byte { return wasm() })
}

// refusedBefore is refused for a guest of which no code must run.
func refusedBefore(name, explain string, build func(*guest) []byte, mentions ...string) Case {
	c := refused(name, explain, build, mentions...)
	c.Step = StepCheck
	return c
}

func leb(v uint32) []byte { return wasm.AppendU32(nil, v) }

// withSections returns a module of encoded sections.
func withSections(sections ...[]byte) []byte {
	return append([]byte(wasm.Header), join(sections...)...)
}

// vectorSection encodes a section that is a vector of n equal entries.
func vectorSection(id wasm.SectionID, n int, entry []byte) []byte {
	return wasm.AppendSection(nil, id, join(leb(uint32(n)), repeated(n, entry)))
}

// typeOf encodes a signature of that many parameters and results.
func typeOf(params, results int) []byte {
	return wasm.Signature(slices.Repeat(i32Only, params), slices.Repeat(i32Only, results)...).Append(nil)
}

// tableOf encodes a table of function references without a maximum.
func tableOf(size uint32) []byte {
	return wasm.Table{Type: wasm.FuncRef, Limits: wasm.Limits{Min: size}}.Append(nil)
}

// withBody returns a module with one function of that code, its locals
// included.
func withBody(code []byte) []byte { return withBodies(1, code) }

func withBodies(n int, code []byte) []byte {
	return withSections(
		vectorSection(wasm.TypeSection, 1, wasm.FuncType{}.Append(nil)),
		vectorSection(wasm.FunctionSection, n, leb(0)),
		vectorSection(wasm.CodeSection, n, wasm.AppendName(nil, code)),
	)
}

// compileBombs are within every limit of size, but the time and memory that
// compilers need grow with the square of what they contain.
func compileBombs() []Case {
	bomb := func(name, explain string, body func(g *guest) []byte) Case {
		return refusedBefore(name, "a function that keeps compilers busy: "+explain, func(g *guest) []byte {
			return g.finish(nil, body(g), g.ok())
		})
	}
	many := slices.Repeat(i32Only, 500)
	constants := repeated(500, I32Const(0))
	drops := repeated(500, Drop)
	return []Case{
		bomb("jump-bomb", "thirty thousand decisions", func(*guest) []byte {
			return repeated(30_000, join(LocalGet(0), If, LocalGet(0), LocalSet(0), End))
		}),
		bomb("nest-bomb", "thirty thousand nested loops", func(*guest) []byte {
			return join(repeated(30_000, Loop), repeated(30_000, join(LocalGet(0), BranchIf(0), End)))
		}),
		bomb("branch-table-bomb", "a br_table of two hundred thousand targets", func(*guest) []byte {
			return join(Block, LocalGet(0), BranchTable(make([]uint32, 200_000)...), End)
		}),
		bomb("wide-call-bomb", "ten thousand calls that each pass on a thousand values", func(g *guest) []byte {
			f := g.Func(many, many, nil, constants)
			return join(constants, repeated(10_000, Call(f)), drops)
		}),
		bomb("wide-block-bomb", "ten thousand blocks that each pass on a thousand values", func(g *guest) []byte {
			loop := LoopOf(g.Type(many, many))
			return join(constants, repeated(10_000, join(loop, End)), drops)
		}),
		bomb("indirect-call-bomb", "forty thousand calls through a table", func(g *guest) []byte {
			g.Table(1)
			return repeated(40_000, join(I32Const(0), g.CallIndirect(), Drop))
		}),
		bomb("division-bomb", "forty thousand divisions", func(*guest) []byte {
			return repeated(40_000, join(LocalGet(0), LocalGet(0), I32DivS, Drop))
		}),
	}
}

// countBombs claim four billion entries of each vector in the binary format,
// with next to nothing behind the count.
func countBombs() []Case {
	const room = 64 // bytes behind the count, so that the file does not just end there
	counted := func(before ...byte) []byte { return join(before, leb(math.MaxUint32), make([]byte, room)) }
	bomb := func(name, entries string, build func(g *guest) []byte) Case {
		return refusedBefore("count-bomb-"+name, "a file of a few bytes that claims four billion "+entries, build)
	}
	alone := func(name, entries string, id wasm.SectionID, before ...byte) Case {
		return bomb(name, entries, func(*guest) []byte { return withSections(wasm.AppendSection(nil, id, counted(before...))) })
	}
	inBody := func(name, entries string, before ...byte) Case {
		return bomb(name, entries, func(*guest) []byte { return withBody(counted(before...)) })
	}
	inNames := func(name, entries string, subsection byte, before ...byte) Case {
		return bomb(name, entries, func(g *guest) []byte {
			g.finish(nil, g.ok())
			g.Custom("name", wasm.AppendName([]byte{subsection}, counted(before...)))
			return g.Bytes()
		})
	}
	zero := I32Const(0)
	return []Case{
		alone("types", "types", wasm.TypeSection),
		alone("params", "parameters of a type", wasm.TypeSection, 1, 0x60),
		alone("results", "results of a type", wasm.TypeSection, 1, 0x60, 0),
		alone("imports", "imports", wasm.ImportSection),
		alone("functions", "functions", wasm.FunctionSection),
		alone("tables", "tables", wasm.TableSection),
		alone("memories", "memories", wasm.MemorySection),
		alone("globals", "globals", wasm.GlobalSection),
		alone("exports", "exports", wasm.ExportSection),
		alone("elements", "element segments", wasm.ElementSection),
		alone("element-functions", "functions in an element segment", wasm.ElementSection, 1, passiveSegment, functionElements),
		alone("element-expressions", "expressions in an element segment", wasm.ElementSection, 1, expressionsSegment|passiveSegment, byte(wasm.FuncRef)),
		alone("bodies", "function bodies", wasm.CodeSection),
		inBody("local-groups", "groups of locals"),
		inBody("branch-targets", "targets of a br_table", join([]byte{0}, zero, op(wasm.OpBranchTable))...),
		inBody("select-types", "types of a select", join([]byte{0}, zero, zero, zero, op(wasm.OpSelectTyped))...),
		alone("data", "data segments", wasm.DataSection),
		alone("data-bytes", "bytes in a data segment", wasm.DataSection, 1, passiveSegment),
		alone("import-name", "bytes in an import's name", wasm.ImportSection, 1),
		alone("export-name", "bytes in an export's name", wasm.ExportSection, 1),
		alone("custom-name", "bytes in a custom section's name", wasm.CustomSection),
		inNames("function-names", "names of functions", 1),
		inNames("local-name-functions", "functions with named locals", 2),
		inNames("local-names", "names of a function's locals", 2, 1, 0),
	}
}
