package source

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/await"
)

// hammer is a directory that runs while several goroutines copy files into it,
// and stop half-way until they were looked at.
type hammer struct {
	*testing.T
	dir       string
	snapshots <-chan Snapshot
	met       map[string]chan struct{} // capacity 1: a file was met while it was written

	mu       sync.Mutex
	complete map[string]bool // digests of what was put there as a whole
}

// TestCopiesThatStallAreNotYielded, with the notifications, clock and leases
// of the system.
func TestCopiesThatStallAreNotYielded(t *testing.T) {
	needLeases(newScene(t))
	h := &hammer{T: t, dir: t.TempDir(), met: map[string]chan struct{}{}, complete: map[string]bool{}}
	for i := range 4 {
		h.met[fmt.Sprintf("p%d.wasm", i)] = make(chan struct{}, 1)
	}
	d, err := NewDirectory(Config{Path: h.dir, Quiet: time.Millisecond, Period: time.Hour, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	d.system.claim = func(f *os.File) claim {
		c := claimFile(f)
		if c.answer == written {
			signal(h.met[filepath.Base(f.Name())])
		}
		return c
	}
	h.snapshots = run(t, d)
	var writers sync.WaitGroup
	for name := range h.met {
		writers.Go(func() { h.write(name) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		writers.Wait()
		cancel()
	}()
	h.check(ctx.Done())
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write replaces one file again and again, by copies and renames.
func (h *hammer) write(name string) {
	dice := rand.New(rand.NewPCG(1, uint64(name[1])))
	for round := range 30 {
		content := strings.Repeat(fmt.Sprintf("%s %d;", name, round), 1+dice.IntN(5000))
		if dice.IntN(3) == 0 {
			h.accept(content)
			h.rename(name, content)
			continue
		}
		h.copy(name, content, dice.IntN(len(content)))
	}
	h.accept("the last one")
	h.rename(name, "the last one")
}

func (h *hammer) accept(content string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.complete[digest([]byte(content))] = true
}

// rename is [write], with a name of its own for each goroutine.
func (h *hammer) rename(name, content string) {
	next := filepath.Join(h.dir, "."+name)
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		h.Error(err)
	}
	if err := os.Rename(next, filepath.Join(h.dir, name)); err != nil {
		h.Error(err)
	}
}

// copy writes in place and stalls where it is told to.
func (h *hammer) copy(name, content string, stall int) {
	f, err := os.Create(filepath.Join(h.dir, name))
	if err != nil {
		h.Error(err)
		return
	}
	defer f.Close()
	select {
	case <-h.met[name]: // of a copy before
	default:
	}
	if _, err := f.WriteString(content[:stall]); err != nil {
		h.Error(err)
	}
	select {
	case <-h.met[name]:
	case <-time.After(await.Limit):
		h.Error("nobody looked at a file that is written")
	}
	h.accept(content)
	if _, err := f.WriteString(content[stall:]); err != nil {
		h.Error(err)
	}
}

// check reads snapshots until all writers are done and the last one is of what
// they have left.
func (h *hammer) check(done <-chan struct{}) {
	deadline := time.After(await.Limit)
	for last, ended := 0, false; !ended || last != len(h.met); {
		select {
		case s := <-h.snapshots:
			last = h.expectComplete(s)
		case <-done:
			done, ended = nil, true
		case <-deadline:
			h.Fatal("no snapshot of what was written last")
		}
	}
}

// expectComplete returns how many files hold what is written last.
func (h *hammer) expectComplete(s Snapshot) (last int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range s {
		if p.Err != nil || !h.complete[p.Digest] {
			h.Errorf("%s: %q was never whole, %v", p.Name, p.Digest, p.Err)
		}
		if p.Digest == digest([]byte("the last one")) {
			last++
		}
	}
	return last
}
