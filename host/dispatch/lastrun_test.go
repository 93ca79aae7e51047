package dispatch

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox"
)

// lastRun returns the only one.
func (f *fixture) lastRun() LastRun {
	f.t.Helper()
	all := f.c.LastRuns()
	if len(all) != 1 {
		f.t.Fatalf("there are %d last runs: %+v", len(all), all)
	}
	return all[0]
}

func TestLastRunOfAnObjectIsKept(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	if all := f.c.LastRuns(); len(all) != 0 {
		t.Fatalf("before the first run: %+v", all)
	}
	begun := time.Now().Truncate(time.Millisecond)
	f.reconcile = panics
	f.run(abi.ReasonPrimary, abi.ReasonOwned)
	f.run(abi.ReasonRetry)
	last := f.lastRun()
	if last.Object != testKey || last.Gone || last.Reasons.String() != "retry" || last.Ended.Before(begun) || last.Ended.After(time.Now()) {
		t.Errorf("%+v", last)
	}
	if fail := last.Failure; fail == nil || fail.Class != abi.ClassPanic || fail.Reason != "Panic" || fail.Attempt != 2 {
		t.Errorf("the failure is %+v", last.Failure)
	}
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		for begun := time.Now(); time.Since(begun) < 2*time.Millisecond; {
		}
		return returns(&abi.Result{})
	}
	f.run(abi.ReasonResync, abi.ReasonPrimary)
	if last = f.lastRun(); last.Failure != nil || last.Reasons.String() != "primary, resync" || last.Duration < 2*time.Millisecond || last.Duration > time.Minute {
		t.Errorf("after it has succeeded: %+v", last)
	}
	f.removeUnheld()
	if f.run(); len(f.c.LastRuns()) != 0 {
		t.Error("the last run of an object stays that does not exist any more")
	}
}

func TestLastRunOfAnObjectThatIsGoneIsKeptUntilItEndsWell(t *testing.T) {
	f := newGone(t, false)
	f.put(aWidget)
	f.run()
	f.remove()
	f.reconcile = returnsCode(abi.CodeRetry)
	f.run(abi.ReasonPrimary)
	if last := f.lastRun(); !last.Gone || last.Failure == nil || last.Failure.Class != abi.ClassRetry {
		t.Errorf("%+v", last)
	}
	f.reconcile = succeed
	f.run(abi.ReasonRetry)
	if all := f.c.LastRuns(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// People would not see a reason without a bit.
func TestEveryReasonIsInAReasonSet(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../abi/messages.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Reason" {
			n++
			text := strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`)
			if got := newReasonSet([]abi.Reason{abi.Reason(text)}).String(); got != text {
				t.Errorf("%s is %q", spec.Names[0].Name, got)
			}
		}
		return true
	})
	if n != len(reasonBits) || n > 16 {
		t.Errorf("there are %d reasons, and %d of 16 bits", n, len(reasonBits))
	}
}

// A plugin chooses the reason, and it is kept for each object that fails.
func TestReasonOfTheLastRunIsShort(t *testing.T) {
	f := newFixture(t)
	f.put(aWidget)
	long := strings.Repeat("R", 1000)
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Code: abi.CodeStalled, Output: abi.EncodeResult(&abi.Result{Error: &abi.Failure{Reason: long}})}, nil
	}
	f.run()
	if fail := f.lastRun().Failure; fail == nil || len(fail.Reason) > maxLastReason || !strings.HasPrefix(fail.Reason, "RRR") {
		t.Errorf("%+v", fail)
	}
}
