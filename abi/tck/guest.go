package tck

import (
	"cmp"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/abi/wasm"
)

// This file has what all guests of the kit share: their layout, the parts that
// thole/v1 requires, and the cluster that they see.

// controller is the name of the guests' controller.
const controller = "conformance"

// The layout of the guests' memory: constants from 1 KiB on, and free memory
// from 32 KiB on. Both are within the two pages that every guest has.
const (
	constants = 1 << 10
	scratch   = 32 << 10
	pages     = 2
)

const (
	i32 = wasm.I32
	i64 = wasm.I64
)

type types = []wasm.ValueType

// Parameters and results of the functions that guests import and export.
var (
	noTypes     types
	i32Only     = types{i32}
	i64Only     = types{i64}
	ptrLen      = types{i32, i32}
	levelPtrLen = types{i32, i32, i32}
)

// guest assembles a correct guest. A case changes one thing about it.
type guest struct {
	Module
	name          string
	input, output Func
	clean, leaked []byte // the results of a guest that looks for what an earlier call has left
	constantsEnd  int32  // where the next constant is placed
	manifest      []byte
	exported      map[string]bool
}

func newGuest(name string) *guest {
	g := &guest{
		name: name, clean: success(), leaked: leaked(),
		constantsEnd: constants, manifest: manifest(name), exported: map[string]bool{},
	}
	g.input = g.Import(abi.ImportModule, abi.ImportInput, ptrLen, noTypes)
	g.output = g.Import(abi.ImportModule, abi.ImportOutput, ptrLen, noTypes)
	return g
}

func manifest(name string) []byte {
	return manifestWith(name, conformance(controller))
}

func manifestWith(name string, controllers ...abi.Controller) []byte {
	return abi.EncodeManifest(&abi.Manifest{Name: name, Version: "1", Controllers: controllers})
}

// retrying returns a manifest with a controller with this retry.
func retrying(name string, retry abi.Retry) []byte {
	return narrow(name, func(c *abi.Controller) { c.Retry = retry })
}

func conformance(name string) abi.Controller {
	return abi.Controller{Name: name, For: abi.Kind{APIVersion: "thole.dev/v1", Kind: "Conformance"}.All()}
}

// reading returns a manifest whose controller reads ConfigMaps and has an index of them by this field, unless that is
// "".
func reading(name, field string) []byte {
	return narrow(name, func(c *abi.Controller) {
		configMap := abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}
		c.Reads = abi.AllOf(configMap)
		if field != "" {
			c.Indexes = []abi.Index{{Name: "greeting", Kind: configMap, Field: field}}
		}
	})
}

// narrow returns a manifest of a controller with what change has set.
func narrow(name string, change func(*abi.Controller)) []byte {
	c := conformance(controller)
	change(&c)
	return manifestWith(name, c)
}

// managed is [narrow] for a plugin with managed children.
func managed(name string, change func(*abi.Controller)) []byte {
	c := conformance(controller)
	change(&c)
	return abi.EncodeManifest(&abi.Manifest{Name: name, Managed: true, Controllers: []abi.Controller{c}})
}

// everyNarrowing has each way to follow a part of a kind, and each kind of a watch.
func everyNarrowing(c *abi.Controller) {
	const key = "thole.dev/conformance"
	kind := func(kind string) abi.Followed { return abi.Kind{APIVersion: "v1", Kind: kind}.All() }
	c.For.Selector = abi.Selector{Namespaces: []string{"default"}, LabelSelector: "!retired", MetadataOnly: true}
	pods := kind("Pod")
	pods.Selector = abi.Selector{FieldSelector: "spec.nodeName=node-1,status.phase!=Failed"}
	c.Owns = []abi.Followed{{Kind: kind("ConfigMap").Kind, Selector: abi.Selector{MetadataOnly: true}}}
	c.Reads = []abi.Followed{pods}
	c.Watches = []abi.Watch{
		{Followed: pods, By: abi.WatchByOwner},
		{Followed: kind("Secret"), By: abi.WatchByLabel, Key: key},
		{Followed: kind("Secret"), By: abi.WatchByAnnotation, Key: key},
		{Followed: kind("Node"), By: abi.WatchByField, Field: "metadata.name"},
	}
}

// summarizing returns a controller with a second target condition.
func summarizing() abi.Controller {
	c := conformance(controller)
	c.Conditions.Summaries = []abi.Summary{{Target: "Fetched", Summarized: []string{"FetchFailed"}, NegativePolarity: []string{"FetchFailed"}}}
	return c
}

// constant places bytes in memory and returns the instructions that push their
// address and length.
func (g *guest) constant(data []byte) []byte {
	at := g.constantsEnd
	g.Data(at, data)
	g.constantsEnd += int32(len(data)+7) &^ 7
	return join(I32Const(at), I32Const(int32(len(data))))
}

// writes returns the instructions that append bytes to the output.
func (g *guest) writes(data []byte) []byte { return join(g.constant(data), Call(g.output)) }

// export exports a function unless the case has exported the name itself.
func (g *guest) export(name string, f Func) {
	if !g.exported[name] {
		g.Export(name, f)
	}
	g.exported[name] = true
}

// finish adds a reconcile with the given body, and what thole/v1 requires and
// the case has not added. It returns the binary.
func (g *guest) finish(locals types, reconcile ...[]byte) []byte {
	g.export(abi.ExportReconcile, g.Func(i32Only, i32Only, locals, reconcile...))
	return g.finishWithoutReconcile()
}

// finishWithoutReconcile is finish for a case that exports reconcile itself, or
// not at all.
func (g *guest) finishWithoutReconcile() []byte {
	g.addRequired()
	return g.Bytes()
}

// addRequired adds what thole/v1 requires besides reconcile and the case has not
// added.
func (g *guest) addRequired() {
	g.export(abi.ExportMarker, g.Func(noTypes, noTypes, nil))
	g.export(abi.ExportDescribe, g.Func(noTypes, i32Only, nil, g.writes(g.manifest), I32Const(0)))
	if g.count(wasm.MemorySection) == 0 {
		g.Memory(max(pages, uint32(g.constantsEnd)>>16+1))
		g.ExportMemory(abi.ExportMemory)
	}
}

// ok is the body of a reconcile that succeeds.
func (g *guest) ok() []byte { return join(g.writes(success()), I32Const(0)) }

func success() []byte { return abi.EncodeResult(&abi.Result{Result: abi.OutcomeSuccess}) }

// leaked is the result of a reset guest that finds what an earlier call left.
func leaked() []byte { return abi.EncodeResult(&abi.Result{Result: abi.OutcomeRequeue}) }

// trapIf traps if the instructions push an i32 that is not zero.
func trapIf(instructions ...[]byte) []byte {
	return join(join(instructions...), If, Unreachable, End)
}

// trapIfRefused traps if the instructions, which grow a memory or table, fail.
func trapIfRefused(instructions ...[]byte) []byte {
	return trapIf(join(instructions...), I32Const(-1), I32Eq)
}

// forever repeats instructions that leave the stack as it is.
func forever(instructions ...[]byte) []byte {
	return join(Loop, join(instructions...), Branch(0), End, I32Const(0))
}

func always(output []byte) func([]byte) []byte {
	return func([]byte) []byte { return output }
}

// Object is the one object in the cluster that the guests see.
const Object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"tck","namespace":"default"},"data":{"greeting":"hello"}}`

// Get is the capability get as the host under test must serve it. It returns
// [Object], or its fields, for ConfigMap default/tck, [abi.CodeNotFound] for anything
// else, and [abi.CodeInvalid] for a message that cannot be decoded.
func Get(call []byte) (reply []byte, code int64) {
	message, err := abi.DecodeGetCall(call)
	switch {
	case err != nil:
		return nil, abi.CodeInvalid
	case message.Ref == objectRef():
		return fieldsOf(Object, message.Fields), 0
	}
	return nil, abi.CodeNotFound
}

// List is the capability list as the host under test must serve it. It returns
// [Object], or its fields, in a list of ConfigMaps that it matches, and an empty list for
// other kinds. There is one object, so no reply has a continue, and a call that has one is
// [abi.CodeInvalid]. Label selectors are ignored.
func List(call []byte) (reply []byte, code int64) {
	message, err := abi.DecodeListCall(call)
	if err != nil || message.Continue != "" {
		return nil, abi.CodeInvalid
	}
	selector, err := fieldpath.ParseSelector(message.FieldSelector)
	if err != nil {
		return nil, abi.CodeInvalid
	}
	out := &abi.ListReply{}
	anybodys := message.OwnedBy == "" // the object has no owner
	if anybodys && message.APIVersion == "v1" && message.Kind == "ConfigMap" && selector.Matches([]byte(Object)) {
		out.Items = [][]byte{fieldsOf(Object, message.Fields)}
	}
	return abi.EncodeListReply(out), 0
}

// Answered is the URL that the import of the capability http answers.
const Answered = "https://tck.example.com/"

// conformanceHost is that of [Answered], as manifests have it.
func conformanceHost() http.Host {
	return http.Host{Host: "tck.example.com", Methods: []string{"GET", "PUT"}}
}

// Import is the import of a capability as the host under test must serve it. It returns [abi.CodeInvalid] for a message
// that cannot be decoded.
//
// http is for guests whose manifest has the host tck.example.com with the methods GET and PUT. It returns status 200
// and the body of the request for [Answered], and [abi.CodeDenied] for other URLs and other methods. index_get returns
// [Object] for the key that the guest "index" gives to it, and an empty reply for other keys.
func Import(name string, call []byte) (reply []byte, code int64) {
	switch name {
	case http.Import:
		return answer(call)
	case functionindexes.Import:
		return found(call)
	}
	return nil, abi.CodeDenied
}

// found is [Import] for index_get.
func found(call []byte) (reply []byte, code int64) {
	message, err := functionindexes.DecodeCall(call)
	if err != nil {
		return nil, abi.CodeInvalid
	}
	out := &functionindexes.Reply{}
	if e, ref := objectEntry(), objectRef(); message.Index == keysIndex && message.Key == e.Key {
		out.Items = []functionindexes.Item{{Namespace: ref.Namespace, Name: ref.Name, Value: e.Value}}
	}
	return functionindexes.EncodeReply(out), 0
}

// answer is [Import] for http.
func answer(call []byte) (reply []byte, code int64) {
	message, err := http.DecodeCall(call)
	switch {
	case err != nil:
		return nil, abi.CodeInvalid
	case message.URL != Answered, !conformanceHost().Allows(cmp.Or(message.Method, "GET"), "tck.example.com"):
		return nil, abi.CodeDenied
	}
	return http.EncodeReply(&http.Reply{Status: 200, Body: message.Body}), 0
}

// fieldsOf returns the fields of an object. Those of a call that was decoded are valid.
func fieldsOf(object string, fields []string) []byte {
	set, err := fieldpath.Parse(fields)
	if err != nil {
		return nil
	}
	out, _ := set.Project([]byte(object))
	return out
}

func objectRef() abi.Ref {
	return abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "tck"}
}

// getObject is the message that gets [Object].
func getObject() []byte { return abi.EncodeGetCall(&abi.GetCall{Ref: objectRef()}) }

// getMissing is the message that gets an object that does not exist.
func getMissing() []byte {
	ref := objectRef()
	ref.Name = "absent"
	return abi.EncodeGetCall(&abi.GetCall{Ref: ref})
}

// listObjects is the message that lists the ConfigMaps of all namespaces.
func listObjects() []byte {
	return abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "ConfigMap"})
}

// log imports log. Like all imports it must come before the first function.
func (g *guest) log() Func {
	return g.Import(abi.ImportModule, abi.ImportLog, levelPtrLen, noTypes)
}

// get imports get.
func (g *guest) get() Func {
	return g.Import(abi.ImportModule, abi.ImportGet, ptrLen, i64Only)
}
