package tck

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

func all() []Case { return append(Cases(), Hostile()...) }

func TestCasesAreComplete(t *testing.T) {
	label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	seen := map[string]bool{}
	for _, c := range all() {
		if seen[c.Name] || !label.MatchString(c.Name) || c.Explain == "" || c.Wasm == nil {
			t.Errorf("case %q is incomplete, or there twice", c.Name)
		}
		seen[c.Name] = true
		if (c.Stage == StageCall && c.Class == abi.ClassNone) || (c.Stage == StageOK && c.Class != abi.ClassNone) {
			t.Errorf("case %q: stage %s with class %q", c.Name, c.Stage, c.Class)
		}
		if c.Timed() != (c.Limits.Deadline > 0) {
			t.Errorf("case %q: class %q with a deadline of %s", c.Name, c.Class, c.Limits.Deadline)
		}
		if c.Stage == StageOK && c.Calls < 1 {
			t.Errorf("case %q is never called", c.Name)
		}
	}
	if _, ok := CaseOf("correct"); !ok {
		t.Error("the case correct is not found")
	}
	if _, ok := CaseOf("absent"); ok {
		t.Error("a case that is not there is found")
	}
}

func TestExpectedResultsAreResults(t *testing.T) {
	for _, c := range all() {
		if c.Output == nil {
			continue
		}
		if _, err := abi.DecodeResult(c.Output(Request())); err != nil {
			t.Errorf("case %q expects what no host may accept: %v", c.Name, err)
		}
	}
	if _, err := abi.DecodeRequest(Request()); err != nil {
		t.Error(err)
	}
}

// TestCheck expects that everything that can be seen from outside is, and
// that nothing else is complained about.
func TestCheck(t *testing.T) {
	visible := map[string]string{
		"not-wasm":               "not a WebAssembly",
		"empty-file":             "not a WebAssembly",
		"truncated":              "bytes end early",
		"missing-marker":         `"thole_v1" is missing`,
		"other-version":          `"thole_v1" is missing`,
		"missing-export":         `"reconcile" is missing`,
		"wrong-signature":        `"reconcile" is (i64) -> (i32), not (i32) -> (i32)`,
		"wrong-kind":             `"reconcile" is not a function`,
		"wrong-import-signature": `thole/v1.log is (i32, i32) -> (), not (i32, i32, i32) -> ()`,
		"unknown-import":         `thole/v1.outptu`,
		"unknown-import-module":  `env.abort`,
		"memory-not-exported":    `"memory" is missing`,
		"count-bomb":             "bytes end early",
	}
	for _, c := range Cases() {
		err := Check(c.Wasm())
		want, bad := visible[c.Name]
		switch {
		case bad && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", c.Name, err, want)
		case !bad && err != nil:
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// TestCheckFindsHostileGuestsPlain: what is wrong with guests that load cannot
// be seen from outside.
func TestCheckFindsHostileGuestsPlain(t *testing.T) {
	for _, c := range Hostile() {
		if err := Check(c.Wasm()); err != nil && c.Stage != StageLoad {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// perfect is a host without an engine: it gives what each case wants, but for
// what a test spoils.
type perfect struct {
	refuse  func(c Case) error
	call    func(c Case) (int32, []byte, error)
	current Case
}

func newPerfect() *perfect {
	return &perfect{
		refuse: func(c Case) error {
			if c.Stage != StageLoad {
				return nil
			}
			return refused{strings.Join(c.Mentions, " "), c.Step, c.Class}
		},
		call: func(c Case) (int32, []byte, error) {
			if c.Stage == StageCall {
				return 0, nil, fmt.Errorf("wrapped: %w", classified(c.Class))
			}
			return int32(c.Code), c.Output(Request()), nil
		},
	}
}

// refused is an error of a load, told in full.
type refused struct {
	text  string
	step  Step
	class abi.Class
}

func (r refused) Error() string           { return r.text }
func (r refused) RefusedAt() Step         { return r.step }
func (r refused) FailureClass() abi.Class { return r.class }

type classified abi.Class

func (c classified) Error() string           { return string(c) }
func (c classified) FailureClass() abi.Class { return abi.Class(c) }

func (p *perfect) Load(name string, _ []byte, _ Limits) (Guest, error) {
	p.current, _ = CaseOf(name)
	if err := p.refuse(p.current); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *perfect) Reconcile([]byte) (int32, []byte, error) { return p.call(p.current) }
func (p *perfect) Close()                                  {}

// moody is a guest whose calls never cost the same.
type moody struct {
	*perfect
	calls uint64
}

func (m *moody) Load(name string, wasm []byte, limits Limits) (Guest, error) {
	_, err := m.perfect.Load(name, wasm, limits)
	return m, err
}

func (m *moody) Fuel() uint64 { m.calls++; return m.calls }

func TestRunPassesAPerfectHost(t *testing.T) { Run(t, newPerfect(), all()) }

func TestVerifyFindsDeviations(t *testing.T) {
	accepts := newPerfect()
	accepts.refuse = func(Case) error { return nil }
	refuses := newPerfect()
	refuses.refuse = func(Case) error { return errors.New("no") }
	returns := newPerfect()
	returns.call = func(Case) (int32, []byte, error) { return 0, success(), nil }
	unclassified := newPerfect()
	unclassified.call = func(Case) (int32, []byte, error) { return 0, nil, errors.New("failed") }
	leaks := newPerfect()
	leaks.call = func(Case) (int32, []byte, error) { return 0, leaked(), nil }
	early, unclear := newPerfect(), newPerfect()
	early.refuse = func(c Case) error { return refused{strings.Join(c.Mentions, " "), StepCheck, c.Class} }
	unclear.refuse = func(c Case) error { return refused{strings.Join(c.Mentions, " "), c.Step, abi.ClassABI} }
	for _, x := range []struct {
		host Host
		name string
		want string
	}{
		{early, "describe-loops", "must be refused at step describe, but was at check"},
		{unclear, "describe-loops", "must be refused as timeout, but was as abi"},
		{&moody{perfect: newPerfect()}, "correct", "cost 1 and then 2"},
		{&moody{perfect: newPerfect()}, "trap", "cost 1 and then 2"},
		{accepts, "missing-marker", "must be refused"},
		{refuses, "missing-marker", `must name "thole_v1"`},
		{refuses, "correct", "load must succeed"},
		{returns, "trap", "must fail as panic"},
		{unclassified, "trap", `failed as ""`},
		{unclassified, "correct", "call 1 must succeed"},
		{returns, "code-retry", "must answer 1"},
		{leaks, "reset-memory", "the result must be"},
	} {
		c, _ := CaseOf(x.name)
		if err := c.Verify(x.host); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", x.name, err, x.want)
		}
	}
}

func TestWorld(t *testing.T) {
	if reply, code := Get(abi.EncodeGetCall(&abi.GetCall{Ref: present()})); string(reply) != Object || code != 0 {
		t.Errorf("get = %s, %d", reply, code)
	}
	if _, code := Get(missing()); code != abi.CodeNotFound {
		t.Errorf("get of a missing object = %d", code)
	}
	if _, code := List([]byte("?")); code != abi.CodeInvalid {
		t.Errorf("list of garbage = %d", code)
	}
	reply, code := List(abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "Secret"}))
	if list, err := abi.DecodeListReply(reply); err != nil || code != 0 || len(list.Items) != 0 {
		t.Errorf("list of another kind = %s, %d, %v", reply, code, err)
	}
}

func TestSignedNumbers(t *testing.T) {
	for v, want := range map[int64]string{0: "\x00", 63: "\x3f", 64: "\xc0\x00", -1: "\x7f", -64: "\x40", -65: "\xbf\x7f", 128: "\x80\x01"} {
		if got := string(signed(v)); got != want {
			t.Errorf("signed(%d) = %x, want %x", v, got, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, wasm := range Seeds() {
		f.Add(wasm)
	}
	f.Fuzz(func(_ *testing.T, wasm []byte) { _ = Check(wasm) })
}
