package operator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// withoutChance makes the delays of a test exact.
func withoutChance(q *abi.Request) { q.Seed = [32]byte{} }

// delays are those of calls that fail; 0: the event is given up.
type delays []time.Duration

func TestErrorIsRetriedByThePolicy(t *testing.T) {
	const ms, s, m, h = time.Millisecond, time.Second, time.Minute, time.Hour
	for name, c := range map[string]struct {
		policy sdk.RetryPolicy
		want   delays
	}{
		"by default":              {sdk.RetryPolicy{}, delays{500 * ms, s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s, 128 * s, 256 * s, 512 * s, 15 * m, 15 * m}},
		"exponential":             {sdk.RetryPolicy{Initial: s, Factor: 3, Cap: 20 * s}, delays{s, 3 * s, 9 * s, 20 * s, 20 * s}},
		"with an odd factor":      {sdk.RetryPolicy{Initial: 2 * s, Factor: 1.5}, delays{2 * s, 3 * s, 4500 * ms}},
		"fixed":                   {sdk.RetryPolicy{Initial: m, Factor: 1}, delays{m, m, m}},
		"fixed and long":          {sdk.RetryPolicy{Initial: h, Factor: 1}, delays{h, h}},
		"not longer than the cap": {sdk.RetryPolicy{Initial: h, Cap: m}, delays{m}},
		"none":                    {sdk.RetryPolicy{Attempts: 1}, delays{0}},
		"three at most":           {sdk.RetryPolicy{Initial: s, Attempts: 3}, delays{s, 2 * s, 0}},
		"then the cap":            {sdk.RetryPolicy{Initial: s, Cap: h, Attempts: 2, Then: sdk.ThenCap}, delays{s, h, h}},
		"a wrong factor":          {sdk.RetryPolicy{Initial: s, Factor: 0.5}, delays{s, s}},
	} {
		for _, by := range []string{"controller", "error"} {
			t.Run(name+" of the "+by, func(t *testing.T) {
				x := &test{t: t, fail: errBroken, edit: withoutChance}
				w, base := x.watch(), controller{Retry: c.policy}
				if by == "error" {
					w.RetryOf = func(err error) sdk.RetryPolicy {
						if !errors.Is(err, errBroken) {
							t.Errorf("asked about %v", err)
						}
						return c.policy
					}
					base.Retry = sdk.RetryPolicy{Initial: 7 * s}
				}
				if by == "controller" && (c.policy.Factor == 0.5 || c.policy.Cap == m) {
					return // a host refuses such a manifest
				}
				x.begin(w, base)
				expectDelays(x, c.want)
			})
		}
	}
}

func expectDelays(x *test, want delays) {
	x.t.Helper()
	for _, d := range want {
		r := x.run("add A")
		if d == 0 {
			r.ExpectStalled("")
		} else {
			r.ExpectRetry("").ExpectNext(d)
		}
		x.Advance(d)
	}
}

func TestChanceTakesOffAPartOfADelay(t *testing.T) {
	for share, want := range map[float64]time.Duration{0: 800 * time.Millisecond, 0.5: 500 * time.Millisecond} {
		x := &test{t: t, fail: errBroken, edit: func(q *abi.Request) { q.Seed[0] = 255 }}
		x.begin(x.watch(), controller{Retry: sdk.RetryPolicy{Initial: time.Second, Jitter: share}})
		r := x.run("add A")
		if after := time.Duration(r.Result.Error.After) * time.Millisecond; after < want || after > want+10*time.Millisecond {
			t.Errorf("the delay is %s, expected %s", after, want)
		}
	}
}

func TestPolicyIsChosenByTheError(t *testing.T) {
	errQuota, errNetwork := errors.New("no quota"), errors.New("no network")
	x := &test{t: t, fail: errNetwork, edit: withoutChance}
	w := x.watch()
	w.RetryOf = func(err error) sdk.RetryPolicy {
		if errors.Is(err, errQuota) {
			return sdk.RetryPolicy{Attempts: 1}
		}
		return sdk.RetryPolicy{Initial: time.Minute, Factor: 1}
	}
	x.begin(w)
	expectDelays(x, delays{time.Minute, time.Minute})
	x.fail = errQuota
	expectDelays(x, delays{0})
}

func TestErrorThatDeterminesWhatFollowsIsNotRetriedByThePolicy(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		expect func(*sdktest.Run)
	}{
		"stalled":     {sdk.Stalled("Wrong", errBroken), func(r *sdktest.Run) { r.ExpectStalled("Wrong").ExpectNext(0) }},
		"retry after": {sdk.RetryAfter(time.Hour, errBroken), func(r *sdktest.Run) { r.ExpectRetry("Failed").ExpectNext(time.Hour) }},
		"waiting":     {sdk.Waiting("Later", time.Hour, errBroken), func(r *sdktest.Run) { r.ExpectWaiting("Later").ExpectNext(time.Hour) }},
		"waiting for anything": {sdk.Waiting("Later", 0, errBroken), func(r *sdktest.Run) {
			r.ExpectWaiting("Later").ExpectNext(30 * time.Second)
		}},
		"with a reason": {sdk.Retry("NoQuota", errBroken), func(r *sdktest.Run) { r.ExpectRetry("NoQuota").ExpectNext(time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			x := &test{t: t, fail: c.err, edit: withoutChance}
			x.begin(x.watch(), controller{Retry: sdk.RetryPolicy{Initial: time.Minute}})
			c.expect(x.run("add A"))
		})
		t.Run(name+", with a policy for the error", func(t *testing.T) {
			x := &test{t: t, fail: c.err, edit: withoutChance}
			w := x.watch()
			w.RetryOf = func(error) sdk.RetryPolicy { return sdk.RetryPolicy{Initial: time.Minute} }
			x.begin(w)
			c.expect(x.run("add A"))
		})
	}
}

func TestErrorPolicyOfTheControllerComesFirst(t *testing.T) {
	x := &test{t: t, fail: errBroken, edit: withoutChance}
	var asked []int
	w := x.watch()
	w.RetryOf = func(error) sdk.RetryPolicy { return sdk.RetryPolicy{Initial: time.Minute, Factor: 1} }
	x.begin(w, controller{
		ErrorPolicy: func(r *object, err error, attempt int) error {
			asked = append(asked, attempt)
			switch attempt {
			case 1:
				return nil
			case 2:
				return sdk.RetryAfter(time.Second, err)
			}
			return sdk.Stalled("Enough", err)
		},
	})
	if r := x.run("add A").ExpectNext(time.Minute); r.Message != "broken" {
		t.Errorf("the message is %q", r.Message)
	}
	x.run("add A").ExpectNext(time.Second)
	x.run("add A").ExpectStalled("Enough")
	x.fail = sdk.Stalled("Wrong", errBroken)
	x.run("add A").ExpectStalled("Wrong")
	if len(asked) != 3 || asked[2] != 3 {
		t.Errorf("asked about calls %v", asked)
	}
}

// What was counted for an event does not count for the next one.
func TestEachEventHasItsOwnAttempts(t *testing.T) {
	x := &test{t: t, fail: errBroken, edit: withoutChance}
	x.begin(x.watch(), controller{Retry: sdk.RetryPolicy{Initial: time.Second, Attempts: 3}})
	expectDelays(x, delays{time.Second, 2 * time.Second})
	x.title("B")
	x.run("add B").ExpectNext(time.Second)
}
