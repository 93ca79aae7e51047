package sandbox

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

const probeDir = "host/sandbox/testdata/probe"

// eachToolchain runs a test with the probe as each compiler builds it.
func eachToolchain(t *testing.T, limits Limits, run func(t *testing.T, p *probe)) {
	for _, toolchain := range wasmbuild.Toolchains {
		t.Run(string(toolchain), func(t *testing.T) {
			wasm := wasmbuild.Build(t, toolchain, probeDir)
			if err := tck.Check(wasm); err != nil {
				t.Fatal(err)
			}
			g := load(t, newSandbox(t, compiledGuests()), Plugin{Name: "probe", Wasm: wasm, Limits: limits})
			run(t, &probe{t: t, g: g, toolchain: toolchain})
		})
	}
}

// probe sends commands to the guest of testdata/probe.
type probe struct {
	t         *testing.T
	g         *Guest
	toolchain wasmbuild.Toolchain
	host      recorder
	deadline  time.Duration
	namespace string
}

func (p *probe) try(command string) (Return, error) {
	p.t.Helper()
	return p.g.Reconcile(p.t.Context(), Call{
		Request: [][]byte{probeRequest(command)}, Namespace: p.namespace, Now: callTime, Seed: [32]byte{7}, Host: &p.host, Deadline: p.deadline,
	})
}

func probeRequest(command string) []byte {
	return abi.EncodeRequest(&abi.Request{
		Controller: "probe",
		Object:     []byte(`{"apiVersion":"thole.dev/v1","kind":"Probe","metadata":{"name":"p"}}`),
		Memo:       []byte(strconv.Quote(command)),
		Now:        callTime,
	})
}

// ask sends a command that must succeed and returns its result.
func (p *probe) ask(command string) string {
	p.t.Helper()
	out, err := p.try(command)
	if err != nil {
		p.t.Fatalf("%s: %v", command, err)
	}
	result, err := abi.DecodeResult(out.Output)
	if err != nil {
		p.t.Fatalf("%s: %v", command, err)
	}
	if out.Code != abi.CodeOK {
		p.t.Fatalf("%s: code %d, %+v", command, out.Code, result.Error)
	}
	text, err := strconv.Unquote(string(result.Memo))
	if err != nil {
		p.t.Fatalf("%s: memo %s: %v", command, result.Memo, err)
	}
	return text
}

// fault sends a command that must fail.
func (p *probe) fault(command string) *Fault {
	p.t.Helper()
	_, err := p.try(command)
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		p.t.Fatalf("%s: error = %v, want a fault", command, err)
	}
	return f
}

func TestCompiledGuestSeesTheCallOnly(t *testing.T) {
	eachToolchain(t, Limits{}, func(t *testing.T, p *probe) {
		for _, c := range []struct{ command, want string }{
			{"clock", "2026-11-20T10:00:00Z"},
			{"sleep", "1h0m0s"},
			{"environment", "0 false"},
			{"file", "true"},
			{"get", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"tck","namespace":"default"},"data":{"greeting":"hello"}}`},
			{"log", ""},
		} {
			if got := p.ask(c.command); got != c.want {
				t.Errorf("%s = %q, want %q", c.command, got, c.want)
			}
		}
		if !slices.Equal(p.host.lines, []string{"2 from the probe"}) {
			t.Errorf("logged %q", p.host.lines)
		}
		if f := p.fault("print"); string(f.Stdout) != "to stdout\n" || string(f.Stderr) != "to stderr\n" {
			t.Errorf("printed %q and %q", f.Stdout, f.Stderr)
		}
	})
}

func TestCompiledGuestFailsWithClassAndStack(t *testing.T) {
	limits := Limits{MemoryBytes: 16 << 20, Deadline: time.Minute}
	eachToolchain(t, limits, func(t *testing.T, p *probe) {
		for _, c := range []struct {
			command string
			class   abi.Class
			words   string
			frame   string
		}{
			{"panic", abi.ClassPanic, "as commanded", "main.reconcile"},
			{"divide", abi.ClassPanic, "divide by zero", "main.reconcile"},
			{"exit", abi.ClassPanic, "code 3", "proc_exit"},
			{"exhaust", abi.ClassOutOfMemory, "out of memory", "main.reconcile"},
		} {
			f := p.fault(c.command)
			if f.Class != c.class || !strings.Contains(f.Printed+f.Message, c.words) {
				t.Errorf("%s: %v, printed %q, want %s with %q", c.command, f, f.Printed, c.class, c.words)
			}
			if printed := c.command != "exit" && strings.Contains(f.Error(), c.words); printed {
				t.Errorf("%s: what the guest has printed is in the error: %v", c.command, f)
			}
			if stack := strings.Join(append(f.Stack, f.PrintedStack...), "\n"); !strings.Contains(stack, c.frame) || len(f.Stack) == 0 {
				t.Errorf("%s: the stack has no %s:\n%s", c.command, c.frame, stack)
			}
			if got := p.ask("clock"); got != "2026-11-20T10:00:00Z" {
				t.Errorf("after %s: clock = %s", c.command, got)
			}
		}
	})
}

// TestCompiledGuestFitsItsStack with the expression of an OCI reference: it takes more than 64 KiB.
func TestCompiledGuestFitsItsStack(t *testing.T) {
	eachToolchain(t, Limits{}, func(t *testing.T, p *probe) {
		if got := p.ask("reference"); got != "true" {
			t.Errorf("the reference matches: %s", got)
		}
	})
}

func TestCompiledGuestRecursionEnds(t *testing.T) {
	eachToolchain(t, Limits{Deadline: time.Minute}, func(t *testing.T, p *probe) {
		if f := p.fault("recurse"); f.Class != abi.ClassStackOverflow {
			t.Errorf("%v\n%s", f, f.Stderr)
		}
	})
}

func TestCompiledGuestLoopEndsAtItsDeadline(t *testing.T) {
	eachToolchain(t, Limits{}, func(t *testing.T, p *probe) {
		p.deadline = 100 * time.Millisecond
		if f := p.fault("spin"); f.Class != abi.ClassTimeout {
			t.Errorf("%v, want a timeout", f)
		}
	})
}

func TestStateIsKeptBetweenCallsOfStandardGoOnly(t *testing.T) {
	eachToolchain(t, Limits{Instances: 1}, func(t *testing.T, p *probe) {
		mode, want := "reset", []string{"2", "2", "2"}
		if p.toolchain == wasmbuild.Go {
			mode, want = "pooled", []string{"2", "4", "6"}
		}
		if got := []string{p.ask("count"), p.ask("count"), p.ask("count")}; !slices.Equal(got, want) {
			t.Errorf("counts = %q, want %q", got, want)
		}
		if s := p.g.Stats(); p.g.mode.String() != mode || s.Created != 1 || s.Dropped != 0 {
			t.Errorf("stats = %+v, want one instance in mode %s", s, mode)
		}
	})
}

// TestStateOfStandardGoStaysInItsNamespace, of which cluster-scoped objects have one
// of their own.
func TestStateOfStandardGoStaysInItsNamespace(t *testing.T) {
	eachToolchain(t, Limits{Instances: 1}, func(t *testing.T, p *probe) {
		for _, p.namespace = range []string{"a", "b", "", "a", "", "b"} {
			if got := p.ask("count"); got != "2" {
				t.Errorf("in namespace %q: count = %s, want 2", p.namespace, got)
			}
		}
		if s := p.g.Stats(); s.Created != 1 || s.Dropped != 0 {
			t.Errorf("stats = %+v, want one instance, which is reset", s)
		}
	})
}

// TestInstancesServeTheirNamespaceAgain while there is one for each.
func TestInstancesServeTheirNamespaceAgain(t *testing.T) {
	eachToolchain(t, Limits{Instances: 2}, func(t *testing.T, p *probe) {
		busy, err := p.g.pool.acquire(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		p.namespace = "a"
		p.ask("count")
		p.g.pool.release(t.Context(), busy)
		want := []string{"2", "2", "2", "2"}
		if p.toolchain == wasmbuild.Go {
			want = []string{"2", "4", "4", "6"}
		}
		var got []string
		for _, p.namespace = range []string{"b", "a", "b", "a"} {
			got = append(got, p.ask("count"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("counts = %q, want %q", got, want)
		}
	})
}

func TestPooledNamespacesShareState(t *testing.T) {
	wasm := wasmbuild.Build(t, wasmbuild.Go, probeDir)
	g := load(t, newSandbox(t, compiledGuests()), Plugin{Name: "probe", Wasm: wasm, Limits: Limits{Instances: 1, PoolNamespaces: true}})
	p := &probe{t: t, g: g, toolchain: wasmbuild.Go}
	var got []string
	for _, p.namespace = range []string{"a", "b", ""} {
		got = append(got, p.ask("count"))
	}
	if want := []string{"2", "4", "6"}; !slices.Equal(got, want) {
		t.Errorf("counts = %q, want %q", got, want)
	}
}

func TestRandomBytesComeFromTheSeed(t *testing.T) {
	eachToolchain(t, Limits{Instances: 1}, func(t *testing.T, p *probe) {
		first := p.ask("random")
		if len(first) != 32 || strings.Trim(first, "0") == "" {
			t.Fatalf("random = %q", first)
		}
		if p.toolchain == wasmbuild.Go {
			return // its generator is part of the pooled state
		}
		if second := p.ask("random"); second != first {
			t.Errorf("the same seed gave %s and %s", first, second)
		}
	})
}

// TestGrownInstancesAreUsedAgain: a call that grows the memory costs no new instance.
func TestGrownInstancesAreUsedAgain(t *testing.T) {
	eachToolchain(t, Limits{Instances: 1}, func(t *testing.T, p *probe) {
		for range 100 {
			p.ask("grow")
			p.namespace += "x"
		}
		if s := p.g.Stats(); s.Created != 1 || s.Dropped != 0 {
			t.Errorf("stats = %+v, want one instance", s)
		}
	})
}

func TestGuestCanUseMemoryUpToItsLimit(t *testing.T) {
	wasm := wasmbuild.Build(t, wasmbuild.TinyGo, probeDir)
	const limit = 48 << 20 // not a power of two
	g := load(t, newSandbox(t, compiledGuests()), Plugin{Name: "probe", Wasm: wasm, Limits: Limits{MemoryBytes: limit}})
	p := &probe{t: t, g: g}
	out, err := p.try("exhaust")
	if wantFault(t, err, abi.ClassOutOfMemory, ""); out.Usage.MemoryBytes != limit {
		t.Errorf("failed with %d bytes, want %d", out.Usage.MemoryBytes, limit)
	}
}
