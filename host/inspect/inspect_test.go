package inspect

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/sandbox/module"
	"github.com/thole-dev/thole/host/source"
)

func TestMain(m *testing.M) { devcluster.Main(m) }

// file writes the file of a plugin and returns its path.
func file(t *testing.T, name string, wasm []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func guest(t *testing.T, name string) []byte {
	t.Helper()
	c, ok := tck.CaseOf(name)
	if !ok {
		t.Fatalf("the kit has no case %q", name)
	}
	return c.Wasm()
}

func inspect(t *testing.T, path string) *Report {
	t.Helper()
	var o Options
	for _, c := range tck.Capabilities() {
		own := sandbox.Capability{Name: c.Name, Check: c.Check, CheckManifest: c.CheckManifest}
		for _, e := range c.Exports {
			own.Exports = append(own.Exports, sandbox.Export{Name: e.Name, Meaning: "is of the kit", Needed: e.Needed})
		}
		if c.Import != "" {
			own.Imports = []sandbox.Import{{Name: c.Import, Meaning: "is answered by the kit", MaxMessage: c.MaxMessage}}
		}
		o.Capabilities = append(o.Capabilities, own)
	}
	r, err := File(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func expectRefused(t *testing.T, r *Report, step, because string) {
	t.Helper()
	if r.Load.OK || r.Load.Step != step || !strings.Contains(r.Load.Error, because) {
		t.Errorf("load %+v, want a refusal at %s because of %q", r.Load, step, because)
	}
	if err := r.Refused(); err == nil || err.Error() != r.Load.Error {
		t.Errorf("refused: %v, want %s", err, r.Load.Error)
	}
}

// TestVerdictOnEachGuestOfTheConformanceKit compares the reports with the
// expectations of the kit.
func TestVerdictOnEachGuestOfTheConformanceKit(t *testing.T) {
	for _, c := range tck.Cases() {
		r := inspect(t, file(t, c.Name+".wasm", c.Wasm()))
		if accepted := c.Stage != tck.StageLoad; r.Load.OK != accepted || accepted == (r.Refused() != nil) {
			t.Errorf("%s: %+v, want accepted: %t", c.Name, r.Load, accepted)
		}
		for _, symbol := range c.Mentions {
			if !strings.Contains(r.Load.Error, symbol) {
				t.Errorf("%s: %q does not name %q", c.Name, r.Load.Error, symbol)
			}
		}
	}
}

func TestInstanceModeIsReportedWithItsReason(t *testing.T) {
	buildID := "\x0ago:buildidx"
	section := append(binary.AppendUvarint([]byte{0}, uint64(len(buildID))), buildID...)
	standard := append(guest(t, "correct"), section...)
	for _, c := range []struct {
		wasm      []byte
		mode, why string
	}{
		{guest(t, "correct"), "reset", "memory and globals are restored after each call"},
		{standard, "pooled", "state is kept between calls in one namespace, unless its policy has the isolation pooled: it was compiled by standard Go"},
	} {
		r := inspect(t, file(t, "correct.wasm", c.wasm))
		if r.Instances.Mode != c.mode || !strings.HasPrefix(r.Instances.Why, c.why) {
			t.Errorf("%+v, want %s: %s", r.Instances, c.mode, c.why)
		}
	}
	all := map[string]int{}
	for _, c := range tck.Cases() {
		if r := inspect(t, file(t, c.Name+".wasm", c.Wasm())); r.Instances != nil && r.Instances.Mode == "fresh" {
			all[r.Instances.Why]++
		}
	}
	for _, why := range []string{"its code changes tables", "its code drops segments"} {
		if all["every call gets a new instance: "+why] == 0 {
			t.Errorf("no guest of the kit is fresh because %s: %v", why, all)
		}
	}
}

func TestFileThatAHostIgnoresIsRefused(t *testing.T) {
	for name, because := range map[string]string{
		"correct":       "plugins are in files named <name>.wasm",
		"correct.WASM":  "plugins are in files named <name>.wasm",
		".correct.wasm": "and not in hidden or temporary ones",
	} {
		r := inspect(t, file(t, name, guest(t, "correct")))
		expectRefused(t, r, "read", because)
		if r.Memory == nil || len(r.Imports) == 0 {
			t.Errorf("%s: the module is not reported: %+v", name, r)
		}
	}
	large := file(t, "large.wasm", nil)
	if err := os.Truncate(large, source.MaxFile+1); err != nil {
		t.Fatal(err)
	}
	r := inspect(t, large)
	expectRefused(t, r, "read", "large.wasm is larger than 16 MiB")
	if r.Size != source.MaxFile+1 {
		t.Errorf("size %d", r.Size)
	}
}

func TestNameThatIsNoDNSLabelIsRefused(t *testing.T) {
	r := inspect(t, file(t, "Correct_1.wasm", guest(t, "correct")))
	expectRefused(t, r, "load", "is not a DNS label")
	if r.Manifest != nil || r.Memory == nil {
		t.Errorf("%+v", r)
	}
}

func TestLimitsOfTheHostApply(t *testing.T) {
	path := file(t, "get.wasm", guest(t, "get"))
	var config config.Config
	config.Limits.MemoryMiB = 8
	r, err := File(t.Context(), path, Options{Host: config})
	if err != nil || r.Memory.Limit != 8<<20 {
		t.Errorf("memory %+v, %v", r.Memory, err)
	}
	config.Limits.MemoryMiB = 4096
	r, err = File(t.Context(), path, Options{Host: config})
	if err != nil {
		t.Fatal(err)
	}
	expectRefused(t, r, "load", "up to 2 GiB")
}

func TestCapabilitiesNoteSomethingOfAModule(t *testing.T) {
	module := guest(t, "correct")
	r, err := File(t.Context(), file(t, "correct.wasm", module), Options{Notes: func(wasm []byte) []string {
		if !bytes.Equal(wasm, module) {
			return nil
		}
		return []string{"it is small", "and correct"}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if text := string(r.table()); !strings.Contains(text, "it is small") || !strings.Contains(text, "and correct") {
		t.Errorf("the table is\n%s", text)
	}
}

func TestCancelledInspectionIsAnErrorNotAVerdict(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := File(ctx, file(t, "correct.wasm", guest(t, "correct")), Options{})
	if err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("report %+v, error %v", r, err)
	}
}

func TestEveryFunctionIsDescribed(t *testing.T) {
	for _, name := range sandbox.Functions() {
		module, function, _ := strings.Cut(name, ".")
		if meaning(module, function) == "" {
			t.Errorf("%s is not described", name)
		}
	}
	r := inspect(t, file(t, "all-exports.wasm", guest(t, "all-exports")))
	for _, e := range r.Exports {
		if e.Meaning == "" {
			t.Errorf("export %s is not described", e.Name)
		}
	}
	r = inspect(t, file(t, "http-request.wasm", guest(t, "http-request")))
	if !slices.ContainsFunc(r.Imports, func(s Symbol) bool { return s.Meaning == "is answered by the kit" }) {
		t.Errorf("the import of a capability is not described: %+v", r.Imports)
	}
}

// describing returns a module whose export describe has a body.
func describing(body func(m *tck.Module) [][]byte) []byte {
	var m tck.Module
	none, i32 := []wasm.ValueType(nil), []wasm.ValueType{wasm.I32}
	code := body(&m)
	m.Export(abi.ExportMarker, m.Func(none, none, nil))
	m.Export(abi.ExportDescribe, m.Func(none, i32, nil, code...))
	m.Export(abi.ExportReconcile, m.Func(i32, i32, nil, tck.I32Const(0)))
	m.Memory(1)
	m.ExportMemory(abi.ExportMemory)
	return m.Bytes()
}

func TestDescribeEndsAtTheDeadlineOfTheHost(t *testing.T) {
	wasm := describing(func(*tck.Module) [][]byte {
		return [][]byte{tck.Loop, tck.Branch(0), tck.End, tck.I32Const(0)}
	})
	var config config.Config
	config.Limits.Timeout.Duration = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	r, err := File(ctx, file(t, "spins.wasm", wasm), Options{Host: config})
	if err != nil {
		t.Fatal(err)
	}
	expectRefused(t, r, "describe", "timeout: the deadline of the call passed")
}

func TestTwoControllersWithOneConditionAreRefused(t *testing.T) {
	manifest := abi.EncodeManifest(&abi.Manifest{Name: "twins", Controllers: []abi.Controller{{Name: "a", For: widget.All()}, {Name: "b", For: widget.All()}}})
	wasm := describing(func(m *tck.Module) [][]byte {
		output := m.Import(abi.ImportModule, abi.ImportOutput, []wasm.ValueType{wasm.I32, wasm.I32}, nil)
		m.Import(abi.ImportModule, abi.ImportOutput, []wasm.ValueType{wasm.I32, wasm.I32}, nil) // compilers may import a function twice
		m.Data(0, manifest)
		return [][]byte{tck.I32Const(0), tck.I32Const(int32(len(manifest))), tck.Call(output), tck.I32Const(0)}
	})
	r := inspect(t, file(t, "twins.wasm", wasm))
	expectRefused(t, r, "overlap", `controller "twins/b" and "twins/a" both write the condition Ready of example.com/v1 Widget`)
	if len(r.Rights) != 2 || r.Rights[1].Controller != "b" || len(r.Imports) != 1 {
		t.Errorf("rights %+v, imports %+v", r.Rights, r.Imports)
	}
}

func TestASelectorThatCannotBeParsedIsRefused(t *testing.T) {
	r := &Report{Name: "p", Load: Load{OK: true}}
	m := &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: abi.Followed{Kind: widget, Selector: abi.Selector{LabelSelector: "a in b"}}}}}
	if err := r.addManifest(t.Context(), m, policy{Limits: config.Config{}.WithDefaults().Limits}, Options{}); err != nil {
		t.Fatal(err)
	}
	expectRefused(t, r, "start", `controller "c": example.com/v1 Widget: labelSelector "a in b"`)
}

// TestThePolicyBesideTheFileIsRead: what it allows is not asked for, its limits apply, and one that a host
// refuses is shown.
func TestThePolicyBesideTheFileIsRead(t *testing.T) {
	c := config.Config{}.WithDefaults()
	read := func(path, text string) *Report {
		t.Helper()
		if err := os.WriteFile(strings.TrimSuffix(path, extension)+".yaml", []byte("apiVersion: thole.dev/v1alpha1\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := File(t.Context(), path, Options{ReadPolicy: c.ReadUnbounded})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	path := file(t, "correct.wasm", guest(t, "correct"))
	if r := read(path, "limits: {memoryMiB: 7}"); !r.Load.OK || r.Memory.Limit != 7<<20 || !strings.Contains(string(r.table()), "Policy") {
		t.Errorf("load %+v, memory %+v", r.Load, r.Memory)
	}
	expectRefused(t, read(path, "limit: {}"), "policy", `correct.yaml: unknown field "limit", did you mean "limits"?`)
	for _, empty := range []string{"", " \n"} {
		if err := os.WriteFile(strings.TrimSuffix(path, ".wasm")+".yaml", []byte(empty), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := File(t.Context(), path, Options{ReadPolicy: c.ReadUnbounded})
		ok(t, err)
		expectRefused(t, r, "read", "correct.yaml: is empty: write the policy to it")
	}
	expectRefused(t, read(path, "digest: sha256:"+strings.Repeat("0", 64)), "policy", "and the file has sha256:")

	var needed *config.Needs
	for _, c := range tck.Cases() {
		if needed != nil {
			break
		}
		path = file(t, c.Name+".wasm", c.Wasm())
		if r := inspect(t, path); r.Load.OK && r.Policy != nil && r.Policy.Entries != nil && r.Policy.Sections == nil {
			needed = r.Policy
		}
	}
	if needed == nil {
		t.Fatal("no guest of the kit needs an entry alone")
	}
	if r := read(path, "dryRun: true"); r.Policy == nil {
		t.Error("a policy that allows nothing is enough")
	}
	if r := read(path, "allow: "+needed.Entries.String()); r.Policy != nil {
		t.Errorf("needed beside %s is %+v", needed.Entries, r.Policy)
	}
	c.Allow = config.Ceiling{}
	r, err := File(t.Context(), path, Options{ReadPolicy: c.ReadPolicy})
	if err != nil {
		t.Fatal(err)
	}
	expectRefused(t, r, "policy", "the host's configuration does not allow this much to the plugin")
}

func TestToolchainIsTheCompilerAmongTheProducers(t *testing.T) {
	clang := module.Producer{Name: "clang", Version: "19"}
	for want, producers := range map[string][]module.Producer{
		"":              nil,
		"clang 19":      {clang, {Name: "other"}},
		"TinyGo 0.41.1": {clang, {Name: "TinyGo", Version: "0.41.1"}},
		"Go 1.26.8":     {{Name: "Go cmd/compile", Version: "go1.26.8"}},
	} {
		if got := toolchain(&sandbox.ModuleInfo{Producers: producers}); got != want {
			t.Errorf("%v: %q, want %q", producers, got, want)
		}
	}
}
