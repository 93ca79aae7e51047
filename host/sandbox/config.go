package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/memory"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/sandbox/schedule"
)

// Config configures a [Sandbox].
type Config struct {
	// CacheDir keeps compiled code across restarts; "" keeps it in memory
	// only. Code in it is executed: the directory must belong to this
	// process's user and not be writable by others. It is created if missing.
	CacheDir string
	// CacheBytes bounds the code in CacheDir: the least recently used code is
	// removed. 0 is 1 GiB.
	CacheBytes uint64
	// Compiler is a program that runs [Compiler], with its first arguments. Its
	// processes verify and compile modules, as many at once as there are
	// processors. Together they may have a quarter of the memory that this
	// process may use, but at least 192 MiB. nil: this process compiles, which
	// cannot be interrupted within a function.
	Compiler []string
	// LoadTimeout bounds the verification and compilation of one module, in
	// processor time, without the wait for its turn; a compilation that gets less
	// of a processor may take ten times as long. 0 is 1m. What a guest does while
	// it is loaded is bounded by [Limits.Deadline].
	LoadTimeout time.Duration
	// MemoryBytes is how much memory the instances and images of all guests
	// have together; 0 is half of what the process may use: of its control
	// groups' limit, or of the machine's memory. Beyond it idle instances are
	// dropped, calls of guests with more than an even share are ended for those
	// that have less, and growths and new instances are refused.
	MemoryBytes uint64
	// Capabilities are those of the host. A plugin that asks for another one is refused.
	Capabilities []Capability
	// Slots is how many guest calls run at once; 0 is GOMAXPROCS.
	Slots int
	// Metrics returns where the metrics of a plugin's calls go; nil discards
	// them.
	Metrics func(plugin string) Metrics
	// Logger receives what guests log while they are loaded, and messages of
	// the sandbox about a plugin; nil discards them.
	Logger hclog.Logger
}

const (
	defaultLoadTimeout = time.Minute
	minCompilerMemory  = 192 << 20
)

// Validate returns an error for values that are out of range. [New] checks the
// directory.
func (c Config) Validate() error {
	if c.LoadTimeout < 0 {
		return fmt.Errorf("validate sandbox config: load timeout %s is negative: use 0 for the default of %s", c.LoadTimeout, defaultLoadTimeout)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.LoadTimeout = cmp.Or(c.LoadTimeout, defaultLoadTimeout)
	if c.MemoryBytes == 0 {
		c.MemoryBytes = memory.DefaultLimit(os.DirFS("/"))
	}
	c.Slots = cmp.Or(c.Slots, runtime.GOMAXPROCS(0))
	if c.Metrics == nil {
		c.Metrics = func(string) Metrics { return noMetrics{} }
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Limits bound one plugin. A zero field stands for its default, which ends the
// comment.
type Limits struct {
	MemoryBytes uint64        // linear memory of one instance, in whole pages of 64 KiB; 64 MiB
	ModuleBytes int           // of the module; from twice [module.MaxSize] on its functions may be larger, too; [module.MaxSize]
	Deadline    time.Duration // of one call; 10s
	Fuel        int64         // of one call (package meter has the costs); 100,000,000,000
	OutputBytes int           // of one result; [abi.MaxOutput]
	ReplyBytes  int           // of one reply to get or list, larger ones are [abi.CodeTooLarge]; [abi.MaxReply]
	HostCalls   int           // get and list calls of one reconcile; 10,000
	LogBytes    int           // logged by one reconcile, the rest is dropped; 64 KiB
	StdioBytes  int           // kept of each of stdout and stderr, from the end; 16 KiB
	Instances   int           // calls at once; GOMAXPROCS
	// Waiting is added to Instances for a guest whose manifest has a capability that lets calls wait, see
	// [Import].Waits: those do not keep others from running.
	Waiting int
	// PoolNamespaces lets calls find what calls in other namespaces have left: in
	// modules of the standard Go compiler, whose state is kept between calls.
	PoolNamespaces bool
}

const (
	pageBytes      = 64 << 10
	maxMemoryBytes = 2 << 30 // so that sizes fit 32 bits in the engine, and addresses an i32
	maxInstances   = 1024
)

// defaultFuel is some seconds of what controllers do. A loop that does nearly
// nothing takes longer to use as much, and is ended by the deadline first.
const defaultFuel = 100_000_000_000

// WithDefaults returns the limits with the zero fields set.
func (l Limits) WithDefaults() Limits {
	l.MemoryBytes = cmp.Or(l.MemoryBytes, 64<<20)
	l.ModuleBytes = cmp.Or(l.ModuleBytes, module.MaxSize)
	l.Deadline = cmp.Or(l.Deadline, 10*time.Second)
	l.Fuel = cmp.Or(l.Fuel, defaultFuel)
	l.OutputBytes = cmp.Or(l.OutputBytes, abi.MaxOutput)
	l.ReplyBytes = cmp.Or(l.ReplyBytes, abi.MaxReply)
	l.HostCalls = cmp.Or(l.HostCalls, 10_000)
	l.LogBytes = cmp.Or(l.LogBytes, 64<<10)
	l.StdioBytes = cmp.Or(l.StdioBytes, 16<<10)
	l.Instances = cmp.Or(l.Instances, runtime.GOMAXPROCS(0))
	return l
}

// Validate returns an error that joins all values out of range. Zero is a valid
// value of every field.
func (l Limits) Validate() error {
	var errs []error
	if l.MemoryBytes%pageBytes != 0 || l.MemoryBytes > maxMemoryBytes {
		errs = append(errs, fmt.Errorf("memory of %d bytes: use a multiple of 64 KiB up to 2 GiB", l.MemoryBytes))
	}
	if l.Deadline < 0 {
		errs = append(errs, fmt.Errorf("deadline %s: use a positive duration", l.Deadline))
	}
	if l.Instances < 0 || l.Waiting < 0 || l.Instances+l.Waiting > maxInstances {
		errs = append(errs, fmt.Errorf("%d instances: use 1 to %d", l.Instances+l.Waiting, maxInstances))
	}
	for _, n := range []struct {
		what  string
		value int64
	}{
		{"of fuel", l.Fuel},
		{"module bytes", int64(l.ModuleBytes)},
		{"output bytes", int64(l.OutputBytes)},
		{"reply bytes", int64(l.ReplyBytes)},
		{"host calls", int64(l.HostCalls)},
		{"log bytes", int64(l.LogBytes)},
		{"stdio bytes", int64(l.StdioBytes)},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%d %s: use a positive number", n.value, n.what))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("validate plugin limits: %w", errors.Join(errs...))
}

// startPages returns with how many pages an instance of a module starts that
// declares minimum. Allocators such as TinyGo's double their memory when they
// grow. They can reach the limit only from limit/2^k, and would otherwise fail
// somewhere above half of it.
func (l Limits) startPages(minimum uint32) uint32 {
	if minimum == 0 {
		return 0
	}
	pages := uint32(l.MemoryBytes / pageBytes)
	for pages/2 >= minimum && pages%2 == 0 {
		pages /= 2
	}
	if pages >= 2*minimum {
		return minimum
	}
	return pages
}

// The limits whose hits are counted.
const (
	LimitMemory    = "memory"    // the guest did not get more memory
	LimitTimeout   = "timeout"   // a call was ended
	LimitFuel      = "fuel"      // a call was ended
	LimitOutput    = "output"    // a call was ended
	LimitReply     = "reply"     // a get or list returned [abi.CodeTooLarge]
	LimitHostCalls = "hostCalls" // a call was ended
	LimitLog       = "log"       // lines were dropped
	LimitInstances = "instances" // a call waited for the instance of another one
)

// LimitNames returns the limits whose hits are counted, for metrics that exist at
// zero.
func LimitNames() []string {
	return []string{
		LimitMemory, LimitTimeout, LimitFuel, LimitOutput,
		LimitReply, LimitHostCalls, LimitLog, LimitInstances,
	}
}

// Metrics receives what the calls of one plugin experience.
type Metrics interface {
	schedule.Metrics
	// Limited counts a limit that ended or bounded a call. It is called once
	// for each call and limit, however often the limit was hit.
	Limited(limit string)
}

type noMetrics struct{}

func (noMetrics) Waited(time.Duration) {}
func (noMetrics) HandedOver()          {}
func (noMetrics) Limited(string)       {}
