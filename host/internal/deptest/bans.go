package deptest

import "slices"

// Bans is the design's table. Third-party packages that no ban names are free.
var Bans = slices.Concat(
	theContract,
	theHost,
	theSandbox,
	stagesSideways(),
)

// theContract: abi <- sdk <- plugins.
var theContract = []Ban{
	{
		Importers: Set{Of: []string{"./abi/..."}},
		Imported:  Set{Of: []string{"..."}, Except: []string{"std", "./abi/..."}},
		Why:       "every plugin and any other host compiles abi, so it may need nothing but the standard library",
	},
	{
		Importers: Set{Of: []string{"./sdk/..."}, Except: []string{"./sdk/sdktest/..."}},
		Imported:  Set{Of: []string{"..."}, Except: []string{"std", "./abi/...", "./sdk/..."}},
		Why:       "TinyGo compiles the sdk into every plugin: what it imports, each of them carries",
	},
	{
		Importers: Set{Of: []string{"./sdk/sdktest/..."}},
		Imported:  Set{Of: []string{"./host/..."}, Except: []string{"./host/sandbox/...", decision}},
		Tests:     true,
		Why:       "a plugin's tests run it against a fake world or in the sandbox, never in a whole host",
	},
	{
		Importers: Set{Of: []string{"./plugins/..."}},
		Imported:  Set{Of: []string{"..."}, Except: []string{"std", "./sdk/...", "./plugins/..."}},
		Why:       "the examples show that the sdk is all that an author needs",
	},
	{
		Importers: Set{Of: []string{"./abi/...", "./sdk/...", "./plugins/..."}},
		Imported:  Set{Of: []string{"k8s.io/...", "sigs.k8s.io/..."}},
		Tests:     true,
		Why:       "TinyGo cannot compile the Kubernetes libraries, and objects are JSON on both sides of the ABI",
	},
	{
		Importers: Set{Of: []string{"./..."}, Except: []string{"./plugins/...", "./cmd/..."}},
		Imported:  Set{Of: []string{"./plugins/...", "./cmd/..."}},
		Tests:     true,
		Why:       "plugins and commands are where imports end; run a plugin as the file that it compiles to",
	},
}

// theHost: abi <- host <- cmd, and which stage owns which library.
var theHost = []Ban{
	{
		Importers: Set{Of: []string{"./host/..."}},
		Imported:  Set{Of: []string{"./sdk/..."}},
		Tests:     true,
		Why:       "the host knows guests by the ABI alone, or plugins in other languages would be second class",
	},
	{
		Importers: Set{Of: []string{"./..."}, Except: []string{"./host/sandbox/..."}},
		Imported:  Set{Of: []string{"github.com/tetratelabs/wazero/..."}},
		Why:       "host/sandbox is the only user of wazero: fuel, limits and reset hold only for calls that go through it",
	},
	{
		Importers: Set{Of: []string{"./..."}, Except: []string{"./host/source/...", "./cmd/thole/internal/devloop/..."}},
		Imported:  Set{Of: []string{"github.com/fsnotify/..."}},
		Why:       "host/source is where plugins come from: the rest sees snapshots, whatever they were read from; devloop watches the source code of one",
	},
	{
		Importers: Set{Of: []string{"./host/dispatch/..."}},
		Imported: Set{Of: []string{"..."}, Except: []string{
			"std", "./abi/...", "./host/object/...", "./host/sanitize", decision, "./host/dispatch/...", "./host/internal/...",
			"github.com/hashicorp/go-hclog", "k8s.io/apimachinery/...",
		}},
		Why: "dispatch is the worker's story, told in interfaces that it defines itself",
	},
	{
		Importers: Set{Of: []string{"./host/outcome/..."}},
		Imported:  Set{Of: []string{"..."}, Except: []string{"std", "./abi/...", "./host/object/...", "./host/outcome/...", "./host/sanitize"}},
		Why:       "outcome is a pure function of the result: a table of cases must be able to test all of it",
	},
	{
		Importers: Set{Of: []string{"./host/outcome/..."}},
		Imported:  Set{Of: []string{"os/...", "net/...", "log/...", "math/rand/...", "crypto/rand"}},
		Why:       "outcome is a pure function of the result: it does no I/O and rolls no dice",
	},
	{
		Importers: Set{Of: []string{"./host/source/...", "./host/sandbox/...", "./host/catalog/...", "./host/serve/..."}},
		Imported:  Set{Of: []string{"k8s.io/client-go/..."}},
		Why:       "only cache, queue and effect talk to the API server; host.go wires the rest to them",
	},
	{
		Importers: Set{Of: []string{"./..."}},
		Imported:  Set{Of: []string{"k8s.io/kubernetes/...", "k8s.io/apiserver/..."}},
		Tests:     true,
		Why:       "the control plane is a module of its own, cmd/thole-devcluster: start its binary instead",
	},
}

// theSandbox: its parts stand on their own, and host/sandbox is their only face.
var theSandbox = []Ban{
	{
		Importers: Set{Of: []string{"./..."}, Except: []string{"./host/sandbox/..."}},
		Imported:  Set{Of: []string{"./host/sandbox/..."}, Except: []string{"./host/sandbox"}},
		Why:       "limits hold only where the parts work together: use them through host/sandbox",
	},
	{
		Importers: Set{Of: []string{"./host/sandbox/..."}, Except: []string{"./host/sandbox"}},
		Imported:  Set{Of: []string{"./host/sandbox/..."}, Except: []string{"./host/sandbox/module"}},
		Why:       "the parts of the sandbox do not know each other, only what a module is: host/sandbox puts them together",
	},
	{
		Importers: Set{Of: []string{"./host/sandbox/module", "./host/sandbox/meter", "./host/sandbox/schedule", "./host/sandbox/deadline"}},
		Imported:  Set{Of: []string{"github.com/tetratelabs/wazero/..."}},
		Why:       "what is hostile is read, and what runs is bounded, without a word of the engine's",
	},
}

// stages are the folders of the pipeline, in the order that data flows.
var stages = []string{
	"source", "catalog", "cache", "queue", "dispatch", "sandbox", "outcome", "effect", "telemetry", "serve",
}

// decision is the one stage that others may import: a pure function over plain
// values, around which an interface would hide what it decides.
const decision = "./host/outcome/..."

// stagesSideways: what is no stage (object, internal) is for all of them.
func stagesSideways() []Ban {
	var all []string
	for _, stage := range stages {
		all = append(all, "./host/"+stage+"/...")
	}
	bans := []Ban{{
		Importers: Set{Of: all},
		Imported:  Set{Of: []string{"./host"}},
		Why:       "the host wires the stages: what a stage needs is handed to it",
	}}
	for _, stage := range all {
		bans = append(bans, Ban{
			Importers: Set{Of: []string{stage}},
			Imported:  Set{Of: all, Except: []string{stage, decision}},
			Why:       "stages do not know each other: define an interface here and let host.go wire it",
		})
	}
	return bans
}
