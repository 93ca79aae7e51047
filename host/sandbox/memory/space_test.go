package memory

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// reserved returns a new space.
func reserved(t testing.TB, size, committed uint64) *addressSpace {
	t.Helper()
	a, err := reserve(size)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.commit(committed); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if a.size > 0 {
			a.release()
		}
	})
	return a
}

// scribble writes to some parts of a memory.
func scribble(t *rapid.T, memory []byte) {
	for range rapid.IntRange(0, 8).Draw(t, "writes") {
		at := rapid.IntRange(0, len(memory)-1).Draw(t, "at")
		length := rapid.SampledFrom([]int{1, 7, 4096, 30_000, 300_000}).Draw(t, "length")
		for i := range memory[at:min(at+length, len(memory))] {
			memory[at+i] = byte(i%255) + 1
		}
	}
}

func TestZeroClearsExactlyItsRange(t *testing.T) {
	const size = 1 << 20
	a := reserved(t, 2*size, size)
	rapid.Check(t, func(t *rapid.T) {
		scribble(t, a.bytes[:size])
		from := uint64(rapid.IntRange(0, size).Draw(t, "from"))
		to := uint64(rapid.IntRange(int(from), size).Draw(t, "to"))
		keep := rapid.SampledFrom([]uint64{0, 1, 4096, 100_000, 1 << 40}).Draw(t, "keep")
		want := bytes.Clone(a.bytes[:size])
		clear(want[from:to])
		if kept := a.zero(from, to, keep); kept > keep {
			t.Errorf("kept %d of %d bytes", kept, keep)
		}
		if !bytes.Equal(a.bytes[:size], want) {
			t.Errorf("zero of %d to %d cleared too little or too much", from, to)
		}
	})
}

func TestUnusedSpacesAreZero(t *testing.T) {
	var s spaces
	defer s.close()
	for range 3 {
		a, err := s.get(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		if a.size != minSpace {
			t.Errorf("a space of %d bytes", a.size)
		}
		if err := a.commit(1 << 20); err != nil {
			t.Fatal(err)
		}
		for at := range a.bytes[:1<<20] {
			if a.bytes[at] != 0 {
				t.Fatalf("byte %d is not zero", at)
			}
			a.bytes[at] = 1
		}
		s.put(a)
	}
	if len(s.unused) != 1 {
		t.Errorf("%d unused spaces, want one that was used again", len(s.unused))
	}
	if a, err := s.get(minSpace + 1); err != nil || a.size != 2*minSpace || len(s.unused) != 1 {
		t.Errorf("a space of another size is %d bytes: %v", a.size, err)
	} else {
		a.release()
	}
}

func TestUnusedSpacesAreBounded(t *testing.T) {
	var s spaces
	var all []*addressSpace
	for range maxUnused + 3 {
		a, err := s.get(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	for _, a := range all[1:] {
		s.put(a)
	}
	if len(s.unused) != maxUnused || s.unused[0] != all[3] {
		t.Errorf("%d unused spaces, want the last %d", len(s.unused), maxUnused)
	}
	s.close()
	s.put(all[0])
	for i, a := range all {
		if a.size != 0 {
			t.Errorf("space %d is not released", i)
		}
	}
}
