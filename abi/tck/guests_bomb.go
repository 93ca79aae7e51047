package tck

import "bytes"

// bombCases are small files that ask a host for much: they must be refused at
// once, before anything is allocated by what they claim.
func bombCases() []Case {
	out := []Case{
		bomb("locals-bomb", "forty bytes with a function of four billion locals", func() []byte {
			return withBody(join([]byte{1}, leb(most), []byte{byte(I64)}, End))
		}),
		bomb("locals-bomb-groups", "a function of fifty million locals in a thousand groups", func() []byte {
			group := append(leb(50_000), byte(I64))
			return withBody(join(leb(1000), repeated(1000, group), End))
		}),
		bomb("locals-bomb-spread", "twenty thousand functions of fifty thousand locals each", func() []byte {
			return withBodies(20_000, join([]byte{1}, leb(50_000), []byte{byte(I64)}, End))
		}),
		bomb("huge-function", "a function of two million bytes", func() []byte {
			return withBody(join([]byte{0}, repeated(2<<20, Nop), End))
		}),
		bomb("huge-table", "a table of four billion places", func() []byte {
			return binaryOf(part{4, join(leb(1), []byte{byte(FuncRef), 0}, leb(most))})
		}),
		bomb("huge-tables", "a thousand tables of a hundred thousand places", func() []byte {
			table := join([]byte{byte(FuncRef), 0}, leb(100_000))
			return binaryOf(part{4, join(leb(1000), repeated(1000, table))})
		}),
		bomb("table-without-end", "a table without a maximum, which it grows", func() []byte {
			g := newGuest("table-without-end")
			g.TableWithoutEnd(0)
			return g.finish(nil, NullFunc, I32Const(1<<20), TableGrow(), Drop, g.ok())
		}),
		bomb("elements-bomb", "a million function references in two million bytes, ten times", func() []byte {
			segment := join([]byte{1, 0}, leb(200_000), make([]byte, 200_000))
			return binaryOf(
				part{1, join(leb(1), []byte{0x60, 0, 0})},
				part{3, []byte{1, 0}},
				part{4, join(leb(1), []byte{byte(FuncRef), 0, 0})},
				part{9, join(leb(10), repeated(10, segment))},
				part{10, join(leb(1), []byte{2, 0, 0x0b})},
			)
		}),
	}
	for _, c := range compileBombs() {
		out = append(out, bomb(c.name, "a function that keeps compilers busy: "+c.explain, c.wasm))
	}
	for _, v := range vectorsOfBinary() {
		out = append(out, bomb("count-bomb-"+v.name, "a file of a few bytes that claims four billion "+v.explain, v.wasm))
	}
	return out
}

const most = 1<<32 - 1

func bomb(name, explain string, wasm func() []byte) Case {
	return Case{Name: name, Stage: StageLoad, Step: StepCheck, Explain: explain, Wasm: wasm}
}

// part is one section of a binary.
type part struct {
	id   byte
	body []byte
}

func binaryOf(parts ...part) []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, p := range parts {
		out = appendSection(out, p.id, p.body)
	}
	return out
}

// withBody is a module with one function of that code, locals included.
func withBody(code []byte) []byte { return withBodies(1, code) }

func withBodies(n int, code []byte) []byte {
	return binaryOf(
		part{1, join(leb(1), []byte{0x60, 0, 0})},
		part{3, join(leb(uint32(n)), make([]byte, n))},
		part{10, join(leb(uint32(n)), repeated(n, vector(code)))},
	)
}

type assembled struct {
	name, explain string
	wasm          func() []byte
}

// compileBombs are within every limit of size, but take compilers time and
// memory by the square of what they hold.
func compileBombs() []assembled {
	inReconcile := func(name string, body func(g *guest) []byte) func() []byte {
		return func() []byte {
			g := newGuest(name)
			return g.finish(nil, body(g), g.ok())
		}
	}
	of := func(name, explain string, body func(g *guest) []byte) assembled {
		return assembled{name, explain, inReconcile(name, body)}
	}
	return []assembled{
		of("jump-bomb", "thirty thousand decisions", func(*guest) []byte {
			return repeated(30_000, join(LocalGet(0), If, LocalGet(0), LocalSet(0), End))
		}),
		of("nest-bomb", "thirty thousand loops in each other", func(*guest) []byte {
			return join(repeated(30_000, Loop), repeated(30_000, join(LocalGet(0), BranchIf(0), End)))
		}),
		of("branch-table-bomb", "a br_table of two hundred thousand targets", func(*guest) []byte {
			return join(Block, LocalGet(0), BranchTable(make([]uint32, 200_000)...), End)
		}),
		of("wide-call-bomb", "ten thousand calls that each pass on a thousand values", func(g *guest) []byte {
			many := bytes.Repeat([]byte{byte(I32)}, 500)
			f := g.Func(types(many), types(many), nil, repeated(500, I32Const(0)))
			return join(repeated(500, I32Const(0)), repeated(10_000, Call(f)), repeated(500, Drop))
		}),
		of("wide-block-bomb", "ten thousand blocks that each pass on a thousand values", func(g *guest) []byte {
			many := types(bytes.Repeat([]byte{byte(I32)}, 500))
			loop := LoopOf(g.Type(many, many))
			return join(repeated(500, I32Const(0)), repeated(10_000, join(loop, End)), repeated(500, Drop))
		}),
		of("indirect-call-bomb", "forty thousand calls through a table", func(g *guest) []byte {
			g.Table(1)
			return repeated(40_000, join(I32Const(0), g.CallIndirect(), Drop))
		}),
		of("division-bomb", "forty thousand divisions", func(*guest) []byte {
			return repeated(40_000, join(LocalGet(0), LocalGet(0), I32DivS, Drop))
		}),
	}
}

func types(codes []byte) []Type {
	out := make([]Type, len(codes))
	for i, c := range codes {
		out[i] = Type(c)
	}
	return out
}

// vectorsOfBinary lists every vector of the binary format, each with a count
// of [most] and next to nothing behind it.
func vectorsOfBinary() []assembled {
	const room = 64 // bytes behind the count, so that it is not just cut off
	counted := func(before ...byte) []byte { return join(before, leb(most), make([]byte, room)) }
	alone := func(id byte, before ...byte) func() []byte {
		return func() []byte { return binaryOf(part{id, counted(before...)}) }
	}
	inBody := func(before ...byte) func() []byte {
		return func() []byte { return withBody(counted(before...)) }
	}
	inNames := func(name string, subsection byte, before ...byte) func() []byte {
		return func() []byte {
			g := newGuest(name)
			g.finish(nil, g.ok())
			g.Custom("name", append([]byte{subsection}, vector(counted(before...))...))
			return g.Bytes()
		}
	}
	return []assembled{
		{"types", "types", alone(1)},
		{"params", "parameters of a type", alone(1, 1, 0x60)},
		{"results", "results of a type", alone(1, 1, 0x60, 0)},
		{"imports", "imports", alone(2)},
		{"functions", "functions", alone(3)},
		{"tables", "tables", alone(4)},
		{"memories", "memories", alone(5)},
		{"globals", "globals", alone(6)},
		{"exports", "exports", alone(7)},
		{"elements", "element segments", alone(9)},
		{"element-functions", "functions in an element segment", alone(9, 1, 1, 0)},
		{"element-expressions", "expressions in an element segment", alone(9, 1, 5, byte(FuncRef))},
		{"bodies", "function bodies", alone(10)},
		{"local-groups", "groups of locals", inBody()},
		{"branch-targets", "targets of a br_table", inBody(0, 0x41, 0, 0x0e)},
		{"select-types", "types of a select", inBody(0, 0x41, 0, 0x41, 0, 0x41, 0, 0x1c)},
		{"data", "data segments", alone(11)},
		{"data-bytes", "bytes in a data segment", alone(11, 1, 1)},
		{"import-name", "bytes in an import's name", alone(2, 1)},
		{"export-name", "bytes in an export's name", alone(7, 1)},
		{"custom-name", "bytes in a custom section's name", alone(0)},
		{"function-names", "names of functions", inNames("count-bomb-function-names", 1)},
		{"local-name-functions", "functions with named locals", inNames("count-bomb-local-name-functions", 2)},
		{"local-names", "names of a function's locals", inNames("count-bomb-local-names", 2, 1, 0)},
	}
}
