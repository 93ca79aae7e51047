//go:build unix

package apimachinerytest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spec and status are those of testdata/values, with the types of apimachinery.
type (
	spec struct {
		Selectors []selected `json:"selectors,omitempty"`
		Parts     [][]string `json:"parts,omitempty"`
		Prefixes  []string   `json:"prefixes,omitempty"`
	}
	selected struct {
		Selector *metav1.LabelSelector `json:"selector"`
		Labels   []map[string]string   `json:"labels"`
	}
	status struct {
		Verdicts    []verdict `json:"verdicts"`
		ChildNames  []string  `json:"childNames"`
		UniqueNames []string  `json:"uniqueNames"`
	}
	verdict struct {
		Error    string                `json:"error"`
		Matches  []bool                `json:"matches"`
		Text     string                `json:"text"`
		Selector *metav1.LabelSelector `json:"selector"`
	}
)

// values is the plugin of testdata/values.
type values struct{ *sandbox.Guest }

func load(t *testing.T) values {
	s, err := sandbox.New(t.Context(), sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	wasm := wasmbuild.Build(t, wasmbuild.TinyGo, "host/internal/apimachinerytest/testdata/values")
	// The time ends only what never would end: the machine may be busy.
	guest, err := s.Load(t.Context(), sandbox.Plugin{Name: "values", Wasm: wasm, Limits: sandbox.Limits{Deadline: 2 * time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return values{guest}
}

// fataler is implemented by the tests of package testing and of package rapid.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// compute runs a primary of that name and spec, and returns its status.
func (v values) compute(t fataler, name string, spec spec) (out status) {
	t.Helper()
	primary, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": name, "namespace": "ns"}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	request := abi.EncodeRequest(&abi.Request{Controller: "values", Object: primary, Now: now})
	back, err := v.Reconcile(context.Background(), sandbox.Call{Namespace: "ns", Now: now, Request: [][]byte{request}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := abi.DecodeResult(back.Output)
	if err != nil || back.Code != abi.CodeOK {
		t.Fatal(back.Code, err, string(back.Output))
	}
	if result.Status == nil {
		return out // there was nothing to compute
	}
	if err := json.Unmarshal(result.Status, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
