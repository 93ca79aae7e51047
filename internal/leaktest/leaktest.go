// Package leaktest ends the tests of a command's package with a search for goroutines that
// they have left. Packages of the host use host/internal/await, which commands may not import.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// limit is only spent by tests that have left a goroutine.
const limit = 2 * time.Minute

// Main runs the tests of a package and exits. If they pass, no goroutine of theirs may be
// left after the limit: [goleak.VerifyTestMain] waits for half a second only.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// find returns an error if goroutines are left after the limit.
func find() error {
	end := time.Now().Add(limit)
	for {
		err := goleak.Find() // waits by itself
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
