package wasi

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"
)

// Process is the state of the system interface during one call. It must be used
// by one goroutine at a time.
type Process struct {
	Stdout, Stderr Tail

	clock  clock
	seed   [32]byte
	random *rand.ChaCha8 // from seed; nil until it is first read

	copied, drawn int // bytes since the last TakeWork
}

// NewProcess returns the state for a call at a time, with random numbers from a
// seed, that keeps at most stdio bytes each of stdout and stderr.
func NewProcess(now time.Time, seed [32]byte, stdio int) Process {
	return Process{
		Stdout: Tail{limit: stdio},
		Stderr: Tail{limit: stdio},
		clock:  clock{now: now.UnixNano()},
		seed:   seed,
	}
}

// TakeWork returns the work that was done for the guest since the last call of
// TakeWork: bytes copied from it, and random bytes generated.
func (p *Process) TakeWork() (copied, random int) {
	copied, random = p.copied, p.drawn
	p.copied, p.drawn = 0, 0
	return copied, random
}

// readRandom fills data with random bytes.
func (p *Process) readRandom(data []byte) {
	if p.random == nil {
		p.random = rand.NewChaCha8(p.seed)
	}
	_, _ = p.random.Read(data) // never fails
	p.drawn += len(data)
}

// Exit is the value of the panic that ends a call if the guest calls proc_exit.
type Exit struct{ Code uint32 }

func (e *Exit) Error() string { return fmt.Sprintf("the guest exited with code %d", e.Code) }

// Tail keeps the last bytes of what is written to it: after a panic they hold
// the message.
type Tail struct {
	limit int // bytes
	data  []byte
}

// Add writes p, and returns how many bytes it copied.
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

// Bytes returns a copy of what is kept, or nil if nothing was written.
func (t *Tail) Bytes() []byte {
	kept := t.data[max(0, len(t.data)-t.limit):]
	if len(kept) == 0 {
		return nil
	}
	return bytes.Clone(kept)
}
