//go:build unix

package apimachinerytest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plugin is a plugin of testdata.
type plugin struct{ *sandbox.Guest }

// load compiles the plugin of a folder of testdata.
func load(t *testing.T, name string) plugin {
	s, err := sandbox.New(t.Context(), sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	wasm := wasmbuild.Build(t, wasmbuild.TinyGo, "host/internal/apimachinerytest/testdata/"+name)
	// The time ends only what never would end: the machine may be busy.
	guest, err := s.Load(t.Context(), sandbox.Plugin{Name: name, Wasm: wasm, Limits: sandbox.Limits{Deadline: 2 * time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return plugin{guest}
}

// fataler is implemented by the tests of package testing and of package rapid.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// compute runs a primary of that name and spec, and decodes its status into out.
func (p plugin) compute(t fataler, name string, spec, out any) {
	t.Helper()
	primary, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": name, "namespace": "ns"}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	request := abi.EncodeRequest(&abi.Request{Controller: p.Manifest().Controllers[0].Name, Object: primary, Now: now})
	back, err := p.Reconcile(context.Background(), sandbox.Call{Namespace: "ns", Now: now, Request: [][]byte{request}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := abi.DecodeResult(back.Output)
	if err != nil || back.Code != abi.CodeOK {
		t.Fatal(back.Code, err, string(back.Output))
	}
	if result.Status == nil {
		return // there was nothing to compute
	}
	if err := json.Unmarshal(result.Status, out); err != nil {
		t.Fatal(err)
	}
}
