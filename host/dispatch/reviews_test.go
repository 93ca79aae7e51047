package dispatch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/sandbox"
)

// reviewer is a guest that answers reviews.
type reviewer func(ctx context.Context, export string, call sandbox.Call) (sandbox.Return, error)

func (r reviewer) Call(ctx context.Context, export string, call sandbox.Call) (sandbox.Return, error) {
	return r(ctx, export, call)
}

// reviewed makes the running revision one with a reviewer.
func (f *fixture) reviewed(r reviewer) {
	rev := *f.c.Revision()
	rev.Number++
	rev.Reviews = &ReviewConfig{Guest: r, Timeout: 2 * time.Second}
	f.c.revision.Store(&rev)
}

func reviewOf(export string) Review {
	return Review{
		Export: export, Object: abi.Ref{Namespace: "ns", Name: "new"},
		Begin: func(rev *Revision, now time.Time, seed [32]byte) [][]byte {
			return [][]byte{[]byte(rev.Controller.Name)}
		},
	}
}

func TestReviewReadsWhatTheControllerMayRead(t *testing.T) {
	f := newFixture(t)
	f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g"}}`)
	for _, export := range []string{webhooks.ExportValidate, webhooks.ExportMutate, webhooks.ExportConvert} {
		f.reviewed(func(ctx context.Context, called string, call sandbox.Call) (sandbox.Return, error) {
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
		if out, err := f.c.Review(t.Context(), reviewOf(export)); err != nil || string(out.Output) != "{}" {
			t.Errorf("%s: %+v, %v", export, out, err)
		}
	}
	if len(f.log) > 0 || len(f.done) > 0 {
		t.Errorf("a review led to %v", f.log)
	}
}

func TestReviewThatMeetsAClosedGuestIsMadeOnTheNextRevision(t *testing.T) {
	f := newFixture(t)
	next := func(context.Context, string, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Output: []byte("next")}, nil
	}
	f.reviewed(func(context.Context, string, sandbox.Call) (sandbox.Return, error) {
		f.reviewed(next)
		return sandbox.Return{}, sandbox.ErrClosed
	})
	if out, err := f.c.Review(t.Context(), reviewOf(webhooks.ExportValidate)); err != nil || string(out.Output) != "next" {
		t.Errorf("%+v, %v", out, err)
	}
	f.reviewed(func(context.Context, string, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{}, sandbox.ErrClosed
	})
	if _, err := f.c.Review(t.Context(), reviewOf(webhooks.ExportValidate)); !errors.Is(err, sandbox.ErrClosed) { // the plugin is stopped
		t.Errorf("got %v", err)
	}
}

func TestReviewNeedsAPolicyThatAllowsIt(t *testing.T) {
	f := newFixture(t)
	if _, err := f.c.Review(t.Context(), reviewOf(webhooks.ExportValidate)); !errors.Is(err, ErrNoReviews) {
		t.Errorf("got %v", err)
	}
}

func TestReviewOfAGuestThatCannotReadFails(t *testing.T) {
	f := newFixture(t)
	f.reviewed(func(ctx context.Context, _ string, call sandbox.Call) (sandbox.Return, error) {
		call.Host.List(ctx, message(abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "Gadget"}))) // has not synced
		return sandbox.Return{Output: []byte(`{"allowed":true}`)}, nil
	})
	if _, err := f.c.Review(t.Context(), reviewOf(webhooks.ExportValidate)); err == nil || !strings.Contains(err.Error(), "cannot read what it needs") {
		t.Errorf("got %v", err)
	}
}

func TestFaultOfAReviewIsNotThatOfTheBreaker(t *testing.T) {
	f := newFixture(t)
	f.reviewed(func(context.Context, string, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{}, &sandbox.Fault{Class: abi.ClassPanic, Message: "boom"}
	})
	for range 100 {
		if _, err := f.c.Review(t.Context(), reviewOf(webhooks.ExportMutate)); err == nil || !strings.Contains(err.Error(), "boom") {
			t.Fatalf("got %v", err)
		}
	}
	if len(f.events) > 0 {
		t.Errorf("events %v", f.events)
	}
}
