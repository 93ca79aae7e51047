package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/sandbox"
)

// ledger is the capability of the tests that has the most hooks: it tells each run what the last one that has ended
// well was given.

// entry is what a request has of the ledger.
type entry struct {
	Type     string          // created, deleted, first, changed or same
	Old      json.RawMessage // what the last run that ended well was given
	Progress json.RawMessage // the section of the last result, which the runs since then had
}

// kept is what the ledger keeps of an object.
type kept struct {
	old      []byte
	progress []byte
}

func ledger() Hooks {
	return Hooks{
		Name: "ledger",
		Begin: func(state *any, run *BeginningRun) {
			s, _ := (*state).(*kept)
			if s == nil {
				s = &kept{}
				*state = s
			}
			e := entry{Old: s.old, Progress: s.progress}
			switch {
			case run.Gone || run.Object.Deleting():
				e.Type = "deleted"
			case s.old == nil && run.Created:
				e.Type = "created"
			case s.old == nil:
				e.Type = "first"
			}
			run.Prepare = func(run *BeginningRun) {
				switch {
				case e.Type != "":
				case bytes.Equal(e.Old, run.Object.Raw):
					e.Type = "same"
				default:
					e.Type = "changed"
				}
				text, err := json.Marshal(e)
				if err != nil {
					panic(err)
				}
				run.Sections = append(run.Sections, abi.Section{Name: "ledger", Value: text})
			}
		},
		Result: func(_ *Revision, section []byte) error {
			if string(section) == `"bad"` {
				return errors.New("is bad")
			}
			return nil
		},
		Ended: func(_ *Revision, run EndedRun) {
			run.State(func(state any) {
				switch s := state.(*kept); {
				case run.EndedWell && !run.Gone:
					s.old, s.progress = run.Given.Raw, nil
				case run.Performed && !run.EndedWell:
					s.progress = bytes.Clone(run.Returned.Section("ledger"))
				}
			})
		},
	}
}

// newLedger is a fixture with the ledger, whose controller has no finalizer.
func newLedger(t *testing.T) *fixture {
	f := newFixture(t)
	f.c.Revision().Controller.Finalizer = false
	f.c.Hooks = []Hooks{{}, ledger()}
	return f
}

// progress returns the sections of a result.
func progress(section string) []abi.Section {
	return []abi.Section{{Name: "ledger", Value: []byte(section)}}
}

// entryOf returns what a request has of the ledger.
func entryOf(q *abi.Request) (e entry) {
	if err := json.Unmarshal(q.Section("ledger"), &e); err != nil {
		panic(err)
	}
	return e
}

func (f *fixture) expectEntry(want, old string) {
	f.t.Helper()
	if f.request == nil {
		f.t.Fatal("no run has begun")
	}
	got := entryOf(f.request)
	if has := got.Old != nil && string(got.Old) != "null"; got.Type != want || (old != "") != has || has && !rawjson.Equal(got.Old, []byte(old)) {
		f.t.Errorf("the entry is %s from %s, want %s from %s", got.Type, got.Old, want, old)
	}
}

// edit changes the widget as somebody else does, and delivers the event.
func (f *fixture) edit(patch string) {
	f.t.Helper()
	f.version++
	old := f.store[widget][testKey]
	updated := patched(f.t, patched(f.t, old, patch), fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"}}`, f.version))
	f.store[widget][testKey] = updated
	f.c.Observe(old, updated, false)
}

// ends makes the next runs end with an outcome, or a code if that is not 0.
func (f *fixture) ends(code abi.Code, result abi.Result) {
	f.reconcile = func(context.Context, sandbox.Call) (sandbox.Return, error) {
		return sandbox.Return{Code: code, Output: abi.EncodeResult(&result)}, nil
	}
}

func (f *fixture) given() string { return string(f.request.Object) }

const aGadget = `{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`
