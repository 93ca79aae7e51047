package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// Whoever copies the module and the policy that pins it one after the other, in either
// order, gets the pinned module or none, and no object is forgotten.
func TestOnlyThePinnedModuleRuns(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	modules := [][]byte{1: wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"stamp1"), 2: wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"stamp2")}
	pin := func(module []byte) {
		d.installPolicy("stamp", fmt.Sprintf("digest: sha256:%x\n", sha256.Sum256(module)))
	}
	pin(modules[1])
	d.install("stamp", modules[1])
	p := start(t, d, ns, "")
	p.awaitRunning("stamp", 1)
	var want []string // texts, by the number of the object
	expectVersion := func(version string) {
		t.Helper()
		await.Until(t, "every object is as version "+version+" wants it", func() bool {
			all := byName(list(t, stamps, ns))
			for i, text := range want {
				if o := all[fmt.Sprint("s-", i)]; !servedBy(o, version) || field(get(t, configMaps, ns, o.GetName()), "data", "text") != text {
					return false
				}
			}
			return true
		})
	}
	add := func() {
		want = append(want, "at first")
		createStamp(t, ns, fmt.Sprint("s-", len(want)-1), "at first")
		if len(want) > 1 {
			want[0] = fmt.Sprint("change ", len(want))
			must(t, patchSpec(t.Context(), stamps, ns, "s-0", "text", want[0]))
		}
	}
	expectStopped := func(step, message string) {
		t.Helper()
		await.Until(t, "nothing of the plugin runs", func() bool { s := p.Plugin("stamp"); return s.State == "failed" && s.FailedStep == step })
		if s := p.Plugin("stamp"); !strings.Contains(s.LastError, message) || s.Revision != 0 {
			t.Errorf("/plugins shows %+v", s)
		}
		mark := p.Log.Mark()
		add()
		if runs := p.Log.Since(mark).Reconciled("plugin", "stamp"); len(runs) > 0 {
			t.Errorf("runs: %v", runs)
		}
	}
	add()
	expectVersion("1")

	// The policy first.
	pin(modules[2])
	expectStopped("digest", fmt.Sprintf("the file has the digest sha256:%x, and stamp.yaml pins sha256:%x", sha256.Sum256(modules[1]), sha256.Sum256(modules[2])))
	await.Until(t, "the refusal is counted", func() bool { return p.loadFailures("stamp", "digest") == 1 })
	d.install("stamp", modules[2])
	expectVersion("2")

	// The module first: it is replaced without a stop.
	mark := p.Log.Mark()
	d.install("stamp", modules[1])
	await.Until(t, "the file is refused", func() bool { return p.Plugin("stamp").State == "degraded" })
	add()
	expectVersion("2")
	pin(modules[1])
	expectVersion("1")
	if stops := p.Log.Since(mark).Events("PluginStopped", "plugin", "stamp"); len(stops) > 0 {
		t.Errorf("stopped: %v", stops)
	}

	// The pinned file is not there, or cannot be used.
	must(t, os.Symlink("nowhere", filepath.Join(d.path, ".link")))
	must(t, os.Rename(filepath.Join(d.path, ".link"), filepath.Join(d.path, "stamp.wasm")))
	await.Until(t, "the module is unreadable", func() bool { return p.Plugin("stamp").State == "degraded" })
	add()
	expectVersion("1")
	pin(modules[2])
	expectStopped("read", "symbolic link")
	d.install("stamp", modules[2])
	expectVersion("2")
	half := modules[1][:len(modules[1])/2]
	d.install("stamp", half)
	pin(half)
	expectStopped("parse", "truncated")
	d.install("stamp", modules[1])
	pin(modules[1])
	expectVersion("1")
	p.stop()
}

// servedBy reports whether an object is as a version of the plugin wants it.
func servedBy(o *unstructured.Unstructured, version string) bool {
	return o != nil && ready(o) && field(o, "status", "version") == version
}
