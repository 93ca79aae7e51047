package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestEveryLimitIsInTheList: what is not there has no default, no bounds and
// no ceiling.
func TestEveryLimitIsInTheList(t *testing.T) {
	var limits Limits
	var listed []string
	for _, l := range limits.all() {
		listed = append(listed, strings.TrimPrefix(l.path, "limits."))
		if l.standard < l.least || l.standard > l.most {
			t.Errorf("%s: the default %v is not between %v and %v", l.path, l.standard, l.least, l.most)
		}
	}
	if known := fieldsOf(reflect.TypeFor[Limits]()).names; !reflect.DeepEqual(listed, known) {
		t.Errorf("listed are %v\nfields are %v", listed, known)
	}
}

func TestLimitsThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		"memoryMiB: -1":          "limits.memoryMiB: -1 is not between 1 and 2048",
		"memoryMiB: 4096":        "limits.memoryMiB: 4096 is not between 1 and 2048",
		"timeout: 1us":           "limits.timeout: 1µs is not between 1ms and 1h0m0s",
		"fuel: 5":                "limits.fuel: 5 is not between 1000000 and 1000000000000000",
		"instances: 2000":        "limits.instances: 2000 is not between 1 and 1024",
		"outputKiB: 2000":        "limits.outputKiB: 2000 is not between 1 and 1536",
		"intents: 257":           "limits.intents: 257 is not between 1 and 256",
		"hostCalls: -1":          "limits.hostCalls: -1 is not between 1 and 1000000",
		"logKiB: 5000":           "limits.logKiB: 5000 is not between 1 and 1024",
		"writesPerSecond: 0.001": "limits.writesPerSecond: 0.001 is not between 0.1 and 10000",
		"writeBurst: -4":         "limits.writeBurst: -4 is not between 1 and 10000",
		"concurrency: 1001":      "limits.concurrency: 1001 is not between 1 and 1000",
		// Zero is no limit in Go, the default in the file's absence, and
		// neither to whoever writes it.
		"writesPerSecond: 0": "limits.writesPerSecond: 0 is not between 0.1 and 10000",
		"timeout: 0s":        "limits.timeout: 0s is not between 1ms and 1h0m0s",
		"fuels: 1":           `unknown field "fuels" in limits, did you mean "fuel"?`,
		"memory: 1":          `unknown field "memory" in limits; known there are memoryMiB, timeout, fuel`,
		"intents: 1.5":       "limits.intents: 1.5, which is no whole number: write one, such as 8",
	} {
		c, err := parseConfig([]byte("plugins: p\nlimits: {" + text + "}"))
		if err == nil {
			err = c.WithDefaults().Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("configuration with %s: %v, want %s", text, err, want)
		}
		if _, err := (Config{}).WithDefaults().ReadPolicy("p", []byte("limits: {"+text+"}")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("policy with %s: %v, want %s", text, err, want)
		}
	}
}

func TestAPolicyOnlyNarrowsTheLimits(t *testing.T) {
	ceiling := Config{Limits: Limits{MemoryMiB: 32, WritesPerSecond: 2.5}}.WithDefaults()
	p, err := ceiling.ReadPolicy("p", []byte("limits: {memoryMiB: 16, timeout: 2s, fuel: 10000000, intents: 256}"))
	if err != nil {
		t.Fatal(err)
	}
	want := ceiling.Limits
	want.MemoryMiB, want.Timeout.Duration, want.Fuel = 16, 2*time.Second, 10_000_000
	if p.Limits != want {
		t.Errorf("limits %+v\nwant   %+v", p.Limits, want)
	}
	if p, err = ceiling.ReadPolicy("p", nil); err != nil || p.Limits != ceiling.Limits {
		t.Errorf("without a policy: %+v, %v", p.Limits, err)
	}
	for text, want := range map[string]string{
		"memoryMiB: 33":        "limits.memoryMiB: 33 is more than the 32 of the host: lower it, or raise limits.memoryMiB in the file of --config",
		"timeout: 11s":         "limits.timeout: 11s is more than the 10s of the host",
		"writesPerSecond: 2.6": "limits.writesPerSecond: 2.6 is more than the 2.5 of the host",
		"concurrency: 9":       "limits.concurrency: 9 is more than the 8 of the host",
	} {
		_, err := ceiling.ReadPolicy("p", []byte("limits: {"+text+"}"))
		if err == nil || !strings.Contains(err.Error(), "p.yaml: "+want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestEveryProblemOfTheLimitsIsNamed(t *testing.T) {
	_, err := (Config{}).WithDefaults().ReadPolicy("p", []byte("limits: {memoryMiB: 65, timeout: 11s, concurrency: 9}"))
	for _, want := range []string{"memoryMiB", "timeout", "concurrency"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}
