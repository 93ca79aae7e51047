package sandbox

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/abi/wasm"
	"github.com/thole-dev/thole/host/sandbox/wasi"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// expectingCode returns a guest that traps unless get, of a message of that
// length, returns that code.
func expectingCode(name string, length int32, code int64) []byte {
	tg := newTestGuest(name)
	get := tg.get()
	return tg.build(nil,
		tck.I32Const(0), tck.I32Const(length), tck.Call(get), tck.I64Const(code), tck.I64Ne, tck.If, tck.Unreachable, tck.End,
		tg.ok())
}

func TestHostCallLimitEndsTheCall(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "calling", Wasm: callingGet("calling", 4), Limits: Limits{HostCalls: 3}})
	calls := 0
	_, err := g.Reconcile(t.Context(), Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) {
		calls++
		return nil, 0
	})})
	wantFault(t, err, abi.ClassABI, "limit of 3 host calls")
	if calls != 3 {
		t.Errorf("the host was called %d times", calls)
	}
}

func TestReplyBeyondItsLimitIsCodeTooLarge(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "large", Wasm: expectingCode("large", 4, abi.CodeTooLarge), Limits: Limits{ReplyBytes: 10}})
	reconcile(t, g, Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) { return make([]byte, 11), 0 })})
}

func TestMessageBeyondItsLimitIsCodeInvalid(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "long", Wasm: expectingCode("long", abi.MaxCall+1, abi.CodeInvalid)})
	reconcile(t, g, Call{Host: hostFunc(func(context.Context, []byte) ([]byte, int64) {
		t.Error("the host was called")
		return nil, 0
	})})
}

func TestWithoutHostCapabilitiesAreDenied(t *testing.T) {
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "denied", Wasm: expectingCode("denied", 4, abi.CodeDenied)})
	reconcile(t, g, Call{})
}

func TestLogBeyondItsLimitIsDropped(t *testing.T) {
	tg := newTestGuest("logging")
	log := tg.Import(abi.ImportModule, abi.ImportLog, levelPtrLen, noTypes)
	body := bytes.Repeat(slices.Concat(tck.I32Const(9), tck.I32Const(0), tck.I32Const(20), tck.Call(log)), 10)
	g := load(t, newSandbox(t, Config{}), Plugin{Name: "logging", Wasm: tg.build(nil, body, tg.ok()), Limits: Limits{LogBytes: 3 * (20 + logOverhead)}})
	var host recorder
	reconcile(t, g, Call{Host: &host})
	if len(host.lines) != 3 || host.lines[0] != "3 "+resultText {
		t.Errorf("logged %q, want 3 lines", host.lines)
	}
}

// TestSystemCallsWithWildPointersReturnErrors and do not fail the host.
func TestSystemCallsWithWildPointersReturnErrors(t *testing.T) {
	for _, f := range wasi.Functions {
		if f.Name == "proc_exit" {
			continue
		}
		for _, descriptor := range []int32{1, -1} {
			t.Run(f.Name, func(t *testing.T) {
				g := load(t, newSandbox(t, Config{}), Plugin{Name: "wild", Wasm: withWildPointers(f, descriptor)})
				defer closeGuest(t, g)
				if _, err := g.Reconcile(t.Context(), Call{}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// withWildPointers returns a guest that calls a function with addresses beyond
// its memory.
func withWildPointers(f wasi.Function, descriptor int32) []byte {
	tg := newTestGuest("wild")
	var params types
	var body [][]byte
	for i := range f.Type().Params {
		param := wasm.ValueType(f.Type().Params[i])
		params = append(params, param)
		switch {
		case param == wasm.I64:
			body = append(body, tck.I64Const(-1))
		case i == 0:
			body = append(body, tck.I32Const(descriptor))
		default:
			body = append(body, tck.I32Const(-8))
		}
	}
	imported := tg.Import(wasi.ImportModule, f.Name, params, i32Only)
	return tg.build(nil, append(body, tck.Call(imported), tck.Drop, tg.ok())...)
}

// paying is a host whose reads look at objects.
type paying struct {
	hostFunc
	objects, times int
}

func (p paying) Get(_ context.Context, call ReadCall) (Reply, int64) {
	for range p.times {
		call.Pay(p.objects)
	}
	return Reply{}, abi.CodeNotFound
}

func TestWhatAReadLooksAtIsPaidByTheGuest(t *testing.T) {
	load := func(limits Limits) *Guest {
		return load(t, newSandbox(t, Config{}), Plugin{Name: "reads", Wasm: expectingCode("reads", 4, abi.CodeNotFound), Limits: limits})
	}
	g := load(Limits{})
	little := reconcile(t, g, Call{Host: paying{objects: 1, times: 1}}).Usage.Fuel
	if much := reconcile(t, g, Call{Host: paying{objects: 1000, times: 10}}).Usage.Fuel; much < little+9000*lookCost {
		t.Errorf("%d of fuel for 10000 objects, %d for one", much, little)
	}
	_, err := load(Limits{Fuel: 1_000_000}).Reconcile(t.Context(), Call{Host: paying{objects: 1000, times: 1 << 30}})
	wantFault(t, err, abi.ClassTimeout, "the fuel of the call is used up")
	_, err = g.Reconcile(t.Context(), Call{Host: paying{objects: 10, times: 1 << 30}, Deadline: 50 * time.Millisecond})
	wantFault(t, err, abi.ClassTimeout, "the deadline")
}

// inParts is a host whose reply has several parts.
type inParts struct {
	hostFunc
	parts []string
}

func (p inParts) Get(context.Context, ReadCall) (Reply, int64) {
	size, parts := len(strings.Join(p.parts, "")), p.parts
	return Reply{Size: size, Next: func() []byte {
		part := parts[0]
		parts = parts[1:]
		return []byte(part)
	}}, 0
}

func TestAReplyIsReadInPieces(t *testing.T) {
	host := inParts{parts: []string{"ab", "", "cde", "f"}}
	reply, _ := host.Get(t.Context(), ReadCall{})
	var input inputText
	input.set(reply)
	var got []string
	for _, n := range []int{1, 0, 3, 2} {
		p := make([]byte, n)
		input.read(p)
		got = append(got, string(p))
	}
	if want := []string{"a", "", "bcd", "ef"}; !slices.Equal(got, want) || input.left != 0 {
		t.Errorf("read %q, want %q, %d bytes are left", got, want, input.left)
	}
}

// TestARequestInPartsIsTheSameToAGuest whose status depends on all of it.
func TestARequestInPartsIsTheSameToAGuest(t *testing.T) {
	g := load(t, newSandbox(t, compiledGuests()), Plugin{Name: "appliance", Wasm: wasmbuild.Build(t, wasmbuild.TinyGo, benchTyped)})
	q := &abi.Request{Controller: "appliance", Object: benchRaw(t), Now: callTime}
	text, parts := abi.EncodeRequest(q), abi.EncodeRequestParts(q)
	want := reconcile(t, g, Call{Request: [][]byte{text}, Now: callTime})
	for name, parts := range map[string][][]byte{
		"its": parts, "empty": {nil, text[:7], {}, text[7:8], nil, text[8:], nil},
	} {
		if got := reconcile(t, g, Call{Request: parts, Now: callTime}); !bytes.Equal(got.Output, want.Output) || got.Usage.Fuel != want.Usage.Fuel {
			t.Errorf("%s parts: %s with %d of fuel, in one %s with %d", name, got.Output, got.Usage.Fuel, want.Output, want.Usage.Fuel)
		}
	}
}
