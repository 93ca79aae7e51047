package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// startEndless starts a host of two processors with good plugins, and with guests whose
// runs never end by themselves and which have as many objects each. It waits until all of
// these run.
func startEndless(t *testing.T, config string, each int, good map[string][]byte, guests ...string) (p *process, ns string) {
	t.Helper()
	ns, d := namespace(t), newDirectory(t)
	for name, module := range good {
		d.install(name, module)
	}
	installHostile(t, d, guests, fmt.Sprintf("limits: {instances: %d}", each))
	p = start(t, d, ns, "limits: {timeout: 1h, fuel: 1000000000000000}\n"+config, func(h *tholetest.Host) {
		h.Env = append(h.Env, "GOMAXPROCS=2")
	})
	for name := range good {
		p.awaitRunning(name, 1)
	}
	for i, name := range guests {
		p.awaitRunning(name, 1)
		for n := range each {
			create(t, hostileResource(i), hostileKind(i), ns, fmt.Sprint("endless-", n), nil)
		}
	}
	for _, name := range guests {
		await.Until(t, name+" runs", func() bool { return p.endless(name) == each })
	}
	return p, ns
}

// endless returns how many runs of a guest have begun and not ended.
func (p *process) endless(guest string) int {
	return int(p.Metrics().Sum("controller_runtime_active_workers", "controller", guest+"/conformance"))
}

// Six runs that do not end want two processors. A plugin beside them is served before
// any of them has ended.
func TestRunsWithoutEndKeepNobodyFromRunning(t *testing.T) {
	t.Parallel()
	const each = 2
	guests := []string{"loop-heavy", "fill-loop", "cache-misses"}
	installCRD(t, "plugins/podmanager/crd.yaml")
	p, ns := startEndless(t, "", each, map[string][]byte{"podmanager": podmanager(t, wasmbuild.TinyGo)}, guests...)
	expectServed(t, ns, "beside-runs-without-end")
	p.expectHealth(t, http.StatusOK)
	for _, name := range guests {
		if n := p.endless(name); n != each {
			t.Errorf("%d runs of %s have ended", each-n, name)
		}
	}
	p.kill() // the runs would end after the grace time
}

// Two runs take all the memory that there is, and keep it. A plugin that needs less than
// its share gets it, and it is the runs with more than theirs that fail.
func TestPluginsThatTakeAllMemoryLeaveAnEvenShare(t *testing.T) {
	t.Parallel()
	const hog = "grow-refused"
	installCRD(t, testdata+"badinput/crd.yaml")
	p, ns := startEndless(t, "guestMemoryMiB: 40", 2, map[string][]byte{"mood": wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"badinput")}, hog)
	await.Until(t, "there is no more memory", func() bool { return p.Metrics().Sum("thole_guest_memory_refusals_total") > 0 })
	createMood(t, ns, "huge", "huge child") // which takes some MiB
	await.Until(t, "the object with a huge child is Ready", func() bool { return ready(get(t, moods, ns, "huge")) })
	p.awaitFailedRuns(t, hog+"/conformance", "out-of-memory")
	if failed := p.Log.Since(0).FailedRuns("plugin", "mood"); len(failed) != 0 {
		t.Errorf("runs of the other plugin failed: %v", failed)
	}
	p.kill()
}

// compileBomb is a plugin of some 30 KB for which the compiler needs more than a minute:
// each of its loops passes on each of its locals. Number makes it differ from others.
func compileBomb(name string, number int) []byte {
	const loops, locals = 1000, 2000
	manifest := abi.EncodeManifest(&abi.Manifest{Name: name, Version: "1", Controllers: []abi.Controller{controllerFor(latecomer)}})
	return pluginWithManifest(manifest, func(m *tck.Module) {
		body := [][]byte{tck.I32Const(int32(number)), tck.LocalSet(1)}
		for range loops {
			body = append(body, tck.Loop)
		}
		for i := range uint32(locals) {
			body = append(body, tck.LocalGet(i), tck.I32Const(1), tck.I32Ne, tck.LocalSet(i))
		}
		for range loops {
			body = append(body, tck.LocalGet(0), tck.BranchIf(0), tck.End)
		}
		m.Func(nil, nil, slices.Repeat([]wasm.ValueType{wasm.I32}, locals), body...)
	})
}

// A plugin is loaded while modules that are smaller, and came before it, are still being
// compiled or wait for that.
func TestAPluginLoadsBesideModulesThatTakeLongToCompile(t *testing.T) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	const bombs = 8
	for i := range bombs {
		name := fmt.Sprint("bomb-", i)
		d.install(name, compileBomb(name, i))
	}
	p := start(t, d, ns, "", quietlyIn(t.TempDir()))
	await.Until(t, "the bombs are seen", func() bool { all, _ := p.Plugins(); return len(all) == bombs })
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	await.Until(t, "podmanager runs", func() bool { return p.Plugin("podmanager").State == "running" })
	expectServed(t, ns, "beside-bombs")
	all, _ := p.Plugins()
	for _, s := range all {
		if s.Name != "podmanager" && s.State != "loading" {
			t.Errorf("before podmanager, the host was done with %+v", s)
		}
	}
	p.stop()
}
