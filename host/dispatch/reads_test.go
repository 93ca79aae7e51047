package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
)

// A read that another run can make ends the run without an attempt.
func TestAReadThatFailsForNowCostsNoAttempt(t *testing.T) {
	for _, unread := range []error{cache.ErrNotSynced, cache.ErrExpired, cache.ErrNotFollowed} {
		f := newFixture(t)
		f.listError = fmt.Errorf("list: %w", unread)
		f.put(aWidget)
		f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			if _, code := call.Host.List(ctx, listOfGadgets); code != abi.CodeUnavailable {
				t.Errorf("code %d", code)
			}
			return sandbox.Return{Code: abi.CodeRetry, Output: []byte(`{"error":{"reason":"Failed","message":"cannot read"}}`)}, nil
		}
		f.run()
		f.run()
		if f.request.Attempt != 0 {
			t.Errorf("attempt %d", f.request.Attempt)
		}
		for _, line := range f.log {
			if strings.HasPrefix(line, "status") {
				t.Errorf("wrote %s", line)
			}
		}
	}
}

var listOfGadgets = message(abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "Gadget"}))

// readText returns the text of a reply.
func readText(r sandbox.Reply) (text []byte) {
	for len(text) < r.Size {
		text = append(text, r.Next()...)
	}
	return text
}

// read makes a run that reads with the guest of the fixture.
func (f *fixture) read(reads func(ctx context.Context, host sandbox.HostCalls)) {
	f.follow()
	f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		reads(ctx, call.Host)
		return returns(&abi.Result{})
	}
	f.run()
}

var someGadgets = abi.ListCall{APIVersion: "v1", Kind: "Gadget"}

func encoded(call abi.ListCall) sandbox.ReadCall { return message(abi.EncodeListCall(&call)) }

// The reply has the text that EncodeListReply makes, without being put together.
func TestTheReplyToAListIsAListReply(t *testing.T) {
	for n := range 4 {
		f := newFixture(t)
		f.put(aWidget)
		f.listError = nil
		whole, parts := abi.ListReply{}, abi.ListReply{}
		for i := range n {
			o := f.put(fmt.Sprintf(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g%d"},"spec":{"a":%d,"b":1}}`, i, i))
			f.list.Items, f.list.Bytes = append(f.list.Items, o), f.list.Bytes+len(o.Raw)
			whole.Items = append(whole.Items, o.Raw)
			parts.Items = append(parts.Items, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g%d"},"spec":{"a":%d}}`, i, i))
		}
		if n > 0 {
			f.list.More, whole.Continue, parts.Continue = true, "1", "2"
		}
		f.read(func(ctx context.Context, host sandbox.HostCalls) {
			call := someGadgets
			for _, want := range []abi.ListReply{whole, parts} {
				reply, code := host.List(ctx, encoded(call))
				if got := readText(reply); code < 0 || !bytes.Equal(got, abi.EncodeListReply(&want)) {
					t.Errorf("code %d, %s, want %s", code, got, abi.EncodeListReply(&want))
				}
				call.Fields, f.list.Bytes = []string{"/spec/a"}, len(bytes.Join(parts.Items, nil))
			}
		})
	}
}

func TestAPartOfAnObjectIsRead(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g","labels":{}},"spec":{"a":1,"b":1}}`)
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		call := &abi.GetCall{Ref: abi.Ref{APIVersion: "v1", Kind: "Gadget", Name: "g"}, Fields: []string{"/spec/b"}}
		reply, code := host.Get(ctx, message(abi.EncodeGetCall(call)))
		if want := `{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g"},"spec":{"b":1}}`; code < 0 || string(readText(reply)) != want {
			t.Errorf("code %d, %s", code, readText(reply))
		}
	})
}

// A token is valid for the list that it continues, in the run that got it.
func TestAListIsContinuedWhereItEnded(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.listError = nil
	f.list = cache.List{Items: []*object.Object{f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g"}}`)}, More: true}
	f.list.Bytes = len(f.list.Items[0].Raw)
	first := someGadgets
	first.Limit = 1
	next := first
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		reply, _ := host.List(ctx, encoded(first))
		decoded, err := abi.DecodeListReply(readText(reply))
		if err != nil || decoded.Continue == "" {
			t.Fatal(decoded, err)
		}
		next.Continue, next.Limit = decoded.Continue, 7
		if _, code := host.List(ctx, encoded(next)); code < 0 || f.reading.After != (object.Key{Namespace: "ns", Name: "g"}) || f.reading.Limit != 7 {
			t.Errorf("code %d, %+v", code, f.reading)
		}
		for _, call := range []abi.ListCall{
			{APIVersion: "v1", Kind: "Gadget", LabelSelector: "a=b", Continue: next.Continue},
			{APIVersion: "v1", Kind: "Gadget", Fields: []string{"/spec"}, Continue: next.Continue},
			{APIVersion: "v1", Kind: "Gadget", Continue: "nonsense"},
			{APIVersion: "v1", Kind: "Gadget", Continue: "-1"},
			{APIVersion: "v1", Kind: "Gadget", Continue: "0"},
			{APIVersion: "v1", Kind: "Gadget", Continue: "99999999999999999999"},
		} {
			if _, code := host.List(ctx, encoded(call)); code != abi.CodeInvalid {
				t.Errorf("%+v: code %d", call, code)
			}
		}
	})
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		if _, code := host.List(ctx, encoded(next)); code != abi.CodeInvalid {
			t.Errorf("in another run: code %d", code)
		}
	})
}

func TestAListOfOwnedObjectsIsOfThePrimary(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.listError = nil
	f.list = cache.List{Items: []*object.Object{f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g"}}`)}, More: true}
	f.list.Bytes = len(f.list.Items[0].Raw)
	owned := someGadgets
	owned.OwnedBy, owned.Limit = abi.OwnedBySelf, 1
	f.read(func(ctx context.Context, host sandbox.HostCalls) {
		reply, code := host.List(ctx, encoded(owned))
		if code < 0 || f.reading.Controller != "u1" {
			t.Fatalf("code %d, of controller %q", code, f.reading.Controller)
		}
		page, err := abi.DecodeListReply(readText(reply))
		if err != nil {
			t.Fatal(err)
		}
		owned.Continue = page.Continue
		if _, code := host.List(ctx, encoded(owned)); code < 0 || f.reading.Controller != "u1" || f.reading.After.Name != "g" {
			t.Errorf("the next page: code %d, %+v", code, f.reading)
		}
		owned.OwnedBy = ""
		if _, code := host.List(ctx, encoded(owned)); code != abi.CodeInvalid {
			t.Errorf("the next page of another list: code %d", code)
		}
		owned.Continue, owned.OwnedBy = "", "others"
		if _, code := host.List(ctx, encoded(owned)); code != abi.CodeInvalid {
			t.Errorf("of others: code %d", code)
		}
	})
	owned.OwnedBy = abi.OwnedBySelf
	nobody := &guestCall{c: f.c, revision: f.c.Revision(), given: &object.Object{Kind: widget}, reads: testReads{f}} // as that of a scan
	if _, code := nobody.List(t.Context(), encoded(owned)); code != abi.CodeInvalid {
		t.Errorf("of nobody: code %d", code)
	}
}

func TestAListByAFieldNeedsItsIndex(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.listError = nil
	f.c.Revision().Controller.Indexes = []abi.Index{{Name: "byA", Kind: gadget, Field: "spec.a"}}
	for selector, valid := range map[string]bool{"spec.a=x": true, "spec.b=x": false} {
		call := someGadgets
		call.FieldSelector = selector
		f.read(func(ctx context.Context, host sandbox.HostCalls) {
			if _, code := host.List(ctx, encoded(call)); valid != (code >= 0) || !valid && code != abi.CodeInvalid {
				t.Errorf("%s: code %d", selector, code)
			}
		})
	}
}

func TestAListThatIsTooLargeIsRefused(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.listError = fmt.Errorf("list: %w", cache.ErrTooLarge)
	f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		if _, code := call.Host.List(ctx, listOfGadgets); code != abi.CodeTooLarge {
			t.Errorf("code %d", code)
		}
		return returns(&abi.Result{})
	}
	f.run()
}

func TestReadsOutsideOfTheirScopeAreDenied(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.put(`{"apiVersion":"v1","kind":"Gadget","metadata":{"namespace":"ns","name":"g","uid":"g1"}}`)
	get := func(ref abi.Ref) (code int64) {
		f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
			_, code = call.Host.Get(ctx, message(abi.EncodeGetCall(&abi.GetCall{Ref: ref})))
			return returns(&abi.Result{})
		}
		f.run()
		return code
	}
	for _, c := range []struct {
		ref  abi.Ref
		want int64
	}{
		{abi.Ref{APIVersion: "v1", Kind: "Gadget", Name: "none"}, abi.CodeNotFound},
		{abi.Ref{APIVersion: "v1", Kind: "Gadget", Namespace: "ns", Name: "g", UID: "another"}, abi.CodeNotFound},
		{abi.Ref{APIVersion: "v1", Kind: "Gadget", Namespace: "other", Name: "g"}, abi.CodeDenied},
		{abi.Ref{APIVersion: "v1", Kind: "Secret", Name: "s"}, abi.CodeDenied},
	} {
		if got := get(c.ref); got != c.want {
			t.Errorf("get %+v: code %d, want %d", c.ref, got, c.want)
		}
	}
	mine := abi.Ref{APIVersion: "v1", Kind: "Gadget", Name: "g"}
	if got := get(mine); got < 0 {
		t.Errorf("get in the own namespace: code %d", got)
	}
	f.allow(rights.Any)
	if got := get(mine); got < 0 {
		t.Errorf("get in the own namespace: code %d", got)
	}
	if got := get(abi.Ref{APIVersion: "v1", Kind: "Gadget", Namespace: "other", Name: "g"}); got != abi.CodeNotFound {
		t.Errorf("get across namespaces: code %d", got)
	}
}

// lost is the failure of a write whose reply was lost.
func lost(verb string) *effect.Failure {
	return &effect.Failure{
		EffectFailure: abi.EffectFailure{Verb: verb, Ref: abi.Ref{APIVersion: "v1", Kind: "Gadget", Name: "g"}, Class: abi.ClassRetry, Reason: "Unavailable"},
		Uncertain:     true,
	}
}

func appliesGadget(context.Context, sandbox.Call) (sandbox.Return, error) {
	return returns(&abi.Result{Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}}})
}

func TestAnObjectIsReadOnceHoweverOftenAReplyWasLost(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.fail["status"] = lost("status")
	f.refresh = func(abi.Ref) error { return errors.New("unreachable") }
	for range 5 {
		f.run()
	}
	if s := f.c.keys[testKey].left(); len(s.uncertain) != 1 {
		t.Errorf("to be read: %v", s.uncertain)
	}
}

// The second write of the status has the host's part alone.
func TestALostReplyToTheSecondStatusIsReadToo(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	conflict := &effect.Failure{EffectFailure: abi.EffectFailure{Verb: "status", Class: abi.ClassRetry, Reason: "Invalid"}}
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		f.fail["status"] = conflict
		return returns(&abi.Result{Status: []byte(`{"x":1}`)})
	}
	f.failed = func(verb string) { f.fail[verb] = lost(verb) }
	f.run()
	if s := f.c.keys[testKey].left(); len(s.uncertain) != 1 {
		t.Errorf("to be read: %v", s.uncertain)
	}
}

func TestAWriteWhoseReplyWasLostIsReadBeforeTheNextRun(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = appliesGadget
	f.fail["apply"] = lost("apply")
	f.run()
	delete(f.fail, "apply")
	for n, want := range []string{"refresh Gadget", "apply"} {
		f.log = nil
		f.run()
		if f.log[0] != want {
			t.Errorf("run %d after it began with %q, want %s", n+1, f.log[0], want)
		}
	}
}

// The guest must not decide on a state that it cannot know.
func TestARunThatCannotReadALostWriteDoesNotCallTheGuest(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = appliesGadget
	f.fail["apply"] = lost("apply")
	f.run()
	f.request, f.refresh = nil, func(abi.Ref) error { return errors.New("no route to host") }
	f.run()
	f.run()
	if f.request != nil {
		t.Error("the guest was called")
	}
	if last := f.done[len(f.done)-1]; last.Kind != outcome.Backoff || !last.Outage || f.c.keys[testKey].left().tries.Attempt != 3 {
		t.Errorf("done with %+v after %+v", last, f.c.keys[testKey].left().tries)
	}
	delete(f.fail, "apply")
	f.refresh = nil
	f.run()
	if f.request == nil {
		t.Error("the guest is not called once the object can be read")
	}
}

// Otherwise a server that hangs would block all workers, one by one.
func TestAReadOfALostWriteThatGetsNoReplyTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.c.Cache = silentCache{testCache{f}}
		f.put(aWidget)
		f.reconcile = appliesGadget
		f.fail["apply"] = lost("apply")
		f.run()
		f.run()
		if last := f.done[len(f.done)-1]; last.Kind != outcome.Backoff {
			t.Errorf("done with %+v", last)
		}
	})
}

// silentCache is a cache whose API server does not reply.
type silentCache struct{ testCache }

func (silentCache) Refresh(ctx context.Context, _ object.Key, _ abi.Ref) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestNoRunBeginsWhileNoMoreWritesCanBeRemembered(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.run()
	f.log, f.full, f.request = nil, true, nil
	f.c.keys[testKey].carried = &carried{tries: outcome.Tries{Attempt: 3}}
	f.due = []queue.Item{{Key: testKey, Reasons: []abi.Reason{abi.ReasonPrimary}, ResetTries: true}}
	f.c.work(t.Context(), t.Context())
	f.expect()
	if n := f.c.keys[testKey].left().tries.Attempt; n != 0 {
		t.Errorf("the change has not reset the attempts: %d", n)
	}
	if last := f.done[len(f.done)-1]; f.request != nil || last.Kind != outcome.After || last.After > time.Second {
		t.Errorf("done with %+v", last)
	}
}

// guestLines returns the lines that the guest has logged.
func (f *fixture) guestLines() (lines []events.GuestLogged) {
	for _, e := range f.events {
		if line, ok := e.(events.GuestLogged); ok {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestLinesOfAGuestAreLimited(t *testing.T) {
	f := newFixture(t)
	f.c.LogLines = &budget{left: 1}
	f.put(aWidget)
	f.reconcile = func(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
		for range 3 {
			call.Host.Log(abi.LogInfo, []byte(`{"message":"hello","n":1,"@level":"error","object":"other"}`))
		}
		return returns(&abi.Result{})
	}
	f.run()
	lines := f.guestLines()
	if len(lines) != 1 || lines[0].Object != "ns/w" || lines[0].Message != "hello" {
		t.Fatalf("lines: %+v", lines)
	}
	if f.log[0] != "line dropped" || f.log[1] != "line dropped" {
		t.Errorf("what happened: %q", f.log)
	}
	if want := []any{"n", "1", "guest.@level", "error", "guest.object", "other"}; !slices.Equal(lines[0].Fields, want) {
		t.Errorf("fields %q, want %q: a guest must not replace the fields of the host", lines[0].Fields, want)
	}
}

// A run may make ten thousand calls that fail.
func TestWarningsThatAGuestCausesAreLimited(t *testing.T) {
	f := newFixture(t)
	logs := logtest.New(hclog.Info)
	f.c.Logger = logs.Logger
	f.c.LogLines = &budget{left: 2}
	f.put(aWidget)
	f.reconcile = func(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
		call.Host.Get(ctx, message([]byte(`garbage`)))
		call.Host.Get(ctx, message([]byte(`{"apiVersion":"v1","kind":"Secret","name":"s"}`)))
		call.Host.Get(ctx, message([]byte(`{"apiVersion":"example.dev/v1","kind":"Widget","name":"w","namespace":"other"}`)))
		call.Host.List(ctx, message([]byte(`garbage`)))
		call.Host.List(ctx, message([]byte(`{"apiVersion":"example.dev/v1","kind":"Widget","labelSelector":"((("}`)))
		return returns(&abi.Result{})
	}
	f.run()
	logs.ExpectNext(t, hclog.Warn, "object", "ns/w")
	logs.ExpectNext(t, hclog.Warn, "object", "ns/w")
	logs.ExpectNone(t)
	if got := strings.Count(strings.Join(f.log, "\n"), "line dropped"); got != 3 {
		t.Errorf("%d lines counted as dropped: %q", got, f.log)
	}
}

func TestALineOfAGuestIsOneLineOfPrintableText(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	f.reconcile = func(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
		call.Host.Log(abi.LogInfo, []byte(`{"message":"hello\n2026-01-01T00:00:00Z [ERROR] thole: all is lost","a\n[ERROR] b":"\u001b[2J"}`))
		call.Host.Log(abi.LogInfo, []byte("plain\n[ERROR] text \x1b[2J\xff"))
		return returns(&abi.Result{})
	}
	f.run()
	printable := func(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 }
	lines := f.guestLines()
	if len(lines) != 2 || !printable(lines[0].Message) || !printable(lines[0].Fields[0].(string)) || !printable(lines[1].Message) {
		t.Errorf("lines: %+v", lines)
	}
}

// A guest may wait or fail as often as it likes, for a millisecond each time.
func TestRunsThatWaitOrFailAreLoggedWithinTheAllowance(t *testing.T) {
	for name, reconcile := range map[string]reconcileFunc{
		"wait": returnsCode(abi.CodeWaiting), "fail": returnsCode(abi.CodeRetry), "panic": panics,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.c.LogLines = &budget{left: 1}
			f.put(aWidget)
			f.reconcile = reconcile
			var muted []bool
			for range 3 {
				f.run()
				muted = append(muted, f.events[len(f.events)-1].(events.RunEnded).Muted)
			}
			if want := []bool{false, true, true}; !slices.Equal(muted, want) {
				t.Errorf("muted: %v, want %v", muted, want)
			}
		})
	}
}

func TestRunsThatSucceedTakeNothingOfTheAllowance(t *testing.T) {
	f, allowance := newFixture(t), &budget{}
	f.c.LogLines = allowance
	f.put(aWidget)
	f.run()
	if len(allowance.bytes) != 0 {
		t.Errorf("%d lines were counted", len(allowance.bytes))
	}
}

// What is logged counts with its size, as long as it may become by escapes.
func TestBytesOfTheLogAreCounted(t *testing.T) {
	f, allowance := newFixture(t), &budget{left: 100}
	f.c.LogLines = allowance
	f.put(aWidget)
	f.reconcile = func(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
		call.Host.Log(abi.LogInfo, []byte(strings.Repeat("a", 1000)))
		call.Host.Log(abi.LogInfo, []byte(strings.Repeat("\x00", 1000)))
		return sandbox.Return{}, &sandbox.Fault{Class: abi.ClassPanic, Message: strings.Repeat("m", 300), Stack: []string{strings.Repeat("f", 200)}}
	}
	f.run()
	if b := allowance.bytes; len(b) != 3 || b[0] != 1000 || b[1] != 6000 || b[2] < 500 {
		t.Errorf("lines of %v bytes were counted", b)
	}
}

func TestTooManyReadsAreToldWithTheKind(t *testing.T) {
	f := newFixture(t)
	logs := logtest.New(hclog.Warn)
	f.c.Logger = logs.Logger
	f.c.LimitReads(testKey, gadget)
	lines := logs.All()
	if len(lines) != 1 || lines[0].Fields["kind"] != gadget.String() || lines[0].Fields["object"] != testKey.String() {
		t.Errorf("logged: %v", lines)
	}
	f.c.LogLines = &budget{}
	f.c.LimitReads(testKey, gadget)
	logs.ExpectNone(t)
	if !slices.Equal(f.log, []string{"limited by reads", "limited by reads"}) {
		t.Errorf("counted: %q", f.log)
	}
}

func TestAMissingIndexIsToldWithTheKind(t *testing.T) {
	f := newFixture(t)
	logs := logtest.New(hclog.Warn)
	f.c.Logger = logs.Logger
	f.c.LimitIndexes(gadget)
	if lines := logs.All(); len(lines) != 1 || lines[0].Fields["kind"] != gadget.String() {
		t.Errorf("logged: %v", lines)
	}
	f.c.LogLines = &budget{}
	f.c.LimitIndexes(gadget)
	logs.ExpectNone(t)
	if !slices.Equal(f.log, []string{"limited by indexes", "limited by indexes"}) {
		t.Errorf("counted: %q", f.log)
	}
}

// What a run keeps for reads is freed before its effects, which may be postponed for long.
func TestReadsAreClosedBeforeTheEffects(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	var reading *guestCall
	f.reconcile = func(_ context.Context, call sandbox.Call) (sandbox.Return, error) {
		reading = call.Host.(*guestCall)
		reading.pages.add(&someGadgets, f.put(aWidget))
		reading.liveReads = map[abi.Ref]*object.Object{{}: nil}
		return returns(&abi.Result{})
	}
	f.closed = func() {
		if slices.ContainsFunc(f.log, func(line string) bool {
			return strings.HasPrefix(line, "status") || strings.HasPrefix(line, "finalizer")
		}) {
			t.Errorf("closed after %q", f.log)
		}
		f.note("closed")
	}
	f.run()
	if !slices.Contains(f.log, "closed") || reading.pages != nil || reading.liveReads != nil {
		t.Errorf("not closed: %q, %v", f.log, reading.pages)
	}
}
