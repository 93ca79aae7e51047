package host

import (
	"bytes"
	"encoding/json"
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

// limit is one field of [Limits] as a number.
type limit struct {
	name                  string
	value                 float64
	standard, least, most float64
	set                   func(float64)
	text                  func(float64) string // as people write the value
}

func (l limit) fits(value float64) error {
	if value < l.least || value > l.most {
		return fmt.Errorf("limits.%s: %s is not between %s and %s", l.name, l.text(value), l.text(l.least), l.text(l.most))
	}
	return nil
}

func numeric[T ~int | ~int64 | ~float32](name string, field *T, standard, least, most T) limit {
	return limit{
		name: name, value: float64(*field),
		standard: float64(standard), least: float64(least), most: float64(most),
		set:  func(v float64) { *field = T(v) },
		text: func(v float64) string { return fmt.Sprint(T(v)) },
	}
}

// all lists the limits, with their defaults and what they may be.
func (l *Limits) all() []limit {
	return []limit{
		numeric("memoryMiB", &l.MemoryMiB, 64, 1, 2048),
		numeric("timeout", &l.Timeout.Duration, 10*time.Second, time.Millisecond, time.Hour),
		numeric("fuel", &l.Fuel, 100_000_000_000, 1_000_000, 1_000_000_000_000_000),
		numeric("concurrency", &l.Concurrency, 8, 1, 1000),
		numeric("instances", &l.Instances, slots(), 1, 1024),
		numeric("outputKiB", &l.OutputKiB, abi.MaxOutput>>10, 1, abi.MaxOutput>>10),
		numeric("intents", &l.Intents, abi.MaxIntents, 1, abi.MaxIntents),
		numeric("hostCalls", &l.HostCalls, 10_000, 1, 1_000_000),
		numeric("logKiB", &l.LogKiB, 64, 1, 1024),
		numeric("writesPerSecond", &l.WritesPerSecond, 20, 0.1, 10_000),
		numeric("writeBurst", &l.WriteBurst, 40, 1, 10_000),
	}
}

// UnmarshalJSON refuses a limit of zero, which would be no limit but the
// default.
func (l *Limits) UnmarshalJSON(text []byte) error {
	type plain Limits
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode((*plain)(l)); err != nil {
		return err
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	for _, f := range l.all() {
		if _, ok := given[f.name]; ok && f.value == 0 {
			return f.fits(0)
		}
	}
	return nil
}

func (l Limits) withDefaults() Limits {
	for _, f := range l.all() {
		if f.value == 0 {
			f.set(f.standard)
		}
	}
	return l
}

// validate says everything that is wrong with limits whose defaults are
// filled in.
func (l Limits) validate() error {
	var problems []error
	for _, f := range l.all() {
		problems = append(problems, f.fits(f.value))
	}
	return errors.Join(problems...)
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
			problems = append(problems, fmt.Errorf("limits.%s: %s is more than the %s of the host: lower it, or raise limits.%[1]s in the file of --config", ask.name, ask.text(ask.value), ceiling.text(ceiling.value)))
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
