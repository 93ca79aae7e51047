package source

import (
	"os"
	"time"

	"github.com/fsnotify/fsnotify"
)

// system is what tests replace to stand on another one: a clock that can be
// moved, a file system without leases, a kernel out of watches.
type system struct {
	now    func() time.Time
	claim  func(*os.File) claim
	notify func() (*fsnotify.Watcher, error)
}

var realSystem = system{now: time.Now, claim: claimFile, notify: fsnotify.NewWatcher}

// claim is what the system says of the writers of an open file.
type claim struct {
	answer answer
	// local: every write goes through this kernel, so its stamps are of this
	// machine's clock.
	local bool
	// release lets writers in again, and says whether they were kept out until
	// now. It must be called once.
	release func() (kept bool)
}

type answer int

const (
	unknown answer = iota // the system does not say
	written               // somebody has it open for writing
	held                  // nobody has, and whoever opens it for writing waits for the release
)

// unclaimed is the answer of a system that gives none.
func unclaimed(a answer, local bool) claim {
	return claim{answer: a, local: local, release: func() bool { return true }}
}
