package child

import (
	"os"
	"time"
)

const (
	removeGrace = 20 * time.Second
	removePause = 50 * time.Millisecond
)

// RemoveAll removes a directory that children have written to. One whose
// writers were killed a moment ago may still be written to, so it is tried for
// a while.
func RemoveAll(dir string) error {
	deadline := time.Now().Add(removeGrace)
	for {
		err := os.RemoveAll(dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(removePause)
	}
}
