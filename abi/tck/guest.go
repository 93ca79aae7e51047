package tck

import "github.com/thole-dev/thole/abi"

const controller = "conformance"

// Memory of the guests: constants from 1 KiB on, scratch space from 32 KiB
// on, both inside of the two pages that every guest has.
const (
	constants = 1 << 10
	scratch   = 32 << 10
	pages     = 2
)

var (
	noTypes    []Type
	i32Only    = []Type{I32}
	pointer    = []Type{I32, I32}      // (ptr, len)
	leveled    = []Type{I32, I32, I32} // (level, ptr, len)
	capability = []Type{I64}
)

// guest assembles a correct guest, of which a case then spoils one thing.
type guest struct {
	Module
	name          string
	input, output Func
	write         Func  // fd_write, once it is imported
	next          int32 // where the next constant goes
	manifest      []byte
	exported      map[string]bool
}

func newGuest(name string) *guest {
	g := &guest{name: name, next: constants, manifest: manifest(name), exported: map[string]bool{}}
	g.input = g.Import(abi.ImportModule, abi.ImportInput, pointer, noTypes)
	g.output = g.Import(abi.ImportModule, abi.ImportOutput, pointer, noTypes)
	return g
}

func manifest(name string) []byte {
	return abi.EncodeManifest(&abi.Manifest{
		Name:        name,
		Version:     "1",
		Controllers: []abi.Controller{conformance(controller)},
	})
}

func conformance(name string) abi.Controller {
	return abi.Controller{Name: name, For: abi.Kind{APIVersion: "thole.dev/v1", Kind: "Conformance"}}
}

// put places a constant and answers the instructions that push its address
// and length.
func (g *guest) put(data []byte) []byte {
	at := g.next
	g.Data(at, data)
	g.next += int32(len(data)+7) &^ 7
	return join(I32Const(at), I32Const(int32(len(data))))
}

// say answers the instructions that append a constant to the output.
func (g *guest) say(data []byte) []byte { return join(g.put(data), Call(g.output)) }

// export exports a function unless the case did so already.
func (g *guest) export(name string, f Func) {
	if !g.exported[name] {
		g.Export(name, f)
	}
	g.exported[name] = true
}

// finish adds what the case did not, and reconcile of that body.
func (g *guest) finish(locals []Type, reconcile ...[]byte) []byte {
	g.export(abi.ExportReconcile, g.Func(i32Only, i32Only, locals, reconcile...))
	return g.finishWithout()
}

// finishWithout is finish for guests whose reconcile is special.
func (g *guest) finishWithout() []byte {
	g.export(abi.ExportMarker, g.Func(noTypes, noTypes, nil))
	g.export(abi.ExportDescribe, g.Func(noTypes, i32Only, nil, g.say(g.manifest), I32Const(0)))
	if len(g.memory) == 0 {
		g.Memory(max(pages, uint32(g.next)>>16+1))
		g.ExportMemory(abi.ExportMemory)
	}
	return g.Bytes()
}

// ok is the body of a reconcile that succeeds.
func (g *guest) ok() []byte { return join(g.say(success()), I32Const(0)) }

func success() []byte { return abi.EncodeResult(&abi.Result{Result: abi.OutcomeSuccess}) }

// leaked is what the reset guests answer when they see an earlier call.
func leaked() []byte { return abi.EncodeResult(&abi.Result{Result: abi.OutcomeRequeue}) }

// trapIf traps when the i32 that the instructions leave is not zero.
func trapIf(instructions ...[]byte) []byte {
	return join(join(instructions...), If, Unreachable, End)
}

func always(output []byte) func([]byte) []byte {
	return func([]byte) []byte { return output }
}
