// Package await is how tests wait for what other goroutines and processes
// bring about, and for how long: nothing else says it.
//
// Who has seen one effect of something has not seen the others. Of a reconcile
// the object tells first, then the log, then the metrics, an Event at some
// time: each of them is waited for.
package await

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// Limit is how long to wait for what takes a second on a machine at rest. Only
// a test that fails spends it, so it is meant for one that is ten times slower
// and has other work to do.
const Limit = 2 * time.Minute

// Until waits until done says yes, for [Limit] at most; what names the state
// that is wanted.
func Until(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	Within(tb, Limit, what, done)
}

// Within is [Until] for what takes longer.
func Within(tb testing.TB, limit time.Duration, what string, done func() bool) {
	tb.Helper()
	if !poll(limit, done) {
		tb.Fatalf("not within %s: %s", limit, what)
	}
}

// Success tries until there is no error, for [Limit] at most, and returns the
// last one.
func Success(try func() error) (err error) {
	if !poll(Limit, func() bool { err = try(); return err == nil }) {
		return fmt.Errorf("not within %s: %w", Limit, err)
	}
	return nil
}

// Main runs the tests of a package and exits. When they have passed, nothing
// that they started may be left: leaks is goleak.Find, which by itself gives
// it half a second.
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

// poll asks until the answer is yes. The longer it takes the less often it
// asks: what is waited for needs the processor, too.
func poll(limit time.Duration, done func() bool) bool {
	start := time.Now()
	for !done() {
		passed := time.Since(start)
		if passed > limit {
			return false
		}
		<-time.After(min(max(passed/10, 10*time.Millisecond), 500*time.Millisecond))
	}
	return true
}
