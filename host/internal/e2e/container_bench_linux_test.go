package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// BenchmarkContainer measures a host that has CONTAINER_MIB (256) of memory, a control
// group's limit, beside each guest of the conformance kit, and beside the plugin hostile
// with the objects of [benchmarkHostile], for CONTAINER_SECONDS (5) each. Guests that
// load have objects that are edited all the time; those that do not are loaded again and
// again, as if their file had changed. Hostile guests that load are alone; of the others,
// which take little, several are there at once. The plugin echo has to serve its objects
// meanwhile. A host that ends fails the benchmark.
//
//	attacks         runs of a guest and loads that failed, of that which has fewest: 0 if
//	                the next file ends each load, and if a guest follows other objects
//	MiB-peak        memory of the control group, at most: with compilers, and with files
//	                that the kernel would forget
//	oom-kills       processes in it that the kernel has killed: compilers
//	others as for [benchmarkHostile]
func BenchmarkContainer(b *testing.B) {
	for _, guests := range attackers() {
		b.Run(fmt.Sprintf("%s+%d", guests[0].Name, len(guests)-1), func(b *testing.B) {
			once(b, func(b *testing.B) { besideGuests(b, guests) })
		})
	}
	for _, objects := range lootObjects {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			once(b, func(b *testing.B) {
				kind := installKind(b, "Hostile")
				restoreAfter(b)
				plugins := newDirectory(b)
				h := newHostile(b, kind, objects)
				h.duration = containerSeconds(b)
				plugins.install("hostile", wasmbuild.Build(b, wasmbuild.TinyGo, testdata+"hostile"))
				h.measureInContainer(plugins, func() error {
					h.createHostile()
					return h.changeLoot()
				})
			})
		})
	}
}

// attackers returns the guests of the kit, in groups that are there at once.
func attackers() (groups [][]tck.Case) {
	byStage := func(cases []tck.Case, stage tck.Stage, atOnce int) {
		cases = slices.DeleteFunc(cases, func(c tck.Case) bool { return c.Stage != stage })
		groups = slices.AppendSeq(groups, slices.Chunk(cases, atOnce))
	}
	for _, stage := range []tck.Stage{tck.StageLoad, tck.StageCall, tck.StageOK} {
		byStage(tck.Cases(), stage, 10)
	}
	byStage(tck.Hostile(), tck.StageLoad, 5)
	byStage(tck.Hostile(), tck.StageCall, 1)
	byStage(tck.Hostile(), tck.StageOK, 1)
	return groups
}

func besideGuests(b *testing.B, guests []tck.Case) {
	b.Helper()
	ns, plugins := namespace(b), newDirectory(b)
	var edited []conformance
	for i, c := range guests {
		plugins.installPolicy(c.Name, allowEverything)
		kind := installKindOf(b, "thole.dev", conformanceKind(i))
		for n := range conformanceObjects {
			o := conformance{kind, fmt.Sprintf("conformance-%d", n)}
			must(b, tryCreate(b.Context(), kind, conformanceKind(i), ns, o.name, nil))
			edited = append(edited, o)
		}
	}
	h := besideHonest{b: b, honest: newEchoFleet(b, honestEchoes, echoBytes), duration: containerSeconds(b)}
	h.measureInContainer(plugins, func() error {
		if guests[0].Stage == tck.StageLoad {
			return loadAgain(plugins, guests, h.duration)
		}
		for i, c := range guests {
			plugins.install(c.Name, ofKind(c.Wasm(), conformanceKind(i)))
		}
		return paced(int(h.duration/conformanceGrid), conformanceGrid, func(i int, _ time.Time) error {
			o := edited[i*conformanceObjects%len(edited)+i/len(guests)%conformanceObjects] // guest by guest
			_ = patch(b.Context(), o.kind, ns, o.name, fmt.Sprintf(`{"spec":{"text":"%d"}}`, i))
			return nil
		})
	})
	metrics := h.host.Metrics()
	fewest := math.Inf(1)
	for _, c := range guests {
		attacks := metrics.Sum("thole_plugin_load_failures_total", "plugin", c.Name) + metrics.Sum("controller_runtime_reconcile_total", "controller", c.Name+"/conformance")
		fewest = min(fewest, attacks)
		if attacks+metrics.Sum("thole_plugin_info", "plugin", c.Name) == 0 && !c.Timed() {
			b.Errorf("%s has done nothing", c.Name)
		}
	}
	b.ReportMetric(fewest, "attacks")
}

const (
	conformanceObjects = 20
	conformanceGrid    = 50 * time.Millisecond // from one edit to the next
	loadGrid           = time.Second           // from one load to the next
	allowEverything    = `allow: [{groups: ["*"], kinds: ["*"], verbs: ["*"], namespaces: ["*"]}]` + "\ndaemon: {}\n"
)

func containerSeconds(b *testing.B) time.Duration {
	b.Helper()
	return time.Duration(number(b, "CONTAINER_SECONDS", 5)) * time.Second
}

// conformance is an object of the kind of a guest.
type conformance struct {
	kind schema.GroupVersionResource
	name string
}

// conformanceKind returns the kind of one of several guests that are there at once: two
// controllers may not write the same condition. It has as many bytes as that of the kit.
func conformanceKind(i int) string { return fmt.Sprintf("Conformanc%d", i) }

// ofKind makes a guest of the kit follow another kind.
func ofKind(wasm []byte, kind string) []byte {
	return bytes.ReplaceAll(wasm, []byte("Conformance"), []byte(kind))
}

// loadAgain writes the files of guests again and again, each time with other content.
func loadAgain(plugins directory, guests []tck.Case, duration time.Duration) error {
	return paced(int(duration/loadGrid), loadGrid, func(i int, _ time.Time) error {
		var stamp tck.Module
		stamp.Custom("again", binary.LittleEndian.AppendUint64(nil, uint64(i)))
		for _, c := range guests {
			plugins.install(c.Name, append(c.Wasm(), stamp.Bytes()[8:]...))
		}
		return nil
	})
}

// measureInContainer measures the honest plugin while attack does what is to be
// withstood.
func (h *besideHonest) measureInContainer(plugins directory, attack func() error) {
	h.b.Helper()
	limit := number(h.b, "CONTAINER_MIB", 256)
	group := newMemoryGroup(h.b, int64(limit)<<20)
	plugins.install("echo", wasmbuild.Build(h.b, wasmbuild.TinyGo, testdata+"echo"))
	h.honest.watch()
	h.honest.next()
	must(h.b, inParallel(honestEchoes, func(i int) error { return h.honest.write(i, time.Now()) }))
	h.host = start(h.b, plugins, "", allowAll, quietlyIn(h.b.TempDir()), func(host *tholetest.Host) {
		host.Program = group.runs(host.Program)
		host.Env = append(host.Env, fmt.Sprintf("GOMEMLIMIT=%dMiB", limit/2)) // as deploy/kustomize sets it: the request
	})
	h.host.awaitRunning("echo", 1)
	h.host.awaitIdle(h.b, honestEchoes)
	h.editBeside(attack, h.probe).report(h.b, "honest")
	must(h.b, h.host.Exited())
	h.b.ReportMetric(group.peakMiB(), "MiB-peak")
	h.b.ReportMetric(group.kills(), "oom-kills")
}

// memoryGroup is a control group with a limit of memory.
type memoryGroup struct {
	b    *testing.B
	path string
	v2   bool
}

// newMemoryGroup makes a control group until the benchmark ends, which it skips if that is
// not allowed.
func newMemoryGroup(b *testing.B, bytes int64) memoryGroup {
	b.Helper()
	g := memoryGroup{b: b, path: "/sys/fs/cgroup/memory"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		g.path, g.v2 = "/sys/fs/cgroup", true
	}
	g.path = filepath.Join(g.path, fmt.Sprintf("thole-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err := os.Mkdir(g.path, 0o755); err != nil {
		b.Skipf("no control group can be made: %v", err)
	}
	b.Cleanup(func() { _ = os.Remove(g.path) })
	limit := "memory.limit_in_bytes"
	if g.v2 {
		limit = "memory.max"
	}
	must(b, os.WriteFile(filepath.Join(g.path, limit), []byte(strconv.FormatInt(bytes, 10)), 0o644))
	return g
}

// runs returns a program that runs another one within the group.
func (g memoryGroup) runs(program string) string {
	g.b.Helper()
	file := filepath.Join(g.b.TempDir(), "in-group")
	text := fmt.Sprintf("#!/bin/sh\necho $$ >%s/cgroup.procs && exec %s \"$@\"\n", g.path, program)
	must(g.b, os.WriteFile(file, []byte(text), 0o755))
	return file
}

func (g memoryGroup) peakMiB() float64 {
	g.b.Helper()
	name := "memory.max_usage_in_bytes"
	if g.v2 {
		name = "memory.peak"
	}
	return g.number(name, "") / (1 << 20)
}

func (g memoryGroup) kills() float64 {
	g.b.Helper()
	name := "memory.oom_control"
	if g.v2 {
		name = "memory.events"
	}
	return g.number(name, "oom_kill")
}

// number returns the number in a line of a file of the group, that after a word unless the
// word is "".
func (g memoryGroup) number(file, word string) float64 {
	g.b.Helper()
	text, err := os.ReadFile(filepath.Join(g.path, file))
	must(g.b, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || word != "" && fields[0] != word {
			continue
		}
		n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		must(g.b, err)
		return n
	}
	g.b.Fatalf("%s has no %q:\n%s", file, word, text)
	return 0
}
