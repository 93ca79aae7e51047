package sandbox

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
)

// TestLoadErrors has what a user reads for each guest of the kit that must be
// refused.
func TestLoadErrors(t *testing.T) {
	want := map[string]struct{ step, text string }{
		"not-wasm":                       {StepParse, `plugin "not-wasm": parse module: not WebAssembly: the file does not start with "\0asm"`},
		"empty-file":                     {StepParse, `not WebAssembly`},
		"truncated":                      {StepParse, `truncated`},
		"count-bomb":                     {StepParse, `section function: malformed: 4294967295 functions do not fit the 1 bytes left`},
		"missing-marker":                 {StepVerify, `export "thole_v1" is missing: the module is not a Thole plugin`},
		"other-version":                  {StepVerify, `export "thole_v1" is missing, "thole_v2" is there: the module speaks another version of the ABI than this host, which speaks thole/v1`},
		"missing-export":                 {StepVerify, `export "reconcile" is missing: export a function (i32) -> i32 under this name`},
		"wrong-signature":                {StepVerify, `export "reconcile" has the signature (i64) -> i32: thole/v1 wants (i32) -> i32`},
		"wrong-kind":                     {StepVerify, `export "reconcile" is a memory`},
		"wrong-import-signature":         {StepVerify, `import "thole/v1.log" has the signature (i32, i32) -> (): thole/v1 has (i32, i32, i32) -> ()`},
		"unknown-import":                 {StepVerify, `import "thole/v1.outptu" is not known to this host: did you mean "thole/v1.output"?`},
		"unknown-import-module":          {StepVerify, `import "env.abort" is not known to this host: a plugin can import from thole/v1 and wasi_snapshot_preview1 only`},
		"memory-not-exported":            {StepVerify, `export "memory" is missing`},
		"huge-memory":                    {StepVerify, `export "memory" starts with 4096 MiB, the plugin's limit is 64 MiB`},
		"start-traps":                    {StepInstantiate, `instantiate module: panic: trap: unreachable`},
		"initialize-traps":               {StepInitialize, `run _initialize: panic: trap: unreachable`},
		"describe-traps":                 {StepDescribe, `run describe: panic: trap: unreachable`},
		"describe-fails":                 {StepDescribe, `it answered 1, not 0`},
		"describe-silent":                {StepDescribe, `it wrote no manifest`},
		"warm-traps":                     {StepWarm, `run warm: panic: trap: unreachable`},
		"manifest-garbage":               {StepManifest, `read manifest: `},
		"manifest-unknown-field":         {StepManifest, `controlers`},
		"manifest-other-name":            {StepManifest, `name is "somebody-else", but the file is manifest-other-name.wasm`},
		"manifest-without-controllers":   {StepManifest, `controllers`},
		"manifest-same-controller-twice": {StepManifest, `twin`},
		"manifest-without-kind":          {StepManifest, `kind`},
	}
	s := newSandbox(t, Config{})
	for _, c := range tck.Cases() {
		if c.Stage != tck.StageLoad {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			w, ok := want[c.Name]
			if !ok {
				t.Fatal("the kit has a new case: say what the user reads")
			}
			_, err := s.Load(t.Context(), Plugin{Name: c.Name, Wasm: c.Wasm()})
			var refused *LoadError
			if !errors.As(err, &refused) {
				t.Fatalf("error = %v, want a load error", err)
			}
			if refused.Step != w.step || !strings.Contains(err.Error(), w.text) {
				t.Errorf("step %s: %v\nwant %s: %s", refused.Step, err, w.step, w.text)
			}
		})
	}
	if n := len(s.guests); n != 0 {
		t.Errorf("%d guests are left over", n)
	}
}

// TestAdvice: where a text does not say what to do, the advice does.
func TestAdvice(t *testing.T) {
	s := newSandbox(t, Config{})
	for name, want := range map[string]string{
		"not-wasm":               "build the plugin with the SDK",
		"empty-file":             "copy or build the file again",
		"truncated":              "copy or build the file again",
		"missing-export":         "",
		"unknown-import":         "",
		"describe-traps":         "run its tests",
		"manifest-unknown-field": "correct what the plugin registers",
		"manifest-other-name":    "",
	} {
		c, _ := tck.CaseOf(name)
		_, err := s.Load(t.Context(), Plugin{Name: c.Name, Wasm: c.Wasm()})
		refused, ok := errors.AsType[*LoadError](err)
		if !ok || !strings.Contains(refused.Advice(), want) || (want == "") != (refused.Advice() == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStepsAreTold(t *testing.T) {
	for _, step := range Steps() {
		if stepVerbs[step] == "" {
			t.Errorf("step %q has no words", step)
		}
	}
}

func TestInvalidModuleIsRefusedByTheEngine(t *testing.T) {
	h := newHand("invalid")
	wasm := h.wasm(nil, tck.I64Const(1)) // reconcile returns an i32
	_, err := newSandbox(t, Config{}).Load(t.Context(), Plugin{Name: "invalid", Wasm: wasm})
	wantStep(t, err, StepCompile, abi.ClassABI)
}

func TestImportedMemoryIsRefused(t *testing.T) {
	wasm := "\x00asm\x01\x00\x00\x00\x02\x0f\x01\x03env\x06memory\x02\x00\x01"
	_, err := newSandbox(t, Config{}).Load(t.Context(), Plugin{Name: "importing", Wasm: []byte(wasm)})
	wantStep(t, err, StepVerify, abi.ClassABI) // the marker is told first
}

func TestReservedExportIsRefused(t *testing.T) {
	h := newHand("reserved")
	h.Export("thole.global.0", h.Func(none, none, nil))
	_, err := newSandbox(t, Config{}).Load(t.Context(), Plugin{Name: "reserved", Wasm: h.wasm(nil, h.ok())})
	wantStep(t, err, StepVerify, abi.ClassABI)
}

func TestLoadingLoopsEnd(t *testing.T) {
	h := newHand("spinning")
	h.Export(abi.ExportInitialize, h.Func(none, none, nil, tck.Loop, tck.Branch(0), tck.End))
	_, err := newSandbox(t, Config{}).Load(t.Context(), Plugin{
		Name: "spinning", Wasm: h.wasm(nil, h.ok()),
		Limits: Limits{Deadline: soon},
	})
	wantStep(t, err, StepInitialize, abi.ClassTimeout)
}

func TestLoadEndsWithItsContext(t *testing.T) {
	s := newSandbox(t, Config{})
	s.compiling <- struct{}{} // as if another module were compiled
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Load(ctx, Plugin{Name: "asking", Wasm: asking("asking", 1)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	wantStep(t, err, StepCompile, abi.ClassABI)
	<-s.compiling
}

func TestLoadTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sandbox) {
		_, err := s.Load(t.Context(), late("asking"))
		wantStep(t, err, StepCompile, abi.ClassABI)
		if !strings.Contains(err.Error(), "deadline") {
			t.Errorf("error = %v", err)
		}
	})
}

func wantStep(t *testing.T, err error, step string, class abi.Class) {
	t.Helper()
	var refused *LoadError
	if !errors.As(err, &refused) || refused.Step != step || refused.FailureClass() != class {
		t.Fatalf("error = %v, want step %s and class %s", err, step, class)
	}
}

func TestLoadRefusesNamesAndLimits(t *testing.T) {
	s := newSandbox(t, Config{})
	for _, c := range []struct {
		plugin Plugin
		want   string
	}{
		{Plugin{Name: ""}, "DNS label"},
		{Plugin{Name: "Upper"}, "DNS label"},
		{Plugin{Name: "../escape"}, "DNS label"},
		{Plugin{Name: strings.Repeat("a", 64)}, "DNS label"},
		{Plugin{Name: "a", Limits: Limits{MemoryBytes: 1000}}, "multiple of 64 KiB"},
		{Plugin{Name: "a", Limits: Limits{MemoryBytes: 8 << 30}}, "up to 2 GiB"},
		{Plugin{Name: "a", Limits: Limits{Deadline: -1}}, "positive duration"},
		{Plugin{Name: "a", Limits: Limits{Instances: 2000}}, "1 to 1024"},
		{Plugin{Name: "a", Limits: Limits{OutputBytes: -1}}, "output bytes"},
		{Plugin{Name: "a", Limits: Limits{HostCalls: -1}}, "host calls"},
	} {
		_, err := s.Load(t.Context(), c.plugin)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error = %v, want %q", c.plugin, err, c.want)
		}
	}
	if _, err := New(t.Context(), Config{LoadTimeout: -1}); err == nil {
		t.Error("a negative load timeout was accepted")
	}
}

func TestNearest(t *testing.T) {
	for symbol, want := range map[string]string{
		"thole/v1.outptu":                    "thole/v1.output",
		"wasi_snapshot_preview1.fd_wriet":    "wasi_snapshot_preview1.fd_write",
		"env.abort":                          "",
		"thole/v1.something_quite_different": "",
	} {
		if got := nearest(symbol); got != want {
			t.Errorf("nearest(%q) = %q, want %q", symbol, got, want)
		}
	}
}

func TestImportHint(t *testing.T) {
	for symbol, want := range map[string]string{
		"thole/v1.outptu":       "did you mean",
		"thole/v1.http_request": "newer host",
		"thole/v2.get":          "another version",
		"env.abort":             "target wasip1",
	} {
		module, _, _ := strings.Cut(symbol, ".")
		if got := importHint(symbol, module); !strings.Contains(got, want) {
			t.Errorf("importHint(%q) = %q, want %q", symbol, got, want)
		}
	}
}
