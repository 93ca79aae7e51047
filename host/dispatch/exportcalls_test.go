package dispatch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// exporting is a guest with exports.
type exporting struct {
	Guest
	call func(ctx context.Context, export string, call sandbox.Call) (sandbox.Return, error)
}

func (g exporting) Call(ctx context.Context, export string, call sandbox.Call) (sandbox.Return, error) {
	return g.call(ctx, export, call)
}

// exports makes the running revision one with such a guest.
func (f *fixture) exports(call func(ctx context.Context, export string, call sandbox.Call) (sandbox.Return, error)) {
	rev := *f.c.Revision()
	rev.Number++
	rev.Guest = exporting{rev.Guest, call}
	f.c.revision.Store(&rev)
}

func callOf(export string) ExportCall {
	return ExportCall{
		Export: export, Object: object.Key{Namespace: "ns", Name: "new"}, Timeout: 2 * time.Second,
		Begin: func(rev *Revision, now time.Time, seed [32]byte) ([][]byte, error) {
			return [][]byte{[]byte(rev.Controller.Name)}, nil
		},
	}
}

func TestACallOfAnExportReadsWhatTheControllerMayRead(t *testing.T) {
	f := newFixture(t)
	f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g"}}`)
	for _, export := range []string{"ask", "tell"} {
		f.exports(func(ctx context.Context, called string, call sandbox.Call) (sandbox.Return, error) {
			if called != export || call.Namespace != "ns" || call.Deadline != 2*time.Second || string(call.Request[0]) != "c" || call.Now.IsZero() || call.Seed == [32]byte{} {
				t.Errorf("%s was called with %+v", called, call)
			}
			for ref, want := range map[abi.Ref]int64{gadget.Ref("", "g"): 0, gadget.Ref("", "none"): abi.CodeNotFound, gadget.Ref("other", "g"): abi.CodeDenied} {
				if _, code := call.Host.Get(ctx, message(abi.EncodeGetCall(&abi.GetCall{Ref: ref}))); code != want {
					t.Errorf("get of %v: %d, want %d", ref, code, want)
				}
			}
			return sandbox.Return{Output: []byte("{}")}, nil
		})
		if out, err := f.c.Call(t.Context(), callOf(export)); err != nil || string(out.Output) != "{}" {
			t.Errorf("%s: %+v, %v", export, out, err)
		}
	}
	if len(f.log) > 0 || len(f.done) > 0 {
		t.Errorf("a call led to %v", f.log)
	}
}

func TestACallThatMeetsAClosedGuestIsMadeOnTheNextRevision(t *testing.T) {
	f := newFixture(t)
	next := func(context.Context, string, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Output: []byte("next")}, nil
	}
	f.exports(func(context.Context, string, sandbox.Call) (sandbox.Return, error) {
		f.exports(next)
		return sandbox.Return{}, sandbox.ErrClosed
	})
	if out, err := f.c.Call(t.Context(), callOf("ask")); err != nil || string(out.Output) != "next" {
		t.Errorf("%+v, %v", out, err)
	}
	f.exports(func(context.Context, string, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{}, sandbox.ErrClosed
	})
	if _, err := f.c.Call(t.Context(), callOf("ask")); !errors.Is(err, sandbox.ErrClosed) { // the plugin is stopped
		t.Errorf("got %v", err)
	}
}

func TestAnExportThatARevisionDoesNotHaveIsNotCalled(t *testing.T) {
	f := newFixture(t)
	f.exports(func(context.Context, string, sandbox.Call) (sandbox.Return, error) {
		t.Error("the guest was called")
		return sandbox.Return{}, nil
	})
	none, call := errors.New("none"), callOf("ask")
	call.Begin = func(*Revision, time.Time, [32]byte) ([][]byte, error) { return nil, none }
	if _, err := f.c.Call(t.Context(), call); !errors.Is(err, none) {
		t.Errorf("got %v", err)
	}
}

func TestACallOfAGuestThatCannotReadFails(t *testing.T) {
	f := newFixture(t)
	f.exports(func(ctx context.Context, _ string, call sandbox.Call) (sandbox.Return, error) {
		call.Host.List(ctx, message(abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "Gadget"}))) // has not synced
		return sandbox.Return{Output: []byte(`{}`)}, nil
	})
	if _, err := f.c.Call(t.Context(), callOf("ask")); err == nil || !strings.Contains(err.Error(), "cannot read what it needs") {
		t.Errorf("got %v", err)
	}
}

func TestAFaultOfACallBesideTheQueueIsNotThatOfTheBreaker(t *testing.T) {
	f := newFixture(t)
	f.exports(func(context.Context, string, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{}, &sandbox.Fault{Class: abi.ClassPanic, Message: "boom"}
	})
	for range 100 {
		if _, err := f.c.Call(t.Context(), callOf("ask")); err == nil || !strings.Contains(err.Error(), "boom") {
			t.Fatalf("got %v", err)
		}
	}
	if len(f.events) > 0 {
		t.Errorf("events %v", f.events)
	}
}
