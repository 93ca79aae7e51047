// Package await is how tests wait for something that other goroutines or
// processes do, and the only place that decides for how long.
//
// The effects of one action become visible at different times. Of a reconcile,
// the object changes first, then the log and the metrics; an Event comes at some
// time. A test that has seen one of them must still wait for the others.
package await

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Limit is how long to wait for something that takes a second on an idle
// machine. Only a test that fails waits for so long. So the limit suits a machine
// that is ten times slower and busy with other work.
const Limit = 5 * time.Minute

// Until blocks until done returns true, for [Limit] at most. what describes the
// expected state in the message of a test that fails.
func Until(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	Within(tb, Limit, what, done)
}

// Within is [Until] with another limit.
func Within(tb testing.TB, limit time.Duration, what string, done func() bool) {
	tb.Helper()
	if !Poll(limit, done) {
		tb.Fatalf("not within %s: %s", limit, what)
	}
}

// Success calls try until it returns no error, for [Limit] at most, and returns
// the last error.
func Success(try func() error) (err error) {
	if !Poll(Limit, func() bool { err = try(); return err == nil }) {
		return fmt.Errorf("not within %s: %w", Limit, err)
	}
	return nil
}

// Main runs the tests of a package and exits. If they pass, leaks must return no
// error within [Limit]; it is goleak.Find, which by itself waits for half a
// second only.
func Main(m *testing.M, leaks func() error) {
	code := m.Run()
	if code == 0 {
		if err := Success(leaks); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Poll calls done until it returns true, less and less often: what the test
// waits for needs the processor too. After the limit it calls done once more, in
// case the whole machine was suspended for a while. It returns what done returned
// last.
func Poll(limit time.Duration, done func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// After 41 steps, which take 5 s, the interval stays at the cap.
	interval := wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.1, Steps: 100, Cap: 500 * time.Millisecond}
	err := interval.DelayFunc().Until(ctx, true, true, func(context.Context) (bool, error) { return done(), nil })
	return err == nil || done()
}
