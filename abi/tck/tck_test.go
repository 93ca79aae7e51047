package tck

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/abi/webhooks"
)

func TestCasesAreComplete(t *testing.T) {
	label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	seen := map[string]bool{}
	for _, c := range allCases() {
		if seen[c.Name] || !label.MatchString(c.Name) || c.Explain == "" || c.Wasm == nil {
			t.Errorf("case %q is incomplete or exists twice", c.Name)
		}
		seen[c.Name] = true
		if (c.Stage == StageCall && c.Class == abi.ClassNone) || (c.Stage == StageOK && c.Class != abi.ClassNone) {
			t.Errorf("case %q: stage %s with class %q", c.Name, c.Stage, c.Class)
		}
		if c.Timed() != (c.Limits.Deadline > 0) {
			t.Errorf("case %q: class %q with a deadline of %s", c.Name, c.Class, c.Limits.Deadline)
		}
		if c.Stage != StageLoad && c.Calls < 1 {
			t.Errorf("case %q is never called", c.Name)
		}
	}
}

func TestGreedyGuestsAreCorrectModules(t *testing.T) {
	for _, c := range Greedy() {
		if err := Check(c.Wasm()); err != nil || c.Explain == "" || len(c.Kinds) == 0 {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

func TestCaseOfFindsCasesByName(t *testing.T) {
	for _, name := range []string{"correct", "get-storm"} {
		if c, ok := CaseOf(name); !ok || c.Name != name {
			t.Errorf("CaseOf(%q) = %q, %v", name, c.Name, ok)
		}
	}
	if _, ok := CaseOf("absent"); ok {
		t.Error("found a case that does not exist")
	}
}

func TestExpectedResultsAreValid(t *testing.T) {
	for _, c := range allCases() {
		if c.Output == nil {
			continue
		}
		if err := c.decode(c.Output(c.request(0))); err != nil {
			t.Errorf("case %q expects an invalid result: %v", c.Name, err)
		}
	}
	if _, err := abi.DecodeRequest(Request()); err != nil {
		t.Error(err)
	}
	for _, last := range []bool{false, true} {
		if q, err := daemon.DecodeRequest(daemonRequest("default", last)); err != nil || (q.Events[0] == daemon.Stop) != last {
			t.Errorf("%+v, %v", q, err)
		}
	}
	if q, err := scans.DecodeRequest(ScanRequest()); err != nil || q.Scan != scanName {
		t.Errorf("%+v, %v", q, err)
	}
	for _, export := range reviewExports[:2] {
		if q, err := webhooks.DecodeReviewRequest(ReviewRequest(export)); err != nil || q.Object == nil {
			t.Errorf("%+v, %v", q, err)
		}
	}
	if q, err := webhooks.DecodeConvertRequest(ReviewRequest(webhooks.ExportConvert)); err != nil || q.Object == nil {
		t.Errorf("%+v, %v", q, err)
	}
}

// TestCheckReportsWhatImportsAndExportsShow expects an error for each guest
// whose imports or exports are wrong, and none for any other guest.
func TestCheckReportsWhatImportsAndExportsShow(t *testing.T) {
	visible := map[string]string{
		"not-wasm":               "not a WebAssembly",
		"empty-file":             "not a WebAssembly",
		"truncated":              "bytes end early",
		"missing-marker":         `"thole_v1" is missing`,
		"other-version":          `"thole_v1" is missing`,
		"missing-export":         `"reconcile" is missing: export a function (i32) -> i32`,
		"wrong-signature":        `"reconcile" is (i64) -> i32, not (i32) -> i32`,
		"wrong-kind":             `"reconcile" is a memory, not (i32) -> i32`,
		"index-wrong-signature":  `"index" is (i64) -> i32, not (i32) -> i32`,
		"daemon-wrong-signature": `"daemon" is (i64) -> i32, not (i32) -> i32`,
		"scan-wrong-signature":   `"scan" is (i64) -> i32, not (i32) -> i32`,
		"wrong-import-signature": `thole/v1.log is (i32, i32) -> (), not (i32, i32, i32) -> ()`,
		"unknown-import":         `thole/v1.outptu`,
		"unknown-import-module":  `env.abort`,
		"memory-not-exported":    `"memory" is missing`,
		"count-bomb":             "do not fit",
		"component":              "not a WebAssembly 1 module",

		"validate-wrong-signature": `"validate" is (i64) -> i32, not (i32) -> i32`,
		"mutate-wrong-signature":   `"mutate" is (i64) -> i32, not (i32) -> i32`,
		"convert-wrong-signature":  `"convert" is (i64) -> i32, not (i32) -> i32`,
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

// TestCheckAcceptsHostileGuestsThatLoad: what such a guest does cannot be seen
// in its imports and exports.
func TestCheckAcceptsHostileGuestsThatLoad(t *testing.T) {
	for _, c := range Hostile() {
		if err := Check(c.Wasm()); err != nil && c.Stage != StageLoad {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// fakeHost is a host without an engine: it does what each case expects, except
// for what a test changes.
type fakeHost struct {
	load    func(c Case) error
	call    func(c Case) (int32, []byte, error)
	current Case
}

func conformingHost() *fakeHost {
	return &fakeHost{
		load: func(c Case) error {
			if c.Stage != StageLoad {
				return nil
			}
			return loadError{strings.Join(c.Mentions, " "), c.Step, c.Class}
		},
		call: func(c Case) (int32, []byte, error) {
			if c.Stage == StageCall {
				return 0, nil, fmt.Errorf("wrapped: %w", classified(c.Class))
			}
			return int32(c.Code), c.Output(c.request(0)), nil
		},
	}
}

// loadError is an error of a load that has both a step and a class.
type loadError struct {
	text  string
	step  Step
	class abi.Class
}

func (e loadError) Error() string           { return e.text }
func (e loadError) RefusedAt() Step         { return e.step }
func (e loadError) FailureClass() abi.Class { return e.class }

type classified abi.Class

func (c classified) Error() string           { return string(c) }
func (c classified) FailureClass() abi.Class { return abi.Class(c) }

func (h *fakeHost) Load(name string, _ []byte, _ Limits) (Guest, error) {
	h.current, _ = CaseOf(name)
	if err := h.load(h.current); err != nil {
		return nil, err
	}
	return h, nil
}

func (h *fakeHost) Reconcile([]byte) (int32, []byte, error) {
	if h.current.Runs {
		return 0, success(), nil
	}
	return h.call(h.current)
}

func (h *fakeHost) Index([]byte) (int32, []byte, error) { return h.call(h.current) }
func (h *fakeHost) Step([]byte) (int32, []byte, error)  { return h.call(h.current) }
func (h *fakeHost) Scan([]byte) (int32, []byte, error)  { return h.call(h.current) }
func (h *fakeHost) Close()                              {}

func (h *fakeHost) Review(string, []byte) (int32, []byte, error) { return h.call(h.current) }

// varyingCost is a guest whose calls never cost the same.
type varyingCost struct {
	*fakeHost
	calls uint64
}

func (v *varyingCost) Load(name string, wasm []byte, limits Limits) (Guest, error) {
	_, err := v.fakeHost.Load(name, wasm, limits)
	return v, err
}

func (v *varyingCost) Fuel() uint64 { v.calls++; return v.calls }

func TestRunPassesAConformingHost(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	Run(t, conformingHost(), allCases())
}

func TestVerifyReportsEachDeviation(t *testing.T) {
	loading := func(load func(Case) error) *fakeHost {
		h := conformingHost()
		h.load = load
		return h
	}
	calling := func(code int32, output []byte, err error) *fakeHost {
		h := conformingHost()
		h.call = func(Case) (int32, []byte, error) { return code, output, err }
		return h
	}
	for _, x := range []struct {
		name string
		host Host
		kase string
		want string
	}{
		{"refused at another step", loading(func(c Case) error {
			return loadError{strings.Join(c.Mentions, " "), StepCheck, c.Class}
		}), "describe-loops", "must be refused at step describe, but was at check"},
		{"refused with another class", loading(func(c Case) error {
			return loadError{strings.Join(c.Mentions, " "), c.Step, abi.ClassABI}
		}), "describe-loops", "must be refused as timeout, but was as abi"},
		{"cost of a success varies", &varyingCost{fakeHost: conformingHost()}, "correct", "cost 1 and then 2"},
		{"cost of a failure varies", &varyingCost{fakeHost: conformingHost()}, "trap", "cost 1 and then 2"},
		{"loaded", loading(func(Case) error { return nil }), "missing-marker", "must be refused"},
		{"error without the symbol", loading(func(Case) error { return errors.New("no") }), "missing-marker", `must name "thole_v1"`},
		{"correct guest refused", loading(func(Case) error { return errors.New("no") }), "correct", "load must succeed"},
		{"call succeeded", calling(0, success(), nil), "trap", "must fail as panic"},
		{"error without a class", calling(0, nil, errors.New("failed")), "trap", `failed as ""`},
		{"call failed", calling(0, nil, errors.New("failed")), "correct", "call 1 must succeed"},
		{"another code", calling(0, success(), nil), "code-retry", "must return 1"},
		{"another result", calling(0, leaked(), nil), "reset-memory", "must have the result"},
		{"other keys", calling(0, []byte("{}"), nil), "index", "must have the result"},
		{"another state", calling(0, []byte("{}"), nil), "daemon-reset-memory", "must have the result"},
		{"result of daemon accepted", calling(0, []byte("{}"), nil), "daemon-large-state", "must fail as abi"},
		{"another scan", calling(0, []byte("{}"), nil), "scan-reset-memory", "must have the result"},
		{"result of scan accepted", calling(0, []byte("{}"), nil), "scan-large-signal", "must fail as abi"},
		{"another review", calling(0, []byte("{}"), nil), "validate-reset-memory", "must have the result"},
		{"object of validate accepted", calling(0, []byte(`{"allowed":true}`), nil), "validate-object", "must fail as abi"},
		{"object of another name accepted", calling(0, []byte(`{"allowed":true}`), nil), "mutate-other-name", "must fail as abi"},
		{"conversion accepted", calling(0, webhooks.EncodeConvertResult(&webhooks.ConvertResult{Object: labelled(convertedVersion)}), nil), "convert-same-version", "must fail as abi"},
		{"result of index accepted", calling(0, []byte("{}"), nil), "index-key-twice", "must fail as abi"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, _ := CaseOf(x.kase)
			if err := c.Verify(x.host); err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%s: %v, want %q", x.kase, err, x.want)
			}
		})
	}
}

func TestGetReturnsTheOneObject(t *testing.T) {
	if reply, code := Get(getObject()); string(reply) != Object || code != 0 {
		t.Errorf("get = %s, %d", reply, code)
	}
	if _, code := Get(getMissing()); code != abi.CodeNotFound {
		t.Errorf("get of a missing object = %d", code)
	}
	if _, code := List([]byte("?")); code != abi.CodeInvalid {
		t.Errorf("list of an invalid message = %d", code)
	}
	reply, code := List(abi.EncodeListCall(&abi.ListCall{APIVersion: "v1", Kind: "Secret"}))
	if list, err := abi.DecodeListReply(reply); err != nil || code != 0 || len(list.Items) != 0 {
		t.Errorf("list of another kind = %s, %d, %v", reply, code, err)
	}
}

func FuzzCheck(f *testing.F) {
	for _, wasm := range Seeds() {
		f.Add(wasm)
	}
	f.Fuzz(func(_ *testing.T, wasm []byte) { _ = Check(wasm) })
}
