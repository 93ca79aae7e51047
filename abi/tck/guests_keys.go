package tck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/http"
)

// This file has guests with an index by a function: correct ones, and ones whose function fails.

// keysIndex is the name of the guests' index of ConfigMaps.
const keysIndex = "keys"

// IndexRequest returns the message that [Run] calls the export index with. It has [Object].
func IndexRequest() []byte {
	return functionindexes.EncodeRequest(&functionindexes.Request{Index: keysIndex, Object: []byte(Object)})
}

// objectEntry is what the guest "index" gives to [Object].
func objectEntry() functionindexes.Entry {
	return functionindexes.Entry{Key: "hello", Value: []byte(`{"length":5}`)}
}

// keyed returns a manifest whose controller reads ConfigMaps and has an index of them by a function.
func keyed(name string) []byte { return narrow(name, listsKeys) }

func listsKeys(c *abi.Controller) {
	configMap := abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	c.Reads = abi.AllOf(configMap)
	c.Sections = append(c.Sections, keysOf(configMap))
}

// keysOf returns the section of a controller with an index of a kind.
func keysOf(kind abi.Kind) abi.Section {
	all := []functionindexes.Index{{Name: keysIndex, Kind: kind}}
	return abi.Section{Name: functionindexes.Name, Value: functionindexes.Encode(all)}
}

// getKey is the message that looks a key up.
func getKey(key string) []byte {
	return functionindexes.EncodeCall(&functionindexes.Call{Index: keysIndex, Key: key})
}

// keysLoadCases are refused for how they offer to give keys.
func keysLoadCases() []Case {
	const noExport, signature, two = "index-without-export", "index-wrong-signature", "manifest-index-of-two-kinds"
	other := conformance("other")
	other.Sections = append(other.Sections, keysOf(other.For.Kind))
	first := conformance(controller)
	listsKeys(&first)
	return []Case{
		refused(noExport, "has an index by a function, and no export that gives keys", describing(keyed(noExport)),
			"manifest", functionindexes.Name, functionindexes.Export),
		refused(signature, "the export index takes an i64", func(g *guest) []byte {
			g.manifest = keyed(signature)
			g.export(functionindexes.Export, g.Func(i64Only, i32Only, nil, I32Const(0)))
			return g.finish(nil, g.ok())
		}, functionindexes.Export),
		refused(two, "two controllers have indexes of one name, of two kinds: the guest is given only the name", describing(
			abi.EncodeManifest(&abi.Manifest{Name: two, Controllers: []abi.Controller{first, other}}),
		), "manifest", "controllers[1].functionIndexes[0].name", keysIndex),
	}
}

// keysCases give keys, and read what has them.
func keysCases() []Case {
	get := func(name, explain string, call []byte, want int64) Case {
		return succeeds(name, explain, 2, success(), func(g *guest) []byte {
			g.manifest = keyed(name)
			indexGet := g.Import(abi.ImportModule, functionindexes.Import, ptrLen, i64Only)
			g.export(functionindexes.Export, g.Func(i32Only, i32Only, nil, Unreachable))
			return g.finish(nil, trapIf(g.constant(call), Call(indexGet), I64Const(want), I64Ne), g.ok())
		})
	}
	size := func(call []byte) int64 {
		reply, _ := Import(functionindexes.Import, call)
		return int64(len(reply))
	}
	entries := functionindexes.EncodeResult(&functionindexes.Result{Entries: []functionindexes.Entry{objectEntry(), {Key: "without a value"}}})
	return []Case{
		gives("index", "index reads an object and gives it two keys", entries, func(g *guest) []byte {
			return join(I32Const(scratch), LocalGet(0), Call(g.input), g.writes(entries), I32Const(0))
		}),
		gives("index-no-keys", "index gives no keys, and does not read the object", []byte("{}"), func(g *guest) []byte {
			return join(g.writes([]byte("{}")), I32Const(0))
		}),
		gives("index-denied", "in index every capability returns -2", []byte("{}"), capabilitiesDenied),
		get("index-get", "index_get returns the length of the reply", getKey(objectEntry().Key), size(getKey(objectEntry().Key))),
		get("index-get-other", "no object has another key", getKey("bye"), size(getKey("bye"))),
		get("index-get-without-key", "index_get without a key returns -5", []byte(`{"index":"`+keysIndex+`"}`), abi.CodeInvalid),
		get("index-get-invalid", "index_get of a message that cannot be decoded returns -5", []byte("?"), abi.CodeInvalid),
	}
}

// gives is a case whose index must succeed with the given result.
func gives(name, explain string, output []byte, index func(*guest) []byte) Case {
	c := succeeds(name, explain, 2, output, indexing(name, index))
	c.Index = true
	return c
}

// indexing is a guest whose index has the given body, and whose reconcile succeeds.
func indexing(name string, index func(*guest) []byte) func(*guest) []byte {
	return func(g *guest) []byte {
		g.manifest = keyed(name)
		body := index(g) // may import
		g.export(functionindexes.Export, g.Func(i32Only, i32Only, nil, body))
		return g.finish(nil, g.ok())
	}
}

// capabilitiesDenied traps if a capability call returns another code than -2.
func capabilitiesDenied(g *guest) []byte {
	body := deniesCapabilities(g, abi.ImportGet, abi.ImportList, functionindexes.Import)
	return join(body, g.writes([]byte("{}")), I32Const(0))
}

// deniesCapabilities traps if a call of one of these capabilities returns another code than -2.
func deniesCapabilities(g *guest, functions ...string) (body []byte) {
	for _, c := range []struct {
		function string
		call     []byte
	}{
		{abi.ImportGet, getObject()},
		{abi.ImportList, listObjects()},
		{functionindexes.Import, getKey(objectEntry().Key)},
		{http.Import, putCall(nil)},
	} {
		if !slices.Contains(functions, c.function) {
			continue
		}
		f := g.Import(abi.ImportModule, c.function, ptrLen, i64Only)
		body = join(body, trapIf(g.constant(c.call), Call(f), I64Const(abi.CodeDenied), I64Ne))
	}
	return body
}

// hostileKeysCases have an index that fails. Their reconcile succeeds.
func hostileKeysCases() []Case {
	invalid := func(name, explain string, result []byte) Case {
		return spoils("index-"+name, abi.ClassABI, "index writes "+explain, func(g *guest) []byte {
			return join(g.writes(result), I32Const(0))
		})
	}
	with := func(entries ...functionindexes.Entry) []byte {
		return functionindexes.EncodeResult(&functionindexes.Result{Entries: entries})
	}
	many := make([]functionindexes.Entry, functionindexes.MaxEntries+1)
	for i := range many {
		many[i].Key = fmt.Sprint(i)
	}
	nested := strings.Repeat("[", abi.MaxDepth) + strings.Repeat("]", abi.MaxDepth)
	large := fmt.Appendf(nil, "%q", strings.Repeat("x", functionindexes.MaxValue))
	loop := spoils("index-loop", abi.ClassTimeout, "index never returns", infiniteLoop)
	loop.Limits.Deadline = shortDeadline
	return []Case{
		loop,
		spoils("index-trap", abi.ClassPanic, "index traps", func(*guest) []byte { return Unreachable }),
		spoils("index-recursion", abi.ClassStackOverflow, "index calls itself without end", deepRecursion),
		spoils("index-memory-bomb", abi.ClassOutOfMemory, "index grows its memory until the host refuses, then traps", memoryBomb),
		spoils("index-without-result", abi.ClassABI, "index returns 0 without a result", func(*guest) []byte { return I32Const(0) }),
		invalid("not-json", "a result that is not JSON", []byte("\x00garbage")),
		invalid("too-many", "one key more than an object may have", with(many...)),
		invalid("without-key", "a value without a key", []byte(`{"entries":[{"value":1}]}`)),
		invalid("key-twice", "a key twice", with(functionindexes.Entry{Key: "a"}, functionindexes.Entry{Key: "a"})),
		invalid("long-key", "a key that is one byte too long", with(functionindexes.Entry{Key: strings.Repeat("k", functionindexes.MaxKey+1)})),
		invalid("large-value", "a value that is two bytes too large", with(functionindexes.Entry{Key: "a", Value: large})),
		invalid("deep-value", "a value that is nested too deep", with(functionindexes.Entry{Key: "a", Value: []byte(nested)})),
		invalid("unknown-field", "a field that does not exist", []byte(`{"entrys":[]}`)),
	}
}

// spoils is a case that loads and whose index, with the given body, must fail with a class.
func spoils(name string, class abi.Class, explain string, index func(*guest) []byte) Case {
	c := failing(name, class, explain, indexing(name, index))
	c.Index = true
	return c
}
