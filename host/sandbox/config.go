package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/memory"
)

// Config configures a [Sandbox].
type Config struct {
	// CacheDir keeps compiled code across restarts; "" keeps it in memory
	// only. Code in it is executed: the directory must belong to this
	// process's user and be writable by nobody else. It is made if missing.
	CacheDir string
	// CacheBytes is how much of the disk the code in CacheDir may take: what
	// was used least lately goes. 0 is 1 GiB.
	CacheBytes uint64
	// Compiler is a program that runs [Compiler], with its first arguments: it
	// is given what is to be compiled for the cache on disk. nil: this process
	// compiles, which then cannot be interrupted inside of a function.
	Compiler []string
	// CompilerMemory is how much memory a compiler may have, in bytes; 0 is a
	// quarter of what this process may use, between 192 MiB and 1 GiB.
	CompilerMemory uint64
	// LoadTimeout bounds the verification and compilation of one module, from its
	// turn on; 0 is 1m. What a guest does while it is loaded is bounded by
	// [Limits.Deadline].
	LoadTimeout time.Duration
	// IdleInstances is how long an instance is kept that nobody calls, and
	// IdleCode how long the native code of a plugin that has no instance; 0
	// is 1m and 5m. Code goes only if the cache on disk has it and
	// [Plugin.Source] is there.
	IdleInstances, IdleCode time.Duration
	// MemoryBytes is how much memory the instances and images of all guests
	// have together; 0 is half of what the process may use: of its control
	// groups' limit, or of the machine's memory. Beyond it idle instances are
	// dropped, and then growths and new instances are refused.
	MemoryBytes uint64
	// Slots is how many guest calls run at once; 0 is GOMAXPROCS.
	Slots int
	// Metrics is told what the calls of a plugin meet; nil: nobody asks.
	Metrics func(plugin string) Metrics
	// Logger gets what guests log while they are loaded, and what the
	// sandbox notices about a plugin; nil discards it.
	Logger hclog.Logger
}

const (
	defaultLoadTimeout  = time.Minute
	leastCompilerMemory = 192 << 20
	mostCompilerMemory  = 1 << 30
)

// Validate says what is wrong with the values, apart from the directory,
// which [New] looks at.
func (c Config) Validate() error {
	if c.LoadTimeout < 0 {
		return fmt.Errorf("validate sandbox config: load timeout %s is negative: use 0 for the default of %s", c.LoadTimeout, defaultLoadTimeout)
	}
	if c.IdleInstances < 0 || c.IdleCode < 0 {
		return fmt.Errorf("validate sandbox config: idle times %s and %s must be positive: use 0 for the defaults", c.IdleInstances, c.IdleCode)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.LoadTimeout == 0 {
		c.LoadTimeout = defaultLoadTimeout
	}
	if c.CompilerMemory == 0 {
		quarter := memory.Default(os.DirFS("/")) / 2
		c.CompilerMemory = min(max(quarter, leastCompilerMemory), mostCompilerMemory)
	}
	c.IdleInstances = or(c.IdleInstances, defaultIdleInstances)
	c.IdleCode = or(c.IdleCode, defaultIdleCode)
	if c.MemoryBytes == 0 {
		c.MemoryBytes = memory.Default(os.DirFS("/"))
	}
	if c.Slots == 0 {
		c.Slots = runtime.GOMAXPROCS(0)
	}
	if c.Metrics == nil {
		c.Metrics = func(string) Metrics { return noMetrics{} }
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Limits bound one plugin. A zero field means its default.
type Limits struct {
	MemoryBytes uint64        // linear memory of one instance, whole pages of 64 KiB; 64 MiB
	Deadline    time.Duration // of one call; 10s
	Fuel        int64         // of one call, in instructions; 100,000,000,000
	OutputBytes int           // of one result; [abi.MaxOutput]
	ReplyBytes  int           // of one reply to get or list, beyond it the guest gets -6; 16 MiB
	HostCalls   int           // get and list calls in one reconcile; 10,000
	LogBytes    int           // logged in one reconcile, the rest is dropped; 64 KiB
	StdioBytes  int           // kept of each of stdout and stderr, the last ones; 16 KiB
	Instances   int           // calls at once; GOMAXPROCS
}

const (
	pageBytes       = 64 << 10
	mostMemoryBytes = 2 << 30 // so that sizes fit the engine's 32 bits, and addresses an i32
	mostInstances   = 1024
)

// WithDefaults fills the zero fields in.
func (l Limits) WithDefaults() Limits {
	l.MemoryBytes = or(l.MemoryBytes, 64<<20)
	l.Deadline = or(l.Deadline, 10*time.Second)
	l.Fuel = or(l.Fuel, defaultFuel)
	l.OutputBytes = or(l.OutputBytes, abi.MaxOutput)
	l.ReplyBytes = or(l.ReplyBytes, 16<<20)
	l.HostCalls = or(l.HostCalls, 10_000)
	l.LogBytes = or(l.LogBytes, 64<<10)
	l.StdioBytes = or(l.StdioBytes, 16<<10)
	l.Instances = or(l.Instances, runtime.GOMAXPROCS(0))
	return l
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// Validate says what is wrong with the values; zero fields are fine.
func (l Limits) Validate() error {
	var errs []error
	if l.MemoryBytes%pageBytes != 0 || l.MemoryBytes > mostMemoryBytes {
		errs = append(errs, fmt.Errorf("memory of %d bytes: use a multiple of 64 KiB up to 2 GiB", l.MemoryBytes))
	}
	if l.Deadline < 0 {
		errs = append(errs, fmt.Errorf("deadline %s: use a positive duration", l.Deadline))
	}
	if l.Fuel < 0 {
		errs = append(errs, fmt.Errorf("fuel of %d instructions: use a positive number", l.Fuel))
	}
	if l.Instances < 0 || l.Instances > mostInstances {
		errs = append(errs, fmt.Errorf("%d instances: use 1 to %d", l.Instances, mostInstances))
	}
	for _, n := range []struct {
		what  string
		value int
	}{
		{"output bytes", l.OutputBytes},
		{"reply bytes", l.ReplyBytes},
		{"host calls", l.HostCalls},
		{"log bytes", l.LogBytes},
		{"stdio bytes", l.StdioBytes},
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
