package wasmtest_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/internal/wasmbuild"
	"github.com/thole-dev/thole/sdk/codec"
	"github.com/thole-dev/thole/sdk/internal/shapes"
	"github.com/thole-dev/thole/sdk/sdktest/wasmtest"
)

const generatedDir = "sdk/sdktest/wasmtest/testdata/generated"

// TestGeneratedCodecIsSameInWebAssembly compares generated code, compiled to
// WebAssembly, with the same code natively, including its errors.
func TestGeneratedCodecIsSameInWebAssembly(t *testing.T) {
	texts := append(shapes.Texts,
		deep(codec.MaxDepth/2, `{"many":[`, `]}`),
		deep(codec.MaxDepth, `{"left":`, `}`),
		deep(codec.MaxDepth+1, `{"left":`, `}`),
		deep(codec.MaxDepth, `[`, `]`),
		deep(5_000, `{"left":`, `}`),
		deep(5_000, `{"unknown":`, `}`),
	)
	compiled(t, generatedDir, func(t *testing.T, _ wasmbuild.Toolchain, wasm []byte) {
		guest := wasmtest.Load(t, "generated", wasm)
		for _, s := range shapes.Subjects {
			for _, text := range texts {
				if got, want := round(t, guest, s.Name, text), s.Round([]byte(text)); of32(got) != of32(want) {
					t.Errorf("%s: %.300s\nis %s\nnatively %s", s.Name, text, got, want)
				}
			}
		}
	})
}

// of32 replaces the size of a native int by that of a guest's int.
func of32(message string) string { return strings.ReplaceAll(message, "of 64 bits", "of 32 bits") }

func deep(levels int, open, end string) string {
	return strings.Repeat(open, levels) + strings.Repeat(end, levels)
}

// round makes the plugin decode a text and encode the value again.
func round(t *testing.T, guest *sandbox.Guest, subject, text string) string {
	t.Helper()
	spec, err := json.Marshal(struct {
		Subject string `json:"subject"`
		Text    []byte `json:"text"`
	}{subject, []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	request := abi.EncodeRequest(&abi.Request{Controller: "generated", Object: []byte(`{"spec":` + string(spec) + `}`), Now: now})
	out, err := guest.Reconcile(t.Context(), sandbox.Call{Now: now, Request: [][]byte{request}, Host: onePod{}})
	if err != nil {
		t.Fatalf("%s: %.300s: %v", subject, text, err)
	}
	result, err := abi.DecodeResult(out.Output)
	if err != nil {
		t.Fatal(err)
	}
	var status struct {
		Result string `json:"result"`
	}
	if err := json.Unmarshal(result.Status, &status); err != nil {
		t.Fatalf("%s: %v", out.Output, err)
	}
	return status.Result
}

// TestGeneratedPluginDoesNotContainEncodingJSON looks for the names of its functions
// in the module.
func TestGeneratedPluginDoesNotContainEncodingJSON(t *testing.T) {
	for dir, want := range map[string]bool{generatedDir: false, daemonDir: false, reviewDir: false, scanDir: false, bareDir: true} {
		if wasm := build(t, dir); bytes.Contains(wasm, []byte("encoding/json.")) != want {
			t.Errorf("%s: contains encoding/json: %v", dir, !want)
		}
	}
}
