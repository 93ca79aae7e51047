package wasi

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Process is what a guest has of a system during one call. It is used by one
// goroutine at a time.
type Process struct {
	Stdout, Stderr Tail

	clock  clock
	seed   [32]byte
	random *rand.ChaCha8 // from seed, when first read

	copied, drawn int // since the last [Process.Work]
}

// NewProcess is for a call at that time, with random numbers from a seed, of
// which so many bytes of each of stdout and stderr are kept.
func NewProcess(now time.Time, seed [32]byte, stdio int) Process {
	return Process{
		Stdout: Tail{limit: stdio},
		Stderr: Tail{limit: stdio},
		clock:  clock{now: now.UnixNano()},
		seed:   seed,
	}
}

// Work is what was done for the guest since it was last asked: bytes that were
// copied from it, and random ones that were made for it.
func (p *Process) Work() (copied, random int) {
	copied, random = p.copied, p.drawn
	p.copied, p.drawn = 0, 0
	return copied, random
}

// randomBytes fills data from the call's stream.
func (p *Process) randomBytes(data []byte) {
	if p.random == nil {
		p.random = rand.NewChaCha8(p.seed)
	}
	_, _ = p.random.Read(data) // never fails
}

// Exit is what a call ends with by a panic if the guest calls proc_exit.
type Exit struct{ Code uint32 }

func (e *Exit) Error() string { return fmt.Sprintf("the guest exited with code %d", e.Code) }

// Tail keeps the last bytes of what is written: after a panic these hold the
// message.
type Tail struct {
	limit int // bytes
	data  []byte
}

// Add writes, and answers how many bytes it copied.
func (t *Tail) Add(p []byte) int {
	if len(p) > t.limit {
		p = p[len(p)-t.limit:]
	}
	t.data = append(t.data, p...)
	if len(t.data) > 2*t.limit {
		t.data = append(t.data[:0], t.data[len(t.data)-t.limit:]...)
	}
	return len(p)
}

// Bytes is a copy of what is kept, or nil.
func (t *Tail) Bytes() []byte {
	kept := t.data[max(0, len(t.data)-t.limit):]
	if len(kept) == 0 {
		return nil
	}
	return append([]byte(nil), kept...)
}
