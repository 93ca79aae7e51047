package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/sandbox"
)

// A limit that numbers does not return has no default, no range and no ceiling.
func TestNumbersReturnsEveryLimit(t *testing.T) {
	var listed []string
	for _, n := range new(Limits).numbers() {
		listed = append(listed, strings.TrimPrefix(n.path, "limits."))
		if n.standard < n.minimum || n.standard > n.maximum {
			t.Errorf("%s: the default %v is not between %v and %v", n.path, n.standard, n.minimum, n.maximum)
		}
	}
	slices.Sort(listed)
	if known := fieldsOf(reflect.TypeFor[Limits](), "").paths(); !slices.Equal(listed, known) {
		t.Errorf("listed %v\nfields %v", listed, known)
	}
}

func TestLimitOutOfRangeIsRefused(t *testing.T) {
	for limit, want := range map[string]string{
		"memoryMiB: -1":          "limits.memoryMiB: Invalid value: -1: must be between 1 and 2048",
		"memoryMiB: 4096":        "limits.memoryMiB: Invalid value: 4096: must be between 1 and 2048",
		"timeout: 1us":           `limits.timeout: Invalid value: "1µs": must be between 1ms and 1h0m0s`,
		"fuel: 5":                "limits.fuel: Invalid value: 5: must be between 1000000 and 1000000000000000",
		"instances: 2000":        "limits.instances: Invalid value: 2000: must be between 1 and 1024",
		"outputKiB: 2000":        "limits.outputKiB: Invalid value: 2000: must be between 1 and 1536",
		"intents: 10001":         "limits.intents: Invalid value: 10001: must be between 1 and 10000",
		"hostCalls: -1":          "limits.hostCalls: Invalid value: -1: must be between 1 and 1000000",
		"logKiB: 5000":           "limits.logKiB: Invalid value: 5000: must be between 1 and 1024",
		"writesPerSecond: 0.001": "limits.writesPerSecond: Invalid value: 0.001: must be between 0.1 and 100000",
		"writeBurst: -4":         "limits.writeBurst: Invalid value: -4: must be between 1 and 10000",
		"concurrency: 1001":      "limits.concurrency: Invalid value: 1001: must be between 1 and 1000",
	} {
		t.Run(limit, func(t *testing.T) {
			c, err := Read(write(t, "plugins: p\nlimits: {"+limit+"}"))
			if err == nil {
				err = c.WithDefaults().Validate()
			}
			wantProblems(t, err, want)
			_, err = Config{}.WithDefaults().ReadPolicy("p", versioned("limits: {"+limit+"}"))
			wantProblems(t, err, "p.yaml: "+want)
		})
	}
}

func TestSandboxLimitsAreInTheUnitsOfTheSandbox(t *testing.T) {
	got := Limits{
		MemoryMiB: 2, Timeout: Duration{time.Second}, Fuel: 3, Instances: 4, OutputKiB: 5, HostCalls: 6, LogKiB: 7,
	}.Sandbox()
	want := sandbox.Limits{
		MemoryBytes: 2 << 20, Deadline: time.Second, Fuel: 3, Instances: 4, OutputBytes: 5 << 10, HostCalls: 6, LogBytes: 7 << 10,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
