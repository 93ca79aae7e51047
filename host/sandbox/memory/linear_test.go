package memory

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// linear returns a memory of a guest that has a budget of its own.
func linear(t testing.TB, size, limit uint64) *Linear {
	t.Helper()
	b := NewBudget(limit, noneIdle)
	m, err := b.Account().Linear(size, limit, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Free()
		b.Close()
	})
	return m
}

// noneIdle drops no instance.
func noneIdle(bool) bool { return false }

func TestLinearGrowsToItsLimit(t *testing.T) {
	m := linear(t, 64<<10, 1<<20)
	m.data[5] = 7
	if grown := m.Reallocate(1 << 20); len(grown) != 1<<20 || grown[5] != 7 || m.Size() != 1<<20 {
		t.Errorf("grown to %d bytes: %v", m.Size(), m.Refused())
	}
	if m.Reallocate(1<<20+1) != nil || m.Refused() == nil || errors.Is(m.Refused(), ErrExhausted) {
		t.Errorf("beyond the limit: %v", m.Refused())
	}
	if m.BeginCall(nil); m.Refused() != nil || m.Size() != 1<<20 {
		t.Errorf("a new call begins with %d bytes and %v", m.Size(), m.Refused())
	}
}

func TestRestoreBringsBackTheImage(t *testing.T) {
	const size = 512 << 10
	m := linear(t, size, size)
	rapid.Check(t, func(t *rapid.T) {
		clear(m.data)
		scribble(t, m.data)
		want := bytes.Clone(m.data)
		im := m.Image()
		scribble(t, m.data)
		rapid.SampledFrom([]func(*Image){m.Restore, m.RestoreNew, m.RestoreAndTrim}).Draw(t, "restore")(im)
		if !bytes.Equal(m.data, want) {
			t.Error("memory is not restored")
		}
		end, held := uint64(0), uint64(0)
		for _, p := range im.pieces {
			if p.at < end || isZero(p.data[len(p.data)-1:]) && isZero(p.data[len(p.data)-chunk:]) {
				t.Errorf("a piece of %d bytes at %d overlaps another, or ends with zeros", len(p.data), p.at)
			}
			end, held = p.end(), held+uint64(len(p.data))
		}
		if im.Size() != size || im.Bytes() != held {
			t.Errorf("the image is of %d bytes and takes %d", im.Size(), im.Bytes())
		}
	})
}

// TestRestoreShrinksAGrownMemory: the engine gets the image's size, pages that are
// used again are zero, and no page is the guest's without being counted.
func TestRestoreShrinksAGrownMemory(t *testing.T) {
	const size, limit = 256 << 10, 4 << 20
	b := NewBudget(limit, noneIdle)
	m, err := b.Account().Linear(size, limit, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	im := m.Image()
	largest := uint64(size)
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(0, 3).Draw(t, "growths") {
			to := rapid.Uint64Range(m.Size()>>16, limit>>16).Draw(t, "pages") << 16
			have := len(m.data)
			if grown := m.Reallocate(to); uint64(len(grown)) != to || !allZero(grown[have:]) {
				t.Fatalf("%d bytes, want %d, the new ones zero", len(grown), to)
			}
			largest = max(largest, to)
			scribble(t, m.data)
		}
		trims := rapid.Bool().Draw(t, "trims")
		if trims {
			m.RestoreAndTrim(im)
			largest = size
		} else {
			m.RestoreNew(im)
		}
		if m.Shrunk() && len(m.Reallocate(m.Size()+1)) != size || m.Shrunk() || m.Size() != size || !allZero(m.data) {
			t.Errorf("the memory has %d bytes, want %d of the image", m.Size(), size)
		}
		if used := b.Stats().UsedBytes; used != largest || m.Held() != used {
			t.Errorf("%d bytes are in use, %d held, want %d", used, m.Held(), largest)
		}
	})
	m.Free()
	if used := b.Stats().UsedBytes; used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

func allZero(p []byte) bool {
	for at := 0; at < len(p); at += chunk {
		if !isZero(chunkAt(p, at)) {
			return false
		}
	}
	return true
}

// TestStackCountsAsMemory until it is smaller or the memory is freed; one that does not
// fit changes nothing.
func TestStackCountsAsMemory(t *testing.T) {
	b := NewBudget(4<<20, noneIdle)
	m, err := b.Account().Linear(1<<20, 1<<20, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ stack, used uint64 }{{100, 1<<20 + 100}, {2 << 20, 3 << 20}, {64 << 20, 3 << 20}, {7, 1<<20 + 7}, {1000, 1<<20 + 1000}} {
		if err := m.HoldStack(c.stack); errors.Is(err, ErrExhausted) != (c.stack > 4<<20) {
			t.Errorf("a stack of %d bytes: %v", c.stack, err)
		}
		if used := b.Stats().UsedBytes; used != c.used || m.Held() != used {
			t.Errorf("with a stack of %d bytes %d are in use, %d held, want %d", c.stack, used, m.Held(), c.used)
		}
	}
	m.Free()
	if used := b.Stats().UsedBytes; used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// TestFreedSpaceIsUsedAgain until the budget is closed.
func TestFreedSpaceIsUsedAgain(t *testing.T) {
	b := NewBudget(1<<30, noneIdle)
	s := b.Account()
	for range 3 {
		m, err := s.Linear(1<<20, 64<<20, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if used := b.Stats().UsedBytes; used != 1<<20 {
			t.Errorf("%d bytes are in use", used)
		}
		m.Free()
		m.Free() // the engine and the instance may both do it
	}
	if n := len(b.spaces.unused); n != 1 || b.Stats().UsedBytes != 0 {
		t.Errorf("%d unused spaces, %d bytes are in use", n, b.Stats().UsedBytes)
	}
	b.Close()
	if n := len(b.spaces.unused); n != 0 {
		t.Errorf("%d unused spaces after Close", n)
	}
}
