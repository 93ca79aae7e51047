package sandbox

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/sandbox/memory"
)

// One instance of the guests by hand has 128 KiB, and its image 4 KiB.
const (
	handInstance = 128 << 10
	handImage    = 4 << 10
)

// TestBombIsContained: a plugin that takes all that the host has for plugins
// fails alone, and is told whose limit it was.
func TestBombIsContained(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: 8 << 20})
	neighbour := loadCase(t, s, "reset-memory", Limits{})
	bomb := loadCase(t, s, "memory-bomb", Limits{Instances: 1})
	for range 3 {
		_, err := bomb.Reconcile(t.Context(), Call{Request: tck.Request()})
		f := wantFault(t, err, abi.ClassOutOfMemory, "the host's memory for plugins is used up")
		if !strings.Contains(f.Message, " of 8 MiB are in use") || !strings.Contains(f.Message, "guestMemoryMiB") {
			t.Errorf("message = %s", f.Message)
		}
		if f.MemoryBytes < 6<<20 || f.Innocent() || !errors.Is(err, ErrHostMemory) {
			t.Errorf("it had %d bytes, and is innocent: %v", f.MemoryBytes, f.Innocent())
		}
		reconcile(t, neighbour, Call{Request: tck.Request()})
	}
	m := s.Memory()
	if m.Refused < 3 || m.LimitBytes != 8<<20 || m.UsedBytes > 1<<20 {
		t.Errorf("stats = %+v", m)
	}
}

// hoarding is a guest that takes all the memory that it gets, and then asks
// the host something.
func hoarding(name string) []byte {
	h := newHand(name)
	get := h.Import(abi.ImportModule, abi.ImportGet, two, answer)
	return h.wasm(nil,
		tck.Block, tck.Loop, tck.I32Const(1), tck.MemoryGrow, tck.I32Const(-1), tck.I32Eq, tck.BranchIf(1), tck.Branch(0), tck.End, tck.End,
		tck.I32Const(0), tck.I32Const(4), tck.Call(get), tck.Drop, h.ok())
}

// TestNeighbourOfABombUnderWay: a plugin that holds all that it gets leaves
// enough for calls of the others, also if they need a new instance.
func TestNeighbourOfABombUnderWay(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: 4 << 20})
	neighbour := loadCase(t, s, "reset-memory", Limits{})
	hoarder := load(t, s, Plugin{Name: "hoarder", Limits: Limits{Instances: 1}, Wasm: hoarding("hoarder")})
	gate := newGate()
	ended := make(chan error, 1)
	go func() {
		_, err := hoarder.Reconcile(t.Context(), Call{Host: gate.host()})
		ended <- err
	}()
	<-gate.arrived
	if m := s.Memory(); m.Refused != 1 || m.UsedBytes < m.LimitBytes*3/4 {
		t.Fatalf("the bomb took %+v", m)
	}
	if n := neighbour.Stats(); n.Idle != 0 {
		t.Errorf("%d idle instances of the neighbour, want them dropped", n.Idle)
	}
	reconcile(t, neighbour, Call{Request: tck.Request()})
	close(gate.open)
	if err := <-ended; err != nil {
		t.Errorf("the bomb, which can live with what it has: %v", err)
	}
}

// TestCallWithoutMemory: a call that gets no instance, or no more memory than
// its even share, is not the guest's fault.
func TestCallWithoutMemory(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: 4 << 20})
	others := allBut(t, s, handImage+handInstance+handImage)
	load(t, s, Plugin{Name: "another", Wasm: okay("another")}).Trim(t.Context(), 0)
	g := load(t, s, Plugin{Name: "growing", Wasm: growing("growing", 1)})
	_, err := g.Reconcile(t.Context(), Call{})
	f := wantFault(t, err, abi.ClassOutOfMemory, "0.1 MiB of them by this plugin, and 0.1 MiB more are needed")
	if !f.Innocent() || !errors.Is(err, ErrHostMemory) {
		t.Errorf("innocent = %v, error = %v", f.Innocent(), err)
	}
	last := s.memory.Share() // now there is no instance of it
	if err := last.Take(1); err != nil {
		t.Fatal(err)
	}
	_, err = g.Reconcile(t.Context(), Call{})
	if _, fault := errors.AsType[*Fault](err); !errors.Is(err, ErrHostMemory) || fault {
		t.Errorf("a call that gets no instance = %v", err)
	}
	others.Give(1 << 20)
	reconcile(t, g, Call{})
}

// allBut takes that much for others, who share the memory from then on.
func allBut(t *testing.T, s *Sandbox, left uint64) *memory.Share {
	t.Helper()
	others := s.memory.Share()
	if err := others.Take(s.Memory().LimitBytes - left); err != nil {
		t.Fatal(err)
	}
	return others
}

// TestIdleInstancesMakeRoom: the one that has been idle longest goes first.
func TestIdleInstancesMakeRoom(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: 4*(handInstance+handImage) - 1})
	guests := make([]*Guest, 3)
	for i, name := range []string{"first", "second", "third"} {
		guests[i] = load(t, s, Plugin{Name: name, Wasm: okay(name), Limits: Limits{Instances: 1}})
	}
	reconcile(t, guests[0], Call{}) // the second is idle longest now
	fourth := load(t, s, Plugin{Name: "fourth", Wasm: okay("fourth"), Limits: Limits{Instances: 1}})
	for i, want := range []int{1, 0, 1} {
		if s := guests[i].Stats(); s.Idle != want {
			t.Errorf("%s has %d idle instances, want %d", guests[i].Name(), s.Idle, want)
		}
	}
	for _, g := range guests {
		reconcile(t, g, Call{})
	}
	reconcile(t, fourth, Call{})
	if m := s.Memory(); m.Refused != 0 {
		t.Errorf("stats = %+v", m)
	}
}

func TestLoadWithoutMemory(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: handInstance - 1})
	_, err := s.Load(t.Context(), Plugin{Name: "correct", Wasm: okay("correct")})
	if e, ok := errors.AsType[*LoadError](err); !ok || e.Step != StepInstantiate || !errors.Is(err, ErrHostMemory) {
		t.Errorf("instance without memory: %v", err)
	}
	s = newSandbox(t, Config{MemoryBytes: handInstance + handImage - 1})
	_, err = s.Load(t.Context(), Plugin{Name: "correct", Wasm: okay("correct")})
	if !errors.Is(err, ErrHostMemory) {
		t.Errorf("image without memory: %v", err)
	}
	if m := s.Memory(); m.UsedBytes != 0 || m.Refused != 2-1 {
		t.Errorf("stats = %+v", m)
	}
}

// TestImagesCount: as long as the guest lives, and one at a time.
func TestImagesCount(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: 1 << 20})
	allBut(t, s, handInstance+handImage)
	others := s.Memory().UsedBytes
	g := load(t, s, Plugin{Name: "imaged", Wasm: okay("imaged")})
	g.Trim(t.Context(), 0)
	if used := s.Memory().UsedBytes - others; used != handImage {
		t.Errorf("%d bytes in use, want the %d of the image", used, handImage)
	}
	larger := &image{memory: memory.ImageOf(bytes.Repeat([]byte{1}, handInstance/2))}
	if err := g.setImage(larger); err != nil {
		t.Fatal(err)
	}
	if used := s.Memory().UsedBytes - others; used != handInstance/2 {
		t.Errorf("%d bytes in use, want the %d of the larger image", used, handInstance/2)
	}
	if err := s.memory.Share().Take(handImage + 1); err != nil {
		t.Fatal(err)
	}
	if err := g.setImage(larger); !errors.Is(err, ErrHostMemory) {
		t.Errorf("an image that has no room: %v", err)
	}
	closeGuest(t, g)
	if used := s.Memory().UsedBytes - others; used != handImage+1 {
		t.Errorf("%d bytes are in use, want none of the guest's", used)
	}
}

// okay is a guest that does nothing.
func okay(name string) []byte {
	h := newHand(name)
	return h.wasm(nil, h.ok())
}

// TestInstancesAheadDropNobody: one that no call waits for is made only where
// there is room.
func TestInstancesAheadDropNobody(t *testing.T) {
	s := newSandbox(t, Config{MemoryBytes: 4 << 20})
	allBut(t, s, 2*(handInstance+handImage))
	neighbour := load(t, s, Plugin{Name: "neighbour", Wasm: okay("neighbour")})
	g := load(t, s, Plugin{Name: "ahead", Wasm: okay("ahead"), Limits: Limits{Instances: 1}})
	g.Trim(t.Context(), 0)
	last := s.memory.Share()
	if err := last.Take(1); err != nil {
		t.Fatal(err)
	}
	g.spare(t.Context())
	if s := g.Stats(); s.Idle != 0 {
		t.Errorf("without room: %d idle instances", s.Idle)
	}
	last.Give(1)
	g.spare(t.Context())
	if s := g.Stats(); s.Idle != 1 {
		t.Errorf("with room: %d idle instances", s.Idle)
	}
	if s := neighbour.Stats(); s.Idle != 1 {
		t.Errorf("the neighbour has %d idle instances, want the one that it had", s.Idle)
	}
}
