package deptest

import "slices"

// Bans is the table of DESIGN: what each folder may not import, and why. It is
// the only place of these rules; depguard in .golangci.yml bans libraries that
// nobody uses, whatever the folder. What no ban names is allowed.
var Bans = slices.Concat(
	contractBans,
	hostBans,
	sandboxBans,
	stageBans(),
)

// contractBans: abi <- sdk <- plugins.
var contractBans = []Ban{
	{
		Importers: Set{Of: []string{"./abi/..."}},
		Imported:  Set{Of: []string{"..."}, Except: []string{"std", "./abi/..."}},
		Why:       "every plugin and any other host compiles abi, so it may need nothing but the standard library",
	},
	{
		Importers: Set{Of: []string{"./sdk/..."}, Except: []string{"./sdk/sdktest/..."}},
		Imported:  Set{Of: []string{"..."}, Except: []string{"std", "./abi/...", "./sdk/..."}},
		Why:       "TinyGo compiles the sdk into every plugin, with everything that it imports",
	},
	{
		Importers: Set{Of: []string{"./sdk/..."}, Except: []string{"./sdk/kubernetes/..."}},
		Imported:  Set{Of: []string{"./sdk/kubernetes/..."}},
		Why:       "only a plugin knows which kinds it uses: it contains the types of those that it imports itself",
	},
	{
		Importers: Set{Of: []string{"./sdk/kubernetes/..."}},
		Imported:  Set{Of: []string{"..."}, Except: []string{"./sdk", "./sdk/codec", "./sdk/kubernetes/..."}},
		Why:       "packages of kinds are types and their codecs, which are generated",
	},
	{
		Importers: Set{Of: []string{"./abi/...", "./sdk/...", "./plugins/..."}, Except: []string{"./abi/wasm", "./abi/tck", "./sdk/sdktest/..."}},
		Imported:  Set{Of: []string{"./abi/wasm/...", "./abi/tck/..."}},
		Why:       "a plugin contains what it imports, and reads no modules: abi/wasm and abi/tck are for hosts and their tests",
	},
	{
		Importers: Set{Of: []string{"./sdk/sdktest/..."}},
		Imported:  Set{Of: []string{"./host/..."}, Except: []string{"./host/sandbox/...", outcome, "./host/with/timers/schedule", "./host/with/changes/handled"}},
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
		Why:       "nothing imports a plugin or a command: run a plugin as the file that it compiles to",
	},
}

// hostBans: abi <- host <- cmd, and which folder owns which library.
var hostBans = []Ban{
	{
		Importers: Set{Of: []string{"./host/..."}},
		Imported:  Set{Of: []string{"./sdk/..."}},
		Tests:     true,
		Why:       "the host sees guests through the ABI only, or plugins in other languages would be second class",
	},
	{
		Importers: Set{Of: []string{"./..."}, Except: []string{"./host/sandbox/...", "./internal/toolchain/traps"}},
		Imported:  Set{Of: []string{"github.com/tetratelabs/wazero/..."}},
		Why: "host/sandbox is the only user of wazero: fuel, limits and reset hold only for calls that go through it; " +
			"what a compiler is tried with is no guest",
	},
	{
		Importers: Set{Of: []string{"./..."}, Except: []string{"./host/source/...", "./cmd/thole-tools/internal/devloop/..."}},
		Imported:  Set{Of: []string{"github.com/fsnotify/..."}},
		Why: "host/source is where plugins come from: the rest sees snapshots, whatever they were read from; " +
			"devloop watches the source code of a plugin",
	},
	{
		Importers: Set{Of: []string{
			"./host/source/...", "./host/sandbox/...", "./host/catalog/...", "./host/serve/...", "./host/dispatch/...", "./host/config/...",
		}},
		Imported: Set{Of: []string{"k8s.io/client-go/..."}},
		Why:      "only access, cache, queue, effect and capabilities use client-go: others get what they need of the API server from these",
	},
	{
		Importers: Set{Of: []string{"./..."}},
		Imported:  Set{Of: []string{"k8s.io/kubernetes/...", "k8s.io/apiserver/..."}},
		Tests:     true,
		Why:       "the control plane is a module of its own, cmd/thole-devcluster: start its binary instead",
	},
	{
		Importers: Set{Of: []string{outcome}},
		Imported:  Set{Of: []string{"..."}, Except: []string{"std", "./abi/...", "./host/object/...", "./host/sanitize/...", outcome}},
		Why:       "outcome is a pure function of the result: a table of cases must be able to test all of it",
	},
	{
		Importers: Set{Of: []string{outcome}},
		Imported:  Set{Of: []string{"os/...", "net/...", "log/...", "math/rand/...", "crypto/rand"}},
		Why:       "outcome is a pure function of the result: it does no I/O and uses no random numbers",
	},
}

// sandboxBans: the parts of the sandbox are independent of each other, and only
// host/sandbox uses them.
var sandboxBans = []Ban{
	{
		Importers: Set{Of: []string{"./..."}, Except: []string{"./host/sandbox/..."}},
		Imported:  Set{Of: []string{"./host/sandbox/..."}, Except: []string{"./host/sandbox"}},
		Why:       "limits hold only where the parts work together: use them through host/sandbox",
	},
	{
		Importers: Set{Of: []string{"./host/sandbox/..."}, Except: []string{"./host/sandbox"}},
		Imported:  Set{Of: []string{"./host/sandbox/..."}, Except: []string{"./host/sandbox/module"}},
		Why:       "the parts of the sandbox share only what a module is: host/sandbox connects them",
	},
	{
		Importers: Set{Of: []string{"./host/sandbox/module", "./host/sandbox/meter", "./host/sandbox/schedule", "./host/sandbox/deadline"}},
		Imported:  Set{Of: []string{"github.com/tetratelabs/wazero/..."}},
		Why:       "reading hostile bytes and bounding what runs must not depend on the engine",
	},
}

// stages are the folders of the pipeline, in the order in which data flows
// through them. The worker, host/dispatch, is not one of them: it drives them.
var stages = []string{
	"./host/source/...", "./host/catalog/...", "./host/cache/...", "./host/queue/...",
	"./host/sandbox/...", outcome, "./host/effect/...", "./host/telemetry/...", "./host/serve/...",
}

const (
	// outcome is the one stage that every folder may import: a pure function of
	// plain values, which an interface would only hide.
	outcome = "./host/outcome/..."

	dispatch = "./host/dispatch/..." // the worker
	runner   = "./host/runner/..."   // one running plugin
	wiring   = "./host"              // package host
)

// leaves are the folders of host that are no stages and that stages may import:
// the values that stages exchange, and helpers.
var leaves = []string{
	"./host/access/...", "./host/certificates/...", "./host/config/...", "./host/events/...", "./host/kube/...", "./host/object/...", "./host/rights/...", "./host/sanitize/...",
	"./host/internal/...",
}

// stageBans: stages know neither each other nor what drives them. Only dispatch,
// the runner and the wiring know several of them, and host/inspect, which shows
// what they would do with a plugin.
func stageBans() []Ban {
	bans := []Ban{
		{
			Importers: Set{Of: []string{"./host/..."}, Except: []string{wiring}},
			Imported:  Set{Of: []string{wiring}},
			Why:       "package host wires the others and is imported by commands only",
		},
		{
			Importers: Set{Of: []string{"./host/..."}, Except: []string{wiring, runner, "./host/with/..."}},
			Imported:  Set{Of: []string{runner}},
			Why:       "the runner connects the stages for one plugin: only the wiring and the capabilities use it",
		},
		{
			Importers: Set{Of: []string{"./..."}},
			Imported:  Set{Of: []string{"html/template", "text/template"}},
			Why:       "a template calls methods by name, so that the linker keeps every method of a program: 18 MB",
		},
		{
			Importers: Set{Of: []string{"./host/...", "./cmd/thole/..."}, Except: []string{"./host/internal/...", "./host/inspect/..."}},
			Imported: Set{Of: []string{
				"k8s.io/client-go/kubernetes/...", "k8s.io/client-go/informers/...", "k8s.io/client-go/discovery/...",
				"k8s.io/client-go/dynamic/dynamicinformer", "k8s.io/client-go/tools/leaderelection/...",
			}},
			Why: "they link the types of all API groups: host/kube has clients for those that a host uses",
		},
		{
			Importers: Set{Of: []string{"./host/...", "./cmd/thole/..."}, Except: []string{"./host/internal/..."}},
			Imported:  Set{Of: []string{"go/...", "golang.org/x/tools/...", "sigs.k8s.io/controller-tools/...", "./sdk/...", "./internal/toolchain/..."}},
			Why:       "tools for a workstation are in cmd/thole-tools: the program that runs in a cluster does without them",
		},
		{
			Importers: Set{Of: slices.Concat(stages, leaves)},
			Imported:  Set{Of: []string{dispatch}},
			Why:       "dispatch drives the stages and imports them: what a stage needs of it is an argument",
		},
		{
			Importers: Set{Of: []string{dispatch}},
			Imported: Set{Of: []string{"..."}, Except: slices.Concat(leaves, []string{
				"std", "./abi/...", dispatch, "./host/queue/...", "./host/cache/...", "./host/sandbox/...", outcome, "./host/effect/...", "./host/access/...",
				"github.com/hashicorp/go-hclog", "golang.org/x/time/...", "k8s.io/apimachinery/...", "k8s.io/utils/...",
			})},
			Why: "dispatch drives queue, cache, sandbox, outcome and effect; what loads plugins and what is shown of them is not its concern",
		},
		{
			Importers: Set{Of: []string{"./host/events/..."}},
			Imported:  Set{Of: []string{"..."}, Except: []string{"std", "./abi/...", "./host/events/..."}},
			Why:       "events is a leaf: every stage may emit events, and every observer may read them",
		},
		{
			Importers: Set{Of: []string{"./host/sanitize/..."}},
			Imported:  Set{Of: []string{"..."}, Except: []string{"std", "./abi/rawjson", "./host/sanitize/..."}},
			Why:       "sanitize is a leaf: it cleans text, whatever the text is about",
		},
		{
			Importers: Set{Of: []string{"./host/object/..."}},
			Imported:  Set{Of: []string{"./host/..."}, Except: []string{"./host/object/...", "./host/internal/..."}},
			Why:       "object is a value that all stages exchange: it cannot depend on one of them",
		},
		{
			Importers: Set{Of: []string{"./host/rights/..."}},
			Imported:  Set{Of: []string{"./host/..."}, Except: []string{"./host/object/...", "./host/rights/..."}},
			Why:       "rights decides about plain values: a table of cases must be able to test all of it",
		},
		{
			Importers: Set{Of: []string{"./host/access/..."}},
			Imported:  Set{Of: []string{"./host/..."}, Except: []string{"./host/access/...", "./host/internal/...", "./host/kube/...", "./host/object/...", "./host/rights/..."}},
			Why:       "access asks the API server about accounts: for whom, and what follows, is decided by its callers",
		},
		{
			Importers: Set{Of: []string{"./host/with/http/egress/..."}},
			Imported:  Set{Of: []string{"./host/..."}, Except: []string{"./host/with/http/egress/...", "./host/events/...", "./host/kube/...", "./host/rights/...", "./host/sanitize/..."}},
			Why:       "egress decides what a plugin may reach outside: nothing else of the host may have a say in it",
		},
		{
			Importers: Set{Of: []string{"./..."}, Except: []string{"./cmd/...", "./host/internal/...", "./host/with/standard", "./host/with/timers/...", "./host/with/changes/...", "./host/with/http/...", "./host/with/cloudevents/...", "./host/with/leaderelection/..."}},
			Imported:  Set{Of: []string{"./host/with/..."}, Except: []string{"./host/with", "./host/with/timers/schedule", "./host/with/changes/handled"}},
			Why:       "a capability can be left out: only the list of the program knows it",
		},
		{
			Importers: Set{Of: []string{"./host/with/http/..."}},
			Imported:  Set{Of: []string{"./host/with/..."}, Except: []string{"./host/with", "./host/with/http/..."}},
			Why:       "http needs no other capability",
		},
		{
			Importers: Set{Of: []string{"./host/with/leaderelection/..."}},
			Imported:  Set{Of: []string{"./host/with/..."}, Except: []string{"./host/with", "./host/with/leaderelection/..."}},
			Why:       "leaderelection needs no other capability",
		},
		{
			Importers: Set{Of: []string{"./host/with/leaderelection/election/...", "./host/with/leaderelection/lastgood/..."}},
			Imported:  Set{Of: []string{"./host/..."}, Except: []string{"./host/with/leaderelection/election/...", "./host/with/leaderelection/lastgood/...", "./host/kube/...", "./host/internal/..."}},
			Why:       "who leads, and where modules are kept, is decided without a host: a test has nothing but an API server",
		},
		{
			Importers: Set{Of: []string{"./host/with/cloudevents/..."}},
			Imported:  Set{Of: []string{"./host/with/..."}, Except: []string{"./host/with", "./host/with/http/...", "./host/with/cloudevents/..."}},
			Why:       "cloudevents needs http, and no other capability",
		},
		{
			Importers: Set{Of: []string{"./host/..."}, Except: []string{wiring, "./host/with/...", "./host/internal/..."}},
			Imported:  Set{Of: []string{"./host/with"}},
			Why:       "the stages have hooks: who calls them, and what a capability is, is not their concern",
		},
		{
			Importers: Set{Of: []string{"./cmd/..."}},
			Imported:  Set{Of: []string{"./host/with/..."}, Except: []string{"./host/with", "./host/with/standard"}},
			Why:       "the capabilities of the program are those of one list",
		},
		{
			Importers: Set{Of: []string{"./host/config/..."}},
			Imported:  Set{Of: []string{"./host/..."}, Except: []string{"./host/config/...", "./host/rights/...", "./host/sandbox", "./host/sanitize/..."}},
			Why:       "config is read at the edge and used everywhere: it may depend on the sandbox's limits and on rights only",
		},
		{
			Importers: Set{Of: []string{"./host/finalizers/..."}},
			Imported:  Set{Of: slices.Concat(stages, []string{dispatch}), Except: []string{outcome, "./host/effect/..."}},
			Why:       "finalizers removes finalizers as effect does, and needs no running host",
		},
		{
			Importers: Set{Of: []string{"./host/kubeevents/..."}},
			Imported:  Set{Of: slices.Concat(stages, []string{dispatch}), Except: []string{outcome}},
			Why:       "kubeevents sends Kubernetes Events, whatever they are about",
		},
	}
	for _, stage := range stages {
		bans = append(bans, Ban{
			Importers: Set{Of: []string{stage}},
			Imported:  Set{Of: stages, Except: []string{stage, outcome}},
			Why:       "stages do not import each other: define an interface here; dispatch, the runner or the wiring passes the other stage in",
		})
	}
	return bans
}
