package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/deadline"
)

// TestLoadErrorNamesStepAndReason for each guest of the kit that must be refused.
func TestLoadErrorNamesStepAndReason(t *testing.T) {
	want := map[string]struct{ step, text string }{
		"not-wasm":                          {StepParse, `plugin "not-wasm": parse module: not WebAssembly: the file does not start with "\0asm"`},
		"component":                         {StepParse, `a WebAssembly component (of the component model, as for target wasip2), not a core module: build for target wasip1`},
		"empty-file":                        {StepParse, `not WebAssembly`},
		"truncated":                         {StepParse, `truncated`},
		"count-bomb":                        {StepParse, `section function: malformed: 4294967295 functions do not fit the 1 bytes left`},
		"missing-marker":                    {StepVerify, `export "thole_v1" is missing: the module is not a Thole plugin`},
		"other-version":                     {StepVerify, `export "thole_v1" is missing, "thole_v2" is there: the module was built for another version of the ABI than this host's, which is thole/v1`},
		"missing-export":                    {StepVerify, `export "reconcile" is missing: export a function (i32) -> i32 under this name`},
		"wrong-signature":                   {StepVerify, `export "reconcile" has the signature (i64) -> i32: thole/v1 wants (i32) -> i32`},
		"wrong-kind":                        {StepVerify, `export "reconcile" is a memory`},
		"wrong-import-signature":            {StepVerify, `import "thole/v1.log" has the signature (i32, i32) -> (): thole/v1 has (i32, i32, i32) -> ()`},
		"unknown-import":                    {StepVerify, `import "thole/v1.outptu" is not known to this host: did you mean "thole/v1.output"?`},
		"unknown-import-module":             {StepVerify, `import "env.abort" is not known to this host: a plugin can import from thole/v1 and wasi_snapshot_preview1 only`},
		"memory-not-exported":               {StepVerify, `export "memory" is missing`},
		"huge-memory":                       {StepVerify, `export "memory" starts with 4096 MiB, the plugin's limit is 64 MiB`},
		"start-traps":                       {StepInstantiate, `instantiate module: panic: trap: unreachable`},
		"initialize-traps":                  {StepInitialize, `run _initialize: panic: trap: unreachable`},
		"describe-traps":                    {StepDescribe, `run describe: panic: trap: unreachable`},
		"describe-fails":                    {StepDescribe, `it returned 1, not 0`},
		"describe-without-manifest":         {StepDescribe, `it wrote no manifest`},
		"warm-traps":                        {StepWarm, `run warm: panic: trap: unreachable`},
		"manifest-not-json":                 {StepManifest, `read manifest: `},
		"manifest-unknown-field":            {StepManifest, `controlers`},
		"manifest-other-name":               {StepManifest, `name is "other-plugin", but the file is manifest-other-name.wasm`},
		"manifest-without-controllers":      {StepManifest, `controllers`},
		"manifest-same-controller-twice":    {StepManifest, `twin`},
		"manifest-without-kind":             {StepManifest, `kind`},
		"manifest-kind-elsewhere":           {StepManifest, `"../metrics" is not a group and version, such as apps/v1`},
		"manifest-retry-factor":             {StepManifest, `retry.factor`},
		"manifest-owns-selector":            {StepManifest, `cannot be used in owns`},
		"manifest-prune-without-owns":       {StepManifest, `prune: has no effect without owns`},
		"manifest-metadata-conditions":      {StepManifest, `conditions`},
		"manifest-watch-by":                 {StepManifest, `is not one of owner, label, annotation, field`},
		"manifest-same-watch-twice":         {StepManifest, `watches`},
		"manifest-index-path":               {StepManifest, `is no field path, such as spec.nodeName`},
		"manifest-changes-elsewhere":        {StepManifest, `"disk" is not one of memory, annotation`},
		"manifest-changes-secret":           {StepManifest, `would copy the content of v1 Secret into its annotations: use memory`},
		"manifest-timer-twice":              {StepManifest, `"probe" is given twice`},
		"index-without-export":              {StepManifest, `export "index" is missing, which is the kit's: export the function, or remove`},
		"index-wrong-signature":             {StepVerify, `export "index" has the signature (i64) -> i32: thole/v1 wants (i32) -> i32`},
		"daemon-without-export":             {StepManifest, `controller "conformance" has daemon, and export "daemon" is missing, which is the kit's: export the function, or remove daemon from the manifest`},
		"daemon-wrong-signature":            {StepVerify, `export "daemon" has the signature (i64) -> i32: thole/v1 wants (i32) -> i32`},
		"manifest-daemon-without-finalizer": {StepManifest, `needs finalizer: the object stays until its daemon has been stopped`},
		"manifest-daemon-long-selector":     {StepManifest, `daemon.labelSelector: 8193 bytes, the limit is 8192`},
		"manifest-daemon-unknown-field":     {StepManifest, `controllers[0].daemon: unknown field "interval"`},
		"scan-without-export":               {StepManifest, `controller "conformance" has scans, and export "scan" is missing, which is the kit's: export the function, or remove scans from the manifest`},
		"scan-wrong-signature":              {StepVerify, `export "scan" has the signature (i64) -> i32: thole/v1 wants (i32) -> i32`},
		"manifest-scan-without-interval":    {StepManifest, `scans[0].interval: is required: the time between two scans`},
		"manifest-scan-twice":               {StepManifest, `"due" is given twice`},
		"manifest-scan-name":                {StepManifest, `scans[0].name`},
		"manifest-scan-too-many":            {StepManifest, `more than 16 entries`},
		"manifest-scan-unknown-field":       {StepManifest, `scans[0]: unknown field "every"`},
		"manifest-webhooks-empty":           {StepManifest, `controllers[0].webhooks: has none of validate, mutate and convert: name one of them, or leave the section out`},
		"validate-without-export":           {StepManifest, `controller "conformance" has webhooks, and export "validate" is missing, which is the kit's: export the function, or remove webhooks from the manifest`},
		"mutate-without-export":             {StepManifest, `controller "conformance" has webhooks, and export "mutate" is missing, which is the kit's: export the function, or remove webhooks from the manifest`},
		"convert-without-export":            {StepManifest, `controller "conformance" has webhooks, and export "convert" is missing, which is the kit's: export the function, or remove webhooks from the manifest`},
		"validate-wrong-signature":          {StepVerify, `export "validate" has the signature (i64) -> i32: thole/v1 wants (i32) -> i32`},
		"mutate-wrong-signature":            {StepVerify, `export "mutate" has the signature (i64) -> i32: thole/v1 wants (i32) -> i32`},
		"convert-wrong-signature":           {StepVerify, `export "convert" has the signature (i64) -> i32: thole/v1 wants (i32) -> i32`},
		"manifest-validate-connect":         {StepManifest, `validate[0]: "CONNECT" is not one of CREATE, UPDATE, DELETE`},
		"manifest-validate-twice":           {StepManifest, `validate[1]: "CREATE" is given twice`},
		"manifest-mutate-delete":            {StepManifest, `mutate[0]: "DELETE" is not one of CREATE, UPDATE`},
		"manifest-convert-twice":            {StepManifest, `controllers[1].webhooks.convert: "thole.dev/v1 Conformance" is converted by the controller "one" already`},
		"manifest-convert-built-in":         {StepManifest, `convert: "v1 ConfigMap" is not a custom resource`},
		"manifest-index-of-two-kinds":       {StepManifest, `"keys" is an index of "v1 ConfigMap" in another controller: give one of them another name`},
		"manifest-status-owner-unknown":     {StepManifest, `statusOwner: "nobody" is not guest; leave it out where the host writes conditions`},
		"manifest-status-owner-conditions":  {StepManifest, `conditions: has no effect beside statusOwner "guest": the guest writes them in status`},
		"manifest-status-owner-metadata":    {StepManifest, `statusOwner: cannot be set beside for.metadataOnly`},
		"manifest-applied-unknown":          {StepManifest, `applied: "configmap" is not memory; leave it out for the annotation`},
		"manifest-applied-without-owns":     {StepManifest, `applied: has no effect without owns`},
		"manifest-applied-metadata":         {StepManifest, `applied: "memory" cannot be used with metadataOnly of v1 Pod in owns`},
		"manifest-while-deleting-finalizer": {StepManifest, `whileDeleting: has no effect beside finalizer`},
		"manifest-timer-without-interval":   {StepManifest, `is required: the time between two runs`},
	}
	s := newSandbox(t, Config{})
	for _, c := range tck.Cases() {
		if c.Stage != tck.StageLoad {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			w, ok := want[c.Name]
			if !ok {
				t.Fatal("no error is listed for this case of the kit")
			}
			_, err := s.Load(t.Context(), Plugin{Name: c.Name, Wasm: c.Wasm()})
			refused, ok := errors.AsType[*LoadError](err)
			if !ok {
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

func TestModuleWithTypeErrorIsRefusedByTheEngine(t *testing.T) {
	tg := newTestGuest("invalid")
	wasm := tg.build(nil, tck.I64Const(1)) // reconcile returns an i32
	_, err := newSandbox(t, Config{}).Load(t.Context(), Plugin{Name: "invalid", Wasm: wasm})
	wantStep(t, err, StepCompile, abi.ClassABI)
}

func TestImportedMemoryIsRefused(t *testing.T) {
	wasm := "\x00asm\x01\x00\x00\x00\x02\x0f\x01\x03env\x06memory\x02\x00\x01"
	_, err := newSandbox(t, Config{}).Load(t.Context(), Plugin{Name: "importing", Wasm: []byte(wasm)})
	wantStep(t, err, StepVerify, abi.ClassABI) // the error is about the missing marker
}

func TestReservedExportIsRefused(t *testing.T) {
	tg := newTestGuest("reserved")
	tg.Export("thole.global.0", tg.Func(noTypes, noTypes, nil))
	_, err := newSandbox(t, Config{}).Load(t.Context(), Plugin{Name: "reserved", Wasm: tg.build(nil, tg.ok())})
	wantStep(t, err, StepVerify, abi.ClassABI)
}

func TestDeadlineEndsALoopInInitialize(t *testing.T) {
	_, err := newSandbox(t, Config{}).Load(t.Context(), Plugin{
		Name: "looping", Wasm: loopingInInitialize("looping"), Limits: Limits{Deadline: soon},
	})
	wantStep(t, err, StepInitialize, abi.ClassTimeout)
}

func TestCanceledLoadIsNotCompiled(t *testing.T) {
	s := newSandbox(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Load(ctx, Plugin{Name: "waiting", Wasm: callingGet("waiting", 1)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	wantStep(t, err, StepCompile, abi.ClassABI)
}

func TestLoadTimeoutEndsTheCompilation(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Sandbox) {
		_, err := s.Load(t.Context(), withSlowSource("waiting"))
		wantStep(t, err, StepCompile, abi.ClassABI)
		if !strings.Contains(err.Error(), "has not ended in 10m0s") {
			t.Errorf("error = %v", err)
		}
	})
}

func TestLoadRefusesInvalidNamesAndLimits(t *testing.T) {
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
		{Plugin{Name: "a", Limits: Limits{Instances: 1000, Waiting: 25}}, "1 to 1024"},
		{Plugin{Name: "a", Limits: Limits{Instances: 1, Waiting: -1}}, "1 to 1024"},
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

// TestCloneWithLimitsSharesTheCode: nothing is read or compiled, the new limits
// hold for the clone alone, and either guest can be closed first.
func TestCloneWithLimitsSharesTheCode(t *testing.T) {
	for name, config := range map[string]Config{
		"in memory": {},
		"on disk":   {CacheDir: filepath.Join(t.TempDir(), "cache")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(t, config)
			g := load(t, s, Plugin{Name: "cloned", Wasm: needingInitialize("cloned")})
			next, err := s.CloneWithLimits(t.Context(), g, Limits{Deadline: time.Minute, Instances: 3})
			if err != nil {
				t.Fatal(err)
			}
			if next.limits.Deadline != time.Minute || g.limits.Deadline != 10*time.Second {
				t.Errorf("deadlines %s and %s", next.limits.Deadline, g.limits.Deadline)
			}
			if next.digest != g.digest || next.Manifest().Name != "cloned" || next.limits.Instances != 3 {
				t.Errorf("digest %x, manifest %+v, limits %+v", next.digest, next.Manifest(), next.limits)
			}
			reconcile(t, g, Call{})
			closeGuest(t, g)
			reconcile(t, next, Call{})
			last, err := s.CloneWithLimits(t.Context(), next, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			closeGuest(t, last)
			reconcile(t, next, Call{})
			closeGuest(t, next)
			if loaded, _ := next.code.Stats(); loaded {
				t.Error("the code is not freed")
			}
			if _, err := s.CloneWithLimits(t.Context(), next, Limits{}); !errors.Is(err, ErrClosed) {
				t.Errorf("clone of a closed guest: %v", err)
			}
			if n := s.Memory().Accounts; n != 0 {
				t.Errorf("%d memory accounts are left open", n)
			}
		})
	}
}

// TestCloneWithLimitsThatDoNotFitFails, and the guest still runs.
func TestCloneWithLimitsThatDoNotFitFails(t *testing.T) {
	s := newSandbox(t, Config{})
	g := load(t, s, Plugin{Name: "cloned", Wasm: needingInitialize("cloned")})
	_, err := s.CloneWithLimits(t.Context(), g, Limits{MemoryBytes: 1 << 16})
	wantStep(t, err, StepInstantiate, abi.ClassABI)
	if _, err := s.CloneWithLimits(t.Context(), g, Limits{Deadline: -1}); err == nil {
		t.Error("a negative deadline is accepted")
	}
	reconcile(t, g, Call{})
}

// TestAdviceCompletesTexts that do not contain what to do.
func TestAdviceCompletesTexts(t *testing.T) {
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
		_, err := s.Load(t.Context(), Plugin{Name: name, Wasm: kitCase(t, name).Wasm()})
		refused, ok := errors.AsType[*LoadError](err)
		if !ok || !strings.Contains(refused.Advice(), want) || (want == "") != (refused.Advice() == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAStackOverflowOfALoadIsCalledThat(t *testing.T) {
	_, err := newSandbox(t, Config{}).Load(t.Context(), Plugin{Name: "deep", Wasm: overflowingInInitialize("deep")})
	wantStep(t, err, StepInitialize, abi.ClassStackOverflow)
	refused, ok := errors.AsType[*LoadError](err)
	if !ok || !strings.Contains(err.Error(), "stack is used up") || !strings.Contains(refused.Advice(), "recursion") || strings.Contains(refused.Advice(), "tests") {
		t.Errorf("%v; %s", err, refused.Advice())
	}
}

// withSlowSource returns a plugin whose file takes longer to read than a load may
// take, in fake time.
func withSlowSource(name string) Plugin {
	wasm := callingGet(name, 1)
	return Plugin{Name: name, Digest: fmt.Sprintf("%x", sha256.Sum256(wasm)), Source: func() ([]byte, error) {
		time.Sleep(20 * defaultLoadTimeout) // fake time
		return wasm, nil
	}}
}

// The deadline of a call may pass before any code of the guest has run.
func TestADeadlineBeforeTheStartIsATimeout(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "correct", Wasm: kitCase(t, "correct").Wasm()})
	defer closeGuest(t, g)
	ctx, task, err := g.acquireSlot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer task.Release()
	ctx, cancel := deadline.With(ctx, 1)
	defer cancel()
	<-ctx.Done()
	_, err = g.instantiate(ctx, newCall(&g.limits, loadTime, g.digest), g.minimum)
	wantFault(t, err, abi.ClassTimeout, "deadline")
}

// TestSlowLoadIsNotTriedAgain until the file or the limits change.
func TestSlowLoadIsNotTriedAgain(t *testing.T) {
	s := newSandbox(t, Config{})
	wasm := loopingInInitialize("looping")
	reads := 0
	p := Plugin{
		Name: "looping", Digest: fmt.Sprintf("%x", sha256.Sum256(wasm)), Limits: Limits{Deadline: soon},
		Source: func() ([]byte, error) { reads++; return wasm, nil },
	}
	for range 3 {
		_, err := s.Load(t.Context(), p)
		wantStep(t, err, StepInitialize, abi.ClassTimeout)
		if !strings.Contains(err.Error(), notTriedAgain) || !strings.Contains(err.Error(), "deadline") {
			t.Errorf("error = %v, want the reason and %q", err, notTriedAgain)
		}
	}
	if n := s.Memory().Accounts; reads != 1 || n != 0 {
		t.Errorf("tried %d times, %d memory accounts are left open", reads, n)
	}
	p.Limits = Limits{Fuel: 1_000_000} // enough for a correct guest
	if _, err := s.Load(t.Context(), p); err == nil || !strings.Contains(err.Error(), notTriedAgain) || reads != 2 {
		t.Errorf("with other limits: error = %v after %d attempts", err, reads)
	}
	load(t, s, Plugin{Name: "looping", Wasm: callingGet("looping", 1), Limits: p.Limits})
}

func TestSlowCompilationIsNotTriedAgain(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Sandbox) {
		for range 2 {
			_, err := s.Load(t.Context(), withSlowSource("slow"))
			wantStep(t, err, StepCompile, abi.ClassABI)
			if !strings.Contains(err.Error(), notTriedAgain) {
				t.Errorf("error = %v", err)
			}
		}
		if n := s.failures.Len(); n != 1 {
			t.Errorf("%d errors are kept", n)
		}
	})
}

// TestOtherFailuresAreTriedAgain: only errors of loads that took too long are
// kept.
func TestOtherFailuresAreTriedAgain(t *testing.T) {
	s := newSandbox(t, Config{})
	for range 2 {
		_, err := s.Load(t.Context(), Plugin{Name: "describe-traps", Wasm: kitCase(t, "describe-traps").Wasm()})
		if err == nil || strings.Contains(err.Error(), notTriedAgain) {
			t.Errorf("error = %v", err)
		}
	}
	if n := s.failures.Len(); n != 0 {
		t.Errorf("%d errors are kept", n)
	}
}

func TestKeptLoadFailuresAreBounded(t *testing.T) {
	s := newSandbox(t, Config{})
	for n := range 3 * maxLoadFailures {
		s.failures.Add(loadKey{limits: Limits{Fuel: int64(n)}}, &LoadError{})
	}
	if n := s.failures.Len(); n != maxLoadFailures {
		t.Errorf("%d errors are kept, want %d", n, maxLoadFailures)
	}
	for n, want := range map[int64]bool{0: false, 3*maxLoadFailures - 1: true} {
		if _, kept := s.failures.Get(loadKey{limits: Limits{Fuel: n}}); kept != want {
			t.Errorf("error %d is kept: %t", n, kept)
		}
	}
}
