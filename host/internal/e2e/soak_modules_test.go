package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// soakModules are the variants of the plugin in testdata/soak as they were
// compiled. Each names and versions itself by texts that are replaced in the
// compiled module by others as long: another digest and another behaviour
// without another compilation by TinyGo.
type soakModules struct {
	plain []byte
	wide  []byte // with one more controller, and more kinds
	trap  []byte // traps on every object
}

func newSoakModules(tb testing.TB) soakModules {
	tb.Helper()
	build := func(name string) []byte {
		wasm := wasmbuild.Build(tb, wasmbuild.TinyGo, stampDir+name)
		if !bytes.Contains(wasm, []byte("version-000000")) {
			tb.Fatalf("%s has no version to replace", name)
		}
		return wasm
	}
	return soakModules{plain: build("soakplain"), wide: build("soakwide"), trap: build("soaktrap")}
}

// soakName, soakKind and soakVersion are how plugins call themselves.
func soakName(plugin int) string     { return fmt.Sprintf("soak-%d", plugin) }
func soakKind(plugin int) string     { return fmt.Sprintf("Soak%d", plugin) }
func soakVersion(version int) string { return fmt.Sprintf("version-%06d", version) }

// soakModule makes a variant that plugin at that version.
func soakModule(variant []byte, plugin, version int) []byte {
	replace := strings.NewReplacer("soak-0", soakName(plugin), "Soak0", soakKind(plugin), "version-000000", soakVersion(version))
	return []byte(replace.Replace(string(variant)))
}

// soakCorrupt makes of a module one that must be refused, and says how.
func soakCorrupt(random *rand.Rand, wasm []byte) (corrupt []byte, how string) {
	switch random.IntN(5) {
	case 0:
		return nil, "empty"
	case 1:
		return wasm[:1+random.IntN(len(wasm)-1)], "truncated"
	case 2:
		return bytes.Repeat([]byte("no module "), 1000), "garbage"
	case 3: // a count of functions that does not fit
		return append(bytes.Clone(wasm[:8]), 3, 5, 0xff, 0xff, 0xff, 0xff, 0xf), "count bomb"
	}
	bad := soakRefused[random.IntN(len(soakRefused))]
	return bad.Wasm(), bad.Name
}

// soakRefused are guests that must be refused when they are loaded, and that
// take no time to be.
var soakRefused = func() (all []tck.Case) {
	for _, c := range tck.Cases() {
		if c.Stage == tck.StageLoad && !c.Timed() {
			all = append(all, c)
		}
	}
	return all
}()
