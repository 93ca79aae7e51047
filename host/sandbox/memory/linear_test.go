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
	m, err := b.Account().Linear(size, limit)
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
func noneIdle() bool { return false }

func TestLinearGrowsToItsLimit(t *testing.T) {
	m := linear(t, 64<<10, 1<<20)
	m.data[5] = 7
	if grown := m.Reallocate(1 << 20); len(grown) != 1<<20 || grown[5] != 7 || m.Size() != 1<<20 {
		t.Errorf("grown to %d bytes: %v", m.Size(), m.Refused())
	}
	if m.Reallocate(1<<20+1) != nil || m.Refused() == nil || errors.Is(m.Refused(), ErrExhausted) {
		t.Errorf("beyond the limit: %v", m.Refused())
	}
	if m.BeginCall(); m.Refused() != nil || m.Size() != 1<<20 {
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

// TestFreedSpaceIsUsedAgain until the budget is closed.
func TestFreedSpaceIsUsedAgain(t *testing.T) {
	b := NewBudget(1<<30, noneIdle)
	s := b.Account()
	for range 3 {
		m, err := s.Linear(1<<20, 64<<20)
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
