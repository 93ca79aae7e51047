package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestTheGuestIsGivenWhatTheAccountMayGet(t *testing.T) {
	for _, right := range []string{"get Widget", "get Widget ns", "get Widget ns/w"} {
		f := newFixture(t)
		f.put(aWidget)
		a := f.as(right)
		f.run(abi.ReasonPrimary)
		f.run(abi.ReasonPrimary)
		if f.request == nil {
			t.Errorf("%s: the guest was not called", right)
		}
		a.expectAsked(t, "get Widget ns/w")
	}
}

func TestTheGuestIsNotCalledWithAPrimaryThatTheAccountMayNotGet(t *testing.T) {
	for _, right := range []string{"", "list Widget", "watch Widget", "get Gadget", "get Widget other", "get Widget ns/other"} {
		t.Run(right, func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			a := f.as(right)
			for range 3 {
				f.log = nil
				f.run(abi.ReasonPrimary)
				if f.request != nil {
					t.Fatal("the guest was called")
				}
			}
			if s := strings.Join(f.log, "; "); !strings.Contains(s, "Ready=False/Denied") || !strings.Contains(s, "abandon reads; ") || !strings.HasSuffix(s, "metric error denied") {
				t.Errorf("what happened: %s", s)
			}
			if m := f.messages[0]; !strings.Contains(m, "for get Widget ns/w") {
				t.Errorf("message %q", m)
			}
			next := f.done[len(f.done)-1]
			if next.Kind != outcome.Backoff || next.Outage || f.c.keys[testKey].left().tries.Attempt != 3 {
				t.Errorf("done with %+v after %+v", next, f.c.keys[testKey].left().tries)
			}
			a.expectAsked(t, "get Widget ns/w")
			a.set("get Widget")
			if f.run(abi.ReasonRetry); f.request == nil {
				t.Error("the guest is not called with the right")
			}
		})
	}
}

func TestARightThatIsTakenAwayWhileThePluginRuns(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	a := f.as("get Widget")
	f.run()
	a.set()
	f.request = nil
	if f.run(); f.request != nil {
		t.Error("the guest was called without the right")
	}
}

func TestAnUnansweredRightToThePrimaryIsAnOutage(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	a := f.as("get Widget")
	a.err = errors.New("the API server is away")
	f.run()
	f.run()
	if f.request != nil || !strings.Contains(f.messages[0], "the API server is away") || !strings.Contains(strings.Join(f.log, "\n"), "Ready=Unknown/Unavailable") && !strings.Contains(strings.Join(f.log, "\n"), "Ready=False/Unavailable") {
		t.Errorf("called %v, %q, %q", f.request != nil, f.messages, f.log)
	}
	if next := f.done[1]; next.Kind != outcome.Backoff || !next.Outage || f.c.keys[testKey].left().tries.Blameless != 2 {
		t.Errorf("done with %+v after %+v", next, f.c.keys[testKey].left().tries)
	}
	a.err = nil
	if f.run(); f.request == nil {
		t.Error("the guest is not called when the API server is back")
	}
}

// No cleanup takes place, so the finalizer has to stay.
func TestAFinalizerStaysUntilTheAccountMayGetThePrimary(t *testing.T) {
	f := newFixture(t)
	f.put(string(mergePatch(t, []byte(aWidget), `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)))
	a := f.as()
	f.run()
	a.set()
	a.err = errors.New("the API server is away")
	f.run()
	if f.request != nil || slices.Contains(f.log, "remove finalizer") {
		t.Fatalf("what happened: %q", f.log)
	}
	a.err, f.log = nil, nil
	a.set("get Widget")
	f.run()
	if f.request == nil || !slices.Contains(f.log, "remove finalizer") {
		t.Errorf("what happened: %q", f.log)
	}
}

// Its guest has read the primary before it was parked, and the API server decides about its
// writes.
func TestAParkedRunIsResumedWithoutTheRightToGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := parked(t)
		f.as()
		time.Sleep(3 * time.Second) // fake time
		f.run(abi.ReasonRetry)
		f.expect("apply", "status Ready=True/Succeeded patch=", "commit reads", "metric success ")
	})
}

// The only worker is needed by keys whose answers are known.
func TestASlowAnswerHoldsUpOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for _, name := range []string{"w", "slow1", "slow2"} {
			f.put(strings.Replace(aWidget, `"name":"w"`, `"name":"`+name+`"`, 1))
		}
		a := f.as("get Widget ns/w")
		f.run()
		slow := true
		a.silent = func() bool { return slow }
		ran := func(name string) (called bool, took time.Duration) {
			began := time.Now()
			f.request = nil
			f.runNamed(name)
			return f.request != nil, time.Since(began)
		}
		if called, took := ran("slow1"); called || took != answerTimeout {
			t.Errorf("called %v after %s", called, took)
		}
		for _, name := range []string{"slow1", "slow2"} {
			if called, took := ran(name); called || took != 0 {
				t.Errorf("%s: called %v after %s", name, called, took)
			}
		}
		if called, _ := ran("w"); !called {
			t.Error("a run whose answer is known waits")
		}
		time.Sleep(afterSlow) // fake time
		if called, took := ran("slow2"); called || took != answerTimeout {
			t.Errorf("called %v after %s", called, took)
		}
		slow = false
		a.set("get Widget")
		if called, _ := ran("slow1"); called {
			t.Error("asked too early")
		}
		f.c.OutageEnded()
		if called, _ := ran("slow1"); !called {
			t.Error("not asked when the API server is back")
		}
	})
}

// getCode returns the code of a get of a gadget.
func (f *fixture) getCode(kind abi.Kind, namespace, name string) (code int64) {
	f.t.Helper()
	called := false
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		called = true
		_, code = host.Get(ctx, message(abi.EncodeGetCall(&abi.GetCall{Ref: kind.Ref(namespace, name)})))
	})
	if !called {
		f.t.Error("the guest was not called")
	}
	return code
}

func TestAGetNeedsTheRightOfTheAccount(t *testing.T) {
	for _, c := range []struct {
		right, namespace, name string
		want                   int64
	}{
		{"get Gadget", "a", "g", 0},
		{"get Gadget", "a", "none", abi.CodeNotFound},
		{"get Gadget a", "a", "g", 0},
		{"get Gadget a", "a", "none", abi.CodeNotFound},
		{"get Gadget a", "ns", "g", abi.CodeDenied},
		{"get Gadget a", "ns", "none", abi.CodeDenied},
		{"get Gadget a/g", "a", "g", 0},
		{"get Gadget a/g", "a", "none", abi.CodeDenied},
		{"get Gadget a/g", "ns", "g", abi.CodeDenied},
		{"list Gadget", "a", "g", abi.CodeDenied},
		{"list Gadget", "a", "none", abi.CodeDenied},
	} {
		t.Run(fmt.Sprintf("%s, %s/%s", c.right, c.namespace, c.name), func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"a","name":"g"}}`)
			f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g"}}`)
			f.allow(rights.Any)
			f.as("get Widget", c.right)
			f.edge = "no edge"
			if code := f.getCode(gadget, c.namespace, c.name); min(code, 0) != c.want {
				t.Errorf("code %d, want %d", code, c.want)
			}
			if recorded := f.edge != "no edge"; recorded != (c.want != abi.CodeDenied) {
				t.Errorf("an edge was recorded: %v", recorded)
			}
		})
	}
}

// A guest has no part in what is remembered of a question.
func TestQuestionsAboutNamesOfGuestsAreBounded(t *testing.T) {
	f := newFixture(t)
	logs := logtest.New(hclog.Warn)
	f.c.Logger = logs.Logger
	f.put(aWidget)
	f.allow(rights.Any)
	a := f.as("get Widget")
	long := strings.Repeat("x", abi.MaxName)
	for _, key := range []object.Key{{Namespace: long, Name: "g"}, {Namespace: "ns", Name: long}, {Namespace: long, Name: long}} {
		if code := f.getCode(gadget, key.Namespace, key.Name); code != abi.CodeDenied {
			t.Errorf("code %d", code)
		}
		if line := fmt.Sprint(logs.Next(t)); len(line) > 1000 || !strings.Contains(line, "lacks a right") {
			t.Errorf("%d bytes were logged", len(line))
		}
	}
	a.expectAsked(t, "get Widget ns/w", "get Gadget", "get Gadget ns")
	f.c.LogLines = &budget{}
	f.getCode(gadget, "ns", "g")
	logs.ExpectNone(t)
}

// The message of the call is in the memory of the guest.
func TestAQuestionDoesNotAliasTheMessageOfTheGuest(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.allow(rights.Any)
	a := &keepingAccess{}
	f.c.Revision().Access = a
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		text := abi.EncodeGetCall(&abi.GetCall{Ref: gadget.Ref("a", "g")})
		host.Get(ctx, message(text))
		clear(text)
	})
	if a.kind != gadget || a.key != (object.Key{Namespace: "a", Name: "g"}) {
		t.Errorf("remembered: %+v %+v", a.kind, a.key)
	}
}

// keepingAccess keeps the last question.
type keepingAccess struct {
	kind abi.Kind
	key  object.Key
}

func (a *keepingAccess) Known(string, abi.Kind, object.Key) (allowed, known bool) {
	return false, false
}

func (a *keepingAccess) May(_ context.Context, _ string, kind abi.Kind, key object.Key) error {
	a.kind, a.key = kind, key
	return nil
}

func TestAReadWithoutAnAnswerIsRepeated(t *testing.T) {
	for name, read := range map[string]func(context.Context, sandbox.HostCalls) int64{
		"get": func(ctx context.Context, host sandbox.HostCalls) int64 {
			_, code := host.Get(ctx, message(abi.EncodeGetCall(&abi.GetCall{Ref: gadget.Ref("ns", "g")})))
			return code
		},
		"list": func(ctx context.Context, host sandbox.HostCalls) int64 {
			_, code := host.List(ctx, listOfGadgets)
			return code
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g"}}`)
			f.listError = nil
			a := f.as("get Widget", "get Gadget", "list Gadget")
			a.May(t.Context(), rights.Get, widget, testKey)
			a.err = errors.New("the API server is away")
			var code int64
			f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
				code = read(ctx, call.Host)
				return returns(&abi.Result{Patch: []byte(`{"spec":{}}`)})
			}
			f.run()
			f.run()
			if code != abi.CodeUnavailable || f.request.Attempt != 0 {
				t.Errorf("code %d, attempt %d", code, f.request.Attempt)
			}
			f.expect("abandon reads", "metric requeue retry", "abandon reads", "metric requeue retry")
			a.err = nil
			if f.run(); code < 0 {
				t.Errorf("code %d", code)
			}
		})
	}
}

func TestAListNeedsTheRightInEachNamespace(t *testing.T) {
	for _, c := range []struct {
		rights     string
		namespaces []string // of the entry
		of, want   string
		asked      []string
	}{
		{"list Gadget", []string{rights.Any}, "", "[]", []string{"list Gadget"}},
		{"list Gadget a,list Gadget ns", []string{rights.Any}, "", "denied", []string{"list Gadget"}},
		{"list Gadget a,list Gadget ns", []string{"a"}, "", "[a ns]", []string{"list Gadget a", "list Gadget ns"}},
		{"list Gadget ns", []string{"a"}, "", "denied", []string{"list Gadget a"}},
		{"list Gadget a", []string{"a"}, "", "denied", []string{"list Gadget a", "list Gadget ns"}},
		{"list Gadget a", []string{"a"}, "a", "[a]", []string{"list Gadget a"}},
		{"list Gadget a", []string{rights.Any}, "a", "[a]", []string{"list Gadget a"}},
		{"get Gadget,watch Gadget", nil, "ns", "denied", []string{"list Gadget ns"}},
		{"list Gadget ns/g", nil, "ns", "denied", []string{"list Gadget ns"}},
	} {
		t.Run(fmt.Sprintf("%s of %v, list %q", c.rights, c.namespaces, c.of), func(t *testing.T) {
			f := newFixture(t)
			f.put(aWidget)
			f.listError = nil
			if c.namespaces != nil {
				f.allow(c.namespaces...)
			}
			a := f.as(append(strings.Split(c.rights, ","), "get Widget", "get Gadget")...)
			a.May(t.Context(), rights.Get, widget, testKey)
			a.asked = nil
			got := "denied"
			f.read(func(ctx context.Context, host sandbox.HostCalls) {
				of := someGadgets
				of.Namespace = c.of
				if _, code := host.List(ctx, encoded(of)); code >= 0 {
					got = fmt.Sprint(f.reading.Namespaces)
				} else if code != abi.CodeDenied || f.reading.Kind != (abi.Kind{}) {
					t.Errorf("code %d, read %v", code, f.reading)
				}
			})
			if got != c.want {
				t.Errorf("list %s, want %s", got, c.want)
			}
			a.expectAsked(t, c.asked...)
		})
	}
}

func TestTheRightToThePrimaryCostsNoAllocation(t *testing.T) {
	f := newFixture(t)
	q := question{toGet, widget, testKey}
	for name, a := range map[string]Access{"none": nil, "known": allowing{}} {
		f.c.Revision().Access = a
		if n := testing.AllocsPerRun(100, func() {
			if err := f.c.allowed(t.Context(), a, q); err != nil {
				t.Error(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// allowing is an account that may do everything, as is known.
type allowing struct{}

func (allowing) Known(string, abi.Kind, object.Key) (allowed, known bool) { return true, true }
func (allowing) May(context.Context, string, abi.Kind, object.Key) error  { return nil }
