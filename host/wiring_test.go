package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/source"
)

// loaderWithMemory returns a loader whose guests have so many bytes together.
func loaderWithMemory(t *testing.T, bytes uint64) loader {
	t.Helper()
	s, err := sandbox.New(t.Context(), sandbox.Config{MemoryBytes: bytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return loader{s}
}

func tckModule(t *testing.T, name string) *catalog.Module {
	t.Helper()
	c, ok := tck.CaseOf(name)
	if !ok {
		t.Fatalf("the kit has no case %q", name)
	}
	wasm := c.Wasm()
	policy, err := config.Config{}.WithDefaults().ReadPolicy(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &catalog.Module{
		Name: name, Digest: fmt.Sprintf("%x", sha256.Sum256(wasm)),
		Read: func() ([]byte, error) { return wasm, nil }, Policy: policy,
	}
}

func TestAPluginWaitsForMemoryThatOthersUse(t *testing.T) {
	_, err := loaderWithMemory(t, 100_000).Load(t.Context(), tckModule(t, "correct"))
	if _, waits := errors.AsType[*catalog.WaitError](err); !waits || !strings.Contains(err.Error(), "raise guestMemoryMiB") {
		t.Errorf("got %v", err)
	}
}

func TestAGuestThatUsesUpTheHostsMemoryIsToBlame(t *testing.T) {
	guest, err := loaderWithMemory(t, 4<<20).Load(t.Context(), tckModule(t, "memory-bomb"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = guest.Reconcile(t.Context(), sandbox.Call{Request: [][]byte{tck.Request()}})
	f, ok := errors.AsType[*sandbox.Fault](err)
	if !ok || f.HostCaused() || f.Class != abi.ClassOutOfMemory || !strings.Contains(err.Error(), "the host's memory for plugins is used up") {
		t.Errorf("got %v", err)
	}
}

func TestConfiguredGuestMemoryReachesTheSandboxAndTheMetrics(t *testing.T) {
	config := config.Config{Plugins: t.TempDir(), Listen: "127.0.0.1:0", CacheDir: filepath.Join(t.TempDir(), "cache"), GuestMemoryMiB: 7}
	nowhere := Environment{Cluster: &rest.Config{Host: "http://127.0.0.1:1"}, Logger: hclog.NewNullLogger()}
	h, err := New(t.Context(), config, nowhere)
	if err != nil {
		t.Fatal(err)
	}
	err = testutil.GatherAndCompare(h.metrics.Registry, strings.NewReader(`
# HELP thole_guest_memory_limit_bytes Memory that the instances and images of all plugins may have together.
# TYPE thole_guest_memory_limit_bytes gauge
thole_guest_memory_limit_bytes 7.340032e+06
`), "thole_guest_memory_limit_bytes")
	if err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := h.Run(ended); err != nil {
		t.Error(err)
	}
}

func TestALoadFailureNamesTheFunctionsOfThePlugin(t *testing.T) {
	fault := &sandbox.Fault{Class: abi.ClassPanic, Message: "trap: no table", Printed: "panic: s3cr3t", PrintedStack: []string{"s3cr3t"}, Stack: []string{"runtime._panic", "main.init.0"}}
	got := loadError(&sandbox.LoadError{Plugin: "p", Step: sandbox.StepInitialize, Err: fault}).Error()
	want := `plugin "p": run _initialize: panic: trap: no table; in main.init.0; this is the plugin's own code`
	if !strings.HasPrefix(got, want) || strings.Contains(got, "s3cr3t") {
		t.Errorf("%s\nwant %s ...", got, want)
	}
}

// The bytes of a policy are read where a snapshot comes in, under the ceiling of
// the configuration.
func TestPoliciesOfASnapshotAreRead(t *testing.T) {
	h := &Host{config: config.Config{}.WithDefaults()}
	modules := h.modules(source.Snapshot{
		{Name: "good", Digest: "1", Policy: []byte("apiVersion: thole.dev/v1alpha1\nlimits: {memoryMiB: 7}")},
		{Name: "bad", Digest: "2", Policy: []byte("apiVersion: thole.dev/v1alpha1\nlimits: {memoryMiB: 65}")},
		{Name: "unreadable", Err: errors.New("permission denied"), Policy: []byte("apiVersion: thole.dev/v1alpha1\nlimits: {memoryMiB: 7}")},
		{Name: "unknown", Err: errors.New("permission denied"), PolicyUnknown: true},
		{Name: "both", Err: errors.New("permission denied"), Policy: []byte("apiVersion: thole.dev/v1alpha1\nlimits: {memoryMiB: 65}")},
	})
	if m := modules[0]; m.Err != nil || m.Policy.Limits.MemoryMiB != 7 || m.Policy.Limits.HostCalls != 10_000 {
		t.Errorf("got %+v", m)
	}
	var step interface{ LoadStep() string }
	if !errors.As(modules[1].Err, &step) || step.LoadStep() != "policy" || !modules[1].PolicyUnknown {
		t.Errorf("got %v, want a failure at step policy", modules[1].Err)
	}
	for _, m := range modules[2:] {
		if known := m.Name == "unreadable"; m.Err == nil || m.Err.Error() != "permission denied" || m.PolicyUnknown == known || (m.Policy.Limits.MemoryMiB == 7) != known {
			t.Errorf("got %+v", m)
		}
	}
}

// An operator has to look elsewhere than for a plugin that is being loaded.
func TestReadinessStatesThatTheDirectoryWasNotRead(t *testing.T) {
	objects := &cache.Cache{}
	h := &Host{
		cache: objects, runner: runner.New(runner.Config{Cache: objects}),
		catalog: catalog.New(catalog.Config[*sandbox.Guest]{Logger: hclog.NewNullLogger()}),
	}
	directory := func() error { return h.readiness()[1].Ready() }
	if err := directory(); err == nil || !strings.Contains(err.Error(), "not been read") {
		t.Errorf("before the first scan: %v", err)
	}
	h.catalog.Update(context.Background(), nil)
	if err := directory(); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestStatsAreReadAtEachScrape(t *testing.T) {
	memory, slots := sandbox.MemoryStats{LimitBytes: 1000}, sandbox.SlotStats{Slots: 2}
	guests := map[string]sandbox.Stats{"p": {Calls: 5, Faults: 1, Busy: 1, Compiled: true, Reloads: 2}}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(stageCollector{
		plugins: func(map[string]runner.Status, map[string]sandbox.Stats) []runner.PluginStatus {
			return []runner.PluginStatus{{Status: catalog.Status{Name: "p", State: catalog.Standby}}}
		},
		memory:  func() sandbox.MemoryStats { return memory },
		slots:   func() sandbox.SlotStats { return slots },
		compile: func() error { return errors.New("the disk is full") },
		kinds: func() []cache.Stats {
			return []cache.Stats{{Kind: abi.Kind{APIVersion: "v1", Kind: "Pod"}, Objects: 3, Bytes: 300, Restores: 2}}
		},
		follows: func() []cache.Following {
			return []cache.Following{
				{Kind: abi.Kind{APIVersion: "metrics.k8s.io/v1beta1", Kind: "NodeMetrics"}, Polled: true, Interval: 90 * time.Second, Succeeded: 5, Failed: 6},
				{Kind: abi.Kind{APIVersion: "v1", Kind: "Pod"}, Working: true, Handlers: 3},
			}
		},
		cached: func() cache.Memory { return cache.Memory{Objects: 30, Indexes: 20, Edges: 5} },
		guests: func() map[string]sandbox.Stats { return guests },
		running: func() map[string]runner.Status {
			return map[string]runner.Status{"p": {Breaker: &dispatch.BreakerStatus{State: dispatch.BreakerOpen}, Openings: 3, OwnWrites: 4, MissingRights: []string{"r"}, Usage: effect.Usage{StoredBytes: 5, StoredLimitBytes: 6, ChurnedBytes: 7, ChurnLimitBytes: 8}}, "q": {}}
		},
	})
	memory.UsedBytes, memory.Refused = 10, 2
	slots.InUse, slots.Waiting = 1, 4
	guests["q"] = sandbox.Stats{Idle: 2, IdleBytes: 70}
	const want = `thole_breaker_openings_total p 3
thole_breaker_state p closed 0
thole_breaker_state p half-open 0
thole_breaker_state p open 1
thole_cache_bytes v1 Pod 300
thole_cache_following poll metrics.k8s.io/v1beta1 NodeMetrics 0
thole_cache_following watch v1 Pod 1
thole_cache_handlers metrics.k8s.io/v1beta1 NodeMetrics 0
thole_cache_handlers v1 Pod 3
thole_cache_objects v1 Pod 3
thole_cache_restores_total v1 Pod 2
thole_compile_cache_failing 1
thole_guest_memory_bytes 10
thole_guest_memory_limit_bytes 1000
thole_guest_memory_refusals_total 2
thole_memory_bytes edges 5
thole_memory_bytes guests 10
thole_memory_bytes indexes 20
thole_memory_bytes objects 30
thole_own_writes p 4
thole_own_writes q 0
thole_plugin_churn_limit_bytes p 8
thole_plugin_churn_limit_bytes q 0
thole_plugin_churned_bytes p 7
thole_plugin_churned_bytes q 0
thole_plugin_missing_rights p 1
thole_plugin_missing_rights q 0
thole_plugin_state p degraded 0
thole_plugin_state p draining 0
thole_plugin_state p failed 0
thole_plugin_state p loading 0
thole_plugin_state p quarantined 0
thole_plugin_state p running 0
thole_plugin_state p standby 1
thole_plugin_state p waiting 0
thole_plugin_stored_bytes p 5
thole_plugin_stored_bytes q 0
thole_plugin_stored_limit_bytes p 6
thole_plugin_stored_limit_bytes q 0
thole_poll_interval_seconds metrics.k8s.io/v1beta1 NodeMetrics 90
thole_polls_total metrics.k8s.io/v1beta1 NodeMetrics error 6
thole_polls_total metrics.k8s.io/v1beta1 NodeMetrics success 5
thole_sandbox_calls_total p 5
thole_sandbox_calls_total q 0
thole_sandbox_compiled p 1
thole_sandbox_compiled q 0
thole_sandbox_faults_total p 1
thole_sandbox_faults_total q 0
thole_sandbox_idle_memory_bytes p 0
thole_sandbox_idle_memory_bytes q 70
thole_sandbox_instances p busy 1
thole_sandbox_instances p idle 0
thole_sandbox_instances q busy 0
thole_sandbox_instances q idle 2
thole_sandbox_slot_waiting_calls 4
thole_sandbox_slots 2
thole_sandbox_slots_in_use 1
thole_sandbox_wakes_total p 2
thole_sandbox_wakes_total q 0
`
	if got := scrape(t, registry); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// scrape returns a line for each series, with its label values. It fails the
// test if a name does not follow the conventions of Prometheus.
func scrape(t *testing.T, registry prometheus.Gatherer) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) != 0 {
		t.Errorf("names: %+v, %v", problems, err)
	}
	var out strings.Builder
	for _, family := range families {
		for _, m := range family.GetMetric() {
			out.WriteString(family.GetName())
			for _, label := range m.GetLabel() {
				out.WriteString(" " + label.GetValue())
			}
			fmt.Fprintf(&out, " %v\n", m.GetGauge().GetValue()+m.GetCounter().GetValue())
		}
	}
	return out.String()
}

func TestLogLevelsAreReportedWhenTheyChange(t *testing.T) {
	var got []events.Event
	h := &Host{config: config.Config{}.WithDefaults(), events: events.Func(func(e events.Event) { got = append(got, e) })}
	policy := func(text string) []byte { return []byte("apiVersion: thole.dev/v1alpha1\n" + text) }
	for _, step := range []struct {
		snapshot source.Snapshot
		want     []events.Event
	}{
		{source.Snapshot{{Name: "p", Policy: policy("")}, {Name: "q"}}, nil},
		{source.Snapshot{{Name: "p", Policy: policy("logLevel: debug")}, {Name: "q"}}, []events.Event{events.LogLevelSet{Plugin: "p", Level: "debug"}}},
		{source.Snapshot{{Name: "p", Policy: policy("logLevel: debug\ndryRun: true")}}, nil},
		{source.Snapshot{{Name: "p", Policy: policy("logLevel: louder")}}, nil},
		{source.Snapshot{{Name: "p", PolicyUnknown: true}}, nil},
		{source.Snapshot{{Name: "p", Policy: policy("logLevel: error")}}, []events.Event{events.LogLevelSet{Plugin: "p", Level: "error"}}},
		{source.Snapshot{}, []events.Event{events.NoPlugins{}, events.LogLevelSet{Plugin: "p"}}},
		{source.Snapshot{{Name: "p", Policy: policy("logLevel: warn")}}, []events.Event{events.LogLevelSet{Plugin: "p", Level: "warn"}}},
		{source.Snapshot{{Name: "p"}}, []events.Event{events.LogLevelSet{Plugin: "p"}}},
	} {
		got = nil
		h.modules(step.snapshot)
		if !slices.Equal(got, step.want) {
			t.Errorf("%v: %v, want %v", step.snapshot, got, step.want)
		}
	}
}
