package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/internal/await"
)

// endlessPlugin returns a plugin whose runs write a whole result with a status and a ConfigMap, and
// do not end.
func endlessPlugin(name string, c abi.Controller) []byte {
	const manifestAt, resultAt = 1 << 10, 32 << 10
	manifest := abi.EncodeManifest(&abi.Manifest{Name: name, Version: "1", Controllers: []abi.Controller{c}})
	result := []byte(`{"result":"success","status":{"version":"written"},"apply":[{"object":` +
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}}}]}`)
	var m tck.Module
	ptr := []wasm.ValueType{wasm.I32}
	output := m.Import(abi.ImportModule, abi.ImportOutput, []wasm.ValueType{wasm.I32, wasm.I32}, nil)
	m.Data(manifestAt, manifest)
	m.Data(resultAt, result)
	m.Memory(1)
	m.ExportMemory(abi.ExportMemory)
	m.Export(abi.ExportMarker, m.Func(nil, nil, nil))
	m.Export(abi.ExportDescribe, m.Func(nil, ptr, nil,
		tck.I32Const(manifestAt), tck.I32Const(int32(len(manifest))), tck.Call(output), tck.I32Const(0)))
	m.Export(abi.ExportReconcile, m.Func(ptr, ptr, nil,
		tck.I32Const(resultAt), tck.I32Const(int32(len(result))), tck.Call(output),
		tck.Loop, tck.Branch(0), tck.End, tck.I32Const(0)))
	return m.Bytes()
}

// A run has the time that its controller states, but no more than the policy allows. One that
// exceeds it has written nothing: its object states what has happened.
func TestARunThatExceedsItsTimeoutHasChangedNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout time.Duration
		limits  string
	}{
		"of-the-controller": {300 * time.Millisecond, "timeout: 5m, "},
		"of-the-policy":     {5 * time.Minute, "timeout: 300ms, "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			installCRD(t, testdata+"stamp/crd.yaml")
			ns, d := namespace(t), newDirectory(t)
			// The fuel would last for hours: what ends the run is the time.
			d.installPolicy(name, "limits: {"+c.limits+"fuel: 1000000000000000}")
			d.install(name, endlessPlugin(name, abi.Controller{
				Name: "main", For: stampKind.All(), Owns: abi.AllOf(abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}),
				Timeout: c.timeout.Milliseconds(), Retry: abi.Retry{Initial: time.Hour.Milliseconds()},
			}))
			createStamp(t, ns, "s", "1")
			p := start(t, d, ns, "limits: {timeout: 5m, fuel: 1000000000000000}")
			p.awaitRunning(name, 1)
			await.Until(t, "the object states that the run took too long", func() bool {
				return condition(get(t, stamps, ns, "s"), "Ready")["reason"] == "Timeout"
			})
			p.awaitFailedRuns(t, name+"/main", "timeout")
			o := get(t, stamps, ns, "s")
			if version := field(o, "status", "version"); version != "" || ready(o) {
				t.Errorf("the run has written the status %v", o.Object["status"])
			}
			if get(t, configMaps, ns, name) != nil {
				t.Error("the run has applied its ConfigMap")
			}
			ended := p.Log.Since(0).FailedRuns("object", ns+"/s")
			took, err := time.ParseDuration(ended[0].String("duration"))
			if must(t, err); took < 300*time.Millisecond || took > time.Minute {
				t.Errorf("the run has taken %s", took)
			}
			if message, _ := condition(o, "Ready")["message"].(string); !strings.Contains(message, "deadline") {
				t.Errorf("the message is %s", message)
			}
			p.stop()
		})
	}
}
