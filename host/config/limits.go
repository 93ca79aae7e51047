package config

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox"
)

// Limits bound one plugin. In the configuration they are the ceiling of every
// plugin, in a policy file what is left of it for one; a manifest asks for
// less than either. A field that is not there is the default, or the ceiling.
type Limits struct {
	// MemoryMiB is the linear memory of one instance; default 64.
	MemoryMiB int `json:"memoryMiB,omitempty"`
	// Timeout is the deadline of one call; default 10s.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Fuel is how many instructions one call may use, where branches count as
	// their longest way; default 100,000,000,000, some seconds of computing.
	Fuel int64 `json:"fuel,omitempty"`
	// Concurrency is how many objects of one controller are reconciled at
	// once, whatever its manifest asks for; default 8.
	Concurrency int `json:"concurrency,omitempty"`
	// Instances is how many calls of the plugin run at once, whatever the
	// concurrency of its controllers; each has its own memory. Default one
	// for each CPU.
	Instances int `json:"instances,omitempty"`
	// OutputKiB is the size of one result; default and most 1536.
	OutputKiB int `json:"outputKiB,omitempty"`
	// Intents is how many entries apply, delete and events of one result have
	// together; default and most 256.
	Intents int `json:"intents,omitempty"`
	// HostCalls is how often one call may ask the host for something; default
	// 10000.
	HostCalls int `json:"hostCalls,omitempty"`
	// LogKiB is how much one call may log, the rest is dropped; default 64.
	LogKiB int `json:"logKiB,omitempty"`
	// WritesPerSecond and WriteBurst bound the writes to the API server;
	// default 20 and 40. Beyond them writes wait.
	WritesPerSecond float32 `json:"writesPerSecond,omitempty"`
	WriteBurst      int     `json:"writeBurst,omitempty"`
}

// all lists the limits, with their defaults and what they may be.
func (l *Limits) all() []number {
	return []number{
		numeric("limits.memoryMiB", &l.MemoryMiB, 64, 1, 2048),
		numeric("limits.timeout", &l.Timeout.Duration, 10*time.Second, time.Millisecond, time.Hour),
		numeric("limits.fuel", &l.Fuel, 100_000_000_000, 1_000_000, 1_000_000_000_000_000),
		numeric("limits.concurrency", &l.Concurrency, 8, 1, 1000),
		numeric("limits.instances", &l.Instances, slots(), 1, 1024),
		numeric("limits.outputKiB", &l.OutputKiB, abi.MaxOutput>>10, 1, abi.MaxOutput>>10),
		numeric("limits.intents", &l.Intents, abi.MaxIntents, 1, abi.MaxIntents),
		numeric("limits.hostCalls", &l.HostCalls, 10_000, 1, 1_000_000),
		numeric("limits.logKiB", &l.LogKiB, 64, 1, 1024),
		numeric("limits.writesPerSecond", &l.WritesPerSecond, 20, 0.1, 10_000),
		numeric("limits.writeBurst", &l.WriteBurst, 40, 1, 10_000),
	}
}

// narrow puts what a policy asks for in the place of the ceiling, and says
// everything that is more than it.
func (l Limits) narrow(policy Limits) (Limits, error) {
	var problems []error
	asked := policy.all()
	for i, ceiling := range l.all() {
		ask := asked[i]
		switch err := ask.fits(ask.value); {
		case ask.value == 0:
		case err != nil:
			problems = append(problems, err)
		case ask.value > ceiling.value:
			problems = append(problems, fmt.Errorf("%s: %s is more than the %s of the host: lower it, or raise %[1]s in the file of --config", ask.path, ask.text(ask.value), ceiling.text(ceiling.value)))
		default:
			ceiling.set(ask.value)
		}
	}
	return l, errors.Join(problems...)
}

// Sandbox returns those of the limits that the sandbox keeps.
func (l Limits) Sandbox() sandbox.Limits {
	return sandbox.Limits{
		MemoryBytes: uint64(l.MemoryMiB) << 20,
		Deadline:    l.Timeout.Duration,
		Fuel:        l.Fuel,
		Instances:   l.Instances,
		OutputBytes: l.OutputKiB << 10,
		HostCalls:   l.HostCalls,
		LogBytes:    l.LogKiB << 10,
	}
}
