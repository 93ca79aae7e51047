package inspect

import (
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox"
)

const wasiModule = "wasi_snapshot_preview1"

// importWords say what the functions of thole/v1 are for.
var importWords = map[string]string{
	abi.ImportInput:  "takes in the request, and the replies to reads",
	abi.ImportOutput: "gives the manifest or the result",
	abi.ImportLog:    "writes lines to the host's log",
	abi.ImportGet:    "reads one object, of the kinds in for, owns and reads",
	abi.ImportList:   "lists objects, of the kinds in for, owns and reads",
}

// wasiWords say what a guest gets from the system interface, by [area].
var wasiWords = map[string]string{
	"args":    "arguments: there are none",
	"environ": "environment variables: there are none",
	"clock":   "time: that of the call",
	"poll":    "sleeping: passes at once, on the call's clock",
	"sched":   "yielding: not served",
	"random":  "random bytes: from the call's seed",
	"fd":      "standard output and error, kept for failures; no files",
	"path":    "files: there are none",
	"sock":    "sockets: there are none",
	"proc":    "ending itself: counts as a panic",
}

// meaning says in words what an import is for, "" if no host serves it.
func meaning(module, name string) string {
	switch module {
	case abi.ImportModule:
		return importWords[name]
	case wasiModule:
		return wasiWords[area(name)]
	}
	return ""
}

// area is the part of the system interface that a function belongs to.
func area(name string) string {
	first, _, _ := strings.Cut(name, "_")
	return first
}

var exportWords = map[string]string{
	abi.ExportMarker:     "states the ABI version, never called",
	abi.ExportDescribe:   "tells the manifest",
	abi.ExportReconcile:  "reconciles one object",
	abi.ExportInitialize: "starts the language's runtime, once",
	abi.ExportWarm:       "gets ready before the first call, once",
	abi.ExportMemory:     "the memory that host and plugin share",
}

// instances says in words what a mode means.
func instances(m *sandbox.ModuleInfo) *Instances {
	why := map[string]string{
		"reset":  "memory and globals are restored after each call",
		"pooled": "state is kept between calls: ",
		"fresh":  "every call gets a new instance: ",
	}[m.Mode]
	return &Instances{Mode: m.Mode, Why: why + m.ModeWhy}
}

// toolchain names the compiler as far as the module does.
func toolchain(m *sandbox.ModuleInfo) string {
	first := ""
	for _, p := range m.Producers {
		switch p.Name {
		case "TinyGo":
			return "TinyGo " + p.Version
		case "Go cmd/compile":
			return "Go " + strings.TrimPrefix(p.Version, "go")
		}
		if first == "" {
			first = strings.TrimSpace(p.Name + " " + p.Version)
		}
	}
	return first
}
