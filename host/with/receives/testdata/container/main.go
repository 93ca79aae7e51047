//go:build wasip1 || tinygo

// Command container is a plugin that writes into the status which events it was given, but for those whose
// id begins with quiet. It receives some by the subject, some by a field and some by keys of its own. It uses the ABI
// directly.
package main

import (
	"strings"
	"unsafe"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/abi/receives"
)

//go:wasmimport thole/v1 input
func hostInput(ptr unsafe.Pointer, length uint32)

//go:wasmimport thole/v1 output
func hostOutput(ptr unsafe.Pointer, length uint32)

//go:wasmexport thole_v1
func marker() {}

//go:wasmexport describe
func describe() int32 {
	kind := abi.Kind{APIVersion: "test.thole.dev/v1", Kind: "Container"}
	return write(abi.EncodeManifest(&abi.Manifest{
		Name: "container", Version: "1",
		Controllers: []abi.Controller{{
			Name: "container", For: kind.All(),
			Indexes: []abi.Index{{Name: "by-field", Kind: kind, Field: "spec.id"}},
			Sections: []abi.Section{{
				Name: functionindexes.Name, Value: functionindexes.Encode([]functionindexes.Index{{Name: "by-keys", Kind: kind}}),
			}, {Name: receives.Name, Value: receives.Encode([]receives.Receive{
				{Type: "dev.thole.test.subject"},
				{Type: "dev.thole.test.field", Resolve: &receives.Resolve{Index: "by-field", From: "data.id"}},
				{Type: "dev.thole.test.keys", Resolve: &receives.Resolve{Index: "by-keys", From: "data.name"}},
			})}},
		}},
	}))
}

// index gives each object the key "NAME of NAMESPACE".
//
//go:wasmexport index
func index(length uint32) int32 {
	request, err := functionindexes.DecodeRequest(read(length))
	if err != nil {
		return 1
	}
	name, _ := rawjson.Lookup(request.Object, "metadata", "name")
	namespace, _ := rawjson.Lookup(request.Object, "metadata", "namespace")
	key := strings.Trim(string(name), `"`) + " of " + strings.Trim(string(namespace), `"`)
	return write(functionindexes.EncodeResult(&functionindexes.Result{Entries: []functionindexes.Entry{{Key: key}}}))
}

//go:wasmexport reconcile
func reconcile(length uint32) int32 {
	request, err := abi.DecodeRequest(read(length))
	if err != nil {
		return 1
	}
	if id, _ := rawjson.Lookup(request.Object, "spec", "id"); string(id) == `"fails"` {
		write(abi.EncodeResult(&abi.Result{Error: &abi.Failure{Reason: "IDFails", Message: "the id is fails"}}))
		return int32(abi.CodeRetry)
	}
	var ids []string
	if text, ok := rawjson.Lookup(request.Object, "status", "ids"); ok {
		all, _ := rawjson.Elements(text)
		for _, id := range all {
			ids = append(ids, string(id))
		}
	}
	before := len(ids)
	for _, signal := range request.Signals {
		if id, _ := rawjson.Lookup(signal, "id"); !strings.HasPrefix(string(id), `"quiet`) {
			ids = append(ids, string(id))
		}
	}
	if len(ids) == before {
		return write(abi.EncodeResult(&abi.Result{Result: abi.OutcomeSuccess}))
	}
	status := `{"ids":[` + strings.Join(ids, ",") + `]}`
	return write(abi.EncodeResult(&abi.Result{Result: abi.OutcomeSuccess, Status: []byte(status)}))
}

func read(length uint32) []byte {
	b := make([]byte, length)
	hostInput(unsafe.Pointer(unsafe.SliceData(b)), length)
	return b
}

func write(b []byte) int32 {
	hostOutput(unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b)))
	return 0
}

func main() {}
