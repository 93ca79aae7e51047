package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// soakModules are the compiled variants of the plugin in testdata/soak. Its name,
// kind and version are texts in the compiled module. Replacing them by texts of the
// same length makes a module with another digest and another behaviour without
// another compilation by TinyGo.
type soakModules struct {
	plain []byte
	wide  []byte // with one more controller and more kinds
	trap  []byte // traps for every object
}

func newSoakModules(tb testing.TB) soakModules {
	tb.Helper()
	build := func(name string) []byte {
		wasm := wasmbuild.Build(tb, wasmbuild.TinyGo, testdata+name)
		if !bytes.Contains(wasm, []byte(soakVersion(0))) {
			tb.Fatalf("%s has no version to replace", name)
		}
		return wasm
	}
	return soakModules{plain: build("soakplain"), wide: build("soakwide"), trap: build("soaktrap")}
}

// The names of plugin i, of its kind, and of a version of any plugin. Versions are
// ordered as strings.
func soakName(plugin int) string     { return fmt.Sprintf("soak-%d", plugin) }
func soakKind(plugin int) string     { return fmt.Sprintf("Soak%d", plugin) }
func soakVersion(version int) string { return fmt.Sprintf("version-%06d", version) }

func soakResource(plugin int) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "e2e.thole.dev", Version: "v1", Resource: fmt.Sprintf("soak%ds", plugin)}
}

// soakModule returns a variant as a plugin at a version.
func soakModule(variant []byte, plugin, version int) []byte {
	replace := strings.NewReplacer(
		soakName(0), soakName(plugin), soakKind(0), soakKind(plugin), soakVersion(0), soakVersion(version))
	return []byte(replace.Replace(string(variant)))
}

// installSoakCRD installs the CRD of a plugin's kind.
func installSoakCRD(tb testing.TB, plugin int) schema.GroupVersionResource {
	tb.Helper()
	return installKind(tb, soakKind(plugin))
}

// installKind installs the CRD of the soak test under another kind. Its resource is the
// kind in lower case with an s.
func installKind(tb testing.TB, kind string) schema.GroupVersionResource {
	tb.Helper()
	return installKindOf(tb, "e2e.thole.dev", kind)
}

// installKindOf is installKind in a group.
func installKindOf(tb testing.TB, group, kind string) schema.GroupVersionResource {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "soak", "crd.yaml"))
	must(tb, err)
	singular := strings.ToLower(kind)
	names := strings.NewReplacer("e2e.thole.dev", group, soakKind(0), kind, "soak0s", singular+"s", "soak0", singular)
	applyCRD(tb, names.Replace(string(text)))
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: singular + "s"}
}

// corrupted returns a file that must be refused instead of a module, and a
// description of it.
func corrupted(random *rand.Rand, wasm []byte) (bad []byte, description string) {
	switch random.IntN(5) {
	case 0:
		return nil, "empty"
	case 1:
		return wasm[:1+random.IntN(len(wasm)-1)], "truncated"
	case 2:
		return bytes.Repeat([]byte("no module "), 1000), "text"
	case 3: // more functions than the section has bytes
		return append(bytes.Clone(wasm[:8]), 3, 5, 0xff, 0xff, 0xff, 0xff, 0xf), "invalid count"
	}
	guest := refusedGuests[random.IntN(len(refusedGuests))]
	return guest.Wasm(), guest.Name
}

// refusedGuests are the guests of the conformance kit that must be refused when
// they are loaded, without those whose load takes until a timeout.
var refusedGuests = func() (all []tck.Case) {
	for _, c := range tck.Cases() {
		if c.Stage == tck.StageLoad && !c.Timed() {
			all = append(all, c)
		}
	}
	return all
}()
