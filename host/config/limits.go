package config

import (
	"fmt"
	"runtime"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox"
)

// Limits bound one plugin. In the configuration they are the ceiling of every
// plugin, and a policy file lowers them for one. What a plugin's manifest asks
// for cannot exceed either. A zero field stands for the default in the
// configuration, and for the ceiling in a policy.
type Limits struct {
	// MemoryMiB is the linear memory of one instance; default 64.
	MemoryMiB int `json:"memoryMiB,omitempty"`
	// ModuleMiB is the size of the plugin's file; default 16. From 32 on its functions may be
	// larger by as much, 2 times at 32: compiling them takes more memory and time, so raise it only
	// for modules that you trust.
	ModuleMiB int `json:"moduleMiB,omitempty"`
	// Timeout is the deadline of one call; default 10s.
	Timeout Duration `json:"timeout,omitzero"`
	// Fuel is how much one call may execute: a simple instruction costs 1, an
	// access to memory 4, a call 8, and a branch as much as its longest path;
	// default 100,000,000,000, which is about three seconds of computing.
	Fuel int64 `json:"fuel,omitempty"`
	// Concurrency is how many objects of one controller are reconciled at
	// once, even if the manifest asks for more; default 8.
	Concurrency int `json:"concurrency,omitempty"`
	// Instances is how many calls of the plugin run at once, whatever the
	// concurrency of its controllers; each has its own memory. Default one
	// for each CPU.
	Instances int `json:"instances,omitempty"`
	// OutputKiB is the size of one result; default and maximum 1536.
	OutputKiB int `json:"outputKiB,omitempty"`
	// Intents is the number of entries in release, apply, delete and events of one
	// result together; default 256. They are performed one after the other: thousands keep
	// one of the Concurrency busy for as long as the API server takes, and must fit into
	// OutputKiB.
	Intents int `json:"intents,omitempty"`
	// HostCalls is how many host functions one call may call; default 10000.
	HostCalls int `json:"hostCalls,omitempty"`
	// LogKiB is how much one call may log; the rest is dropped. Default 64.
	LogKiB int `json:"logKiB,omitempty"`
	// WritesPerSecond and WriteBurst bound the writes to the API server. The
	// default of WritesPerSecond is its maximum, 100000, which is no limit; that
	// of WriteBurst is 40. Writes beyond them are postponed.
	WritesPerSecond float32 `json:"writesPerSecond,omitempty"`
	WriteBurst      int     `json:"writeBurst,omitempty"`
	// StoredMiB is how much the plugin may have stored in objects: what it has applied,
	// and its part of the status and of the patches of primaries. It is counted again
	// when the host starts. Default 256.
	StoredMiB int `json:"storedMiB,omitempty"`
	// ChurnMiB is how much the plugin may write in 5 minutes, all at once after a pause
	// of that length; each write counts with the whole object. Default 512.
	ChurnMiB int `json:"churnMiB,omitempty"`
}

// maxInstances also bounds the default of limits.instances, which is the number of
// processors.
const maxInstances = 1024

// numbers returns all limits with their defaults and ranges.
func (l *Limits) numbers() []number {
	return []number{
		numberOf("limits.memoryMiB", &l.MemoryMiB, 64, 1, 2048),
		numberOf("limits.moduleMiB", &l.ModuleMiB, 16, 1, 128),
		numberOf("limits.timeout", &l.Timeout.Duration, 10*time.Second, time.Millisecond, time.Hour),
		numberOf("limits.fuel", &l.Fuel, 100_000_000_000, 1_000_000, 1_000_000_000_000_000),
		numberOf("limits.concurrency", &l.Concurrency, 8, 1, 1000),
		numberOf("limits.instances", &l.Instances, min(runtime.GOMAXPROCS(0), maxInstances), 1, maxInstances),
		numberOf("limits.outputKiB", &l.OutputKiB, abi.MaxOutput>>10, 1, abi.MaxOutput>>10),
		numberOf("limits.intents", &l.Intents, abi.MaxIntents, 1, abi.MaxAllowedIntents),
		numberOf("limits.hostCalls", &l.HostCalls, 10_000, 1, 1_000_000),
		numberOf("limits.logKiB", &l.LogKiB, 64, 1, 1024),
		numberOf("limits.writesPerSecond", &l.WritesPerSecond, unlimitedWrites, 0.1, unlimitedWrites),
		numberOf("limits.writeBurst", &l.WriteBurst, 40, 1, 10_000),
		numberOf("limits.storedMiB", &l.StoredMiB, 256, 1, 1<<20),
		numberOf("limits.churnMiB", &l.ChurnMiB, 512, 1, 1<<20),
	}
}

// unlimitedWrites is the number of writes per second that is no limit.
const unlimitedWrites = 100_000

// LimitedWrites returns the writes per second of the plugin, 0 if they are
// unlimited.
func (l Limits) LimitedWrites() float32 {
	if l.WritesPerSecond >= unlimitedWrites {
		return 0
	}
	return l.WritesPerSecond
}

// Sandbox returns the limits that the sandbox enforces.
func (l Limits) Sandbox() sandbox.Limits {
	return sandbox.Limits{
		MemoryBytes: uint64(l.MemoryMiB) << 20,
		ModuleBytes: l.ModuleMiB << 20,
		Deadline:    l.Timeout.Duration,
		Fuel:        l.Fuel,
		Instances:   l.Instances,
		OutputBytes: l.OutputKiB << 10,
		HostCalls:   l.HostCalls,
		LogBytes:    l.LogKiB << 10,
	}
}

// Number is a number of a section, see [Bounded].
type Number = number

// NumberOf returns the number in target, a field of a section that has its default already, and its range,
// which is above 0. at is its path.
func NumberOf[T ~int | ~int64 | ~float32](at *field.Path, target *T, minimum, maximum T) Number {
	return numberOf(at.String(), target, 0, minimum, maximum)
}

// number is a number or a duration of the configuration. As float64 they are
// compared and shown; the fields keep their own types. Only a Resync of more
// than 100 days is rounded, by nanoseconds.
type number struct {
	path     string // in the file, such as "limits.fuel"
	value    float64
	standard float64 // the default; 0 if it is not a constant
	minimum  float64 // above 0, so that 0 is never valid
	maximum  float64
	set      func(float64)     // stores a value in the field
	convert  func(float64) any // converts a value to the type of the field
}

func numberOf[T ~int | ~int64 | ~float32](path string, target *T, standard, minimum, maximum T) number {
	return number{
		path: path, value: float64(*target),
		standard: float64(standard), minimum: float64(minimum), maximum: float64(maximum),
		set:     func(v float64) { *target = T(v) },
		convert: func(v float64) any { return T(v) },
	}
}

// Validate returns an error if the value is out of its range.
func (n number) Validate() error {
	if n.value < n.minimum || n.value > n.maximum {
		return n.invalid("must be between %v and %v", n.convert(n.minimum), n.convert(n.maximum))
	}
	return nil
}

// invalid returns an error about the value.
func (n number) invalid(format string, args ...any) error {
	value := n.convert(n.value)
	if d, ok := value.(time.Duration); ok {
		value = d.String() // field.Invalid would show nanoseconds
	}
	return field.Invalid(field.NewPath(n.path), value, fmt.Sprintf(format, args...))
}
