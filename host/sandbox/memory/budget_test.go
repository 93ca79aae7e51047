package memory

import (
	"errors"
	"strings"
	"testing"
)

func TestAGreedyGuestLeavesAnEighth(t *testing.T) {
	const limit = 800
	b := NewBudget(limit, nobodyIdle)
	alone := b.Share()
	if err := alone.Take(limit); err != nil {
		t.Errorf("who is alone gets all: %v", err)
	}
	alone.Give(limit)
	other := b.Share()
	if err := alone.Take(701); !errors.Is(err, ErrExhausted) || !Greedy(err) {
		t.Errorf("more than an even share, and less than an eighth left: %v", err)
	}
	if err := alone.Take(700); err != nil {
		t.Errorf("more than an even share: %v", err)
	}
	if !other.Spare(100) || other.Spare(101) {
		t.Error("what was left is not the other's")
	}
	if err := other.Take(101); !errors.Is(err, ErrExhausted) || Greedy(err) {
		t.Errorf("less than an even share: %v", err)
	}
	if got, want := b.Stats(), (Stats{LimitBytes: limit, UsedBytes: 700, Refused: 2, Shares: 2}); got != want {
		t.Errorf("stats = %+v, want %+v", got, want)
	}
	alone.Give(700)
	other.Close()
	if err := alone.Take(limit); err != nil {
		t.Errorf("alone again: %v", err)
	}
}

func TestIdleInstancesAreDroppedForWhatIsTaken(t *testing.T) {
	var idle *Share
	dropped := 0
	b := NewBudget(100, func() bool {
		if dropped == 3 {
			return false
		}
		dropped++
		idle.Give(10)
		return true
	})
	idle = b.Share()
	s := b.Share()
	if err := idle.Take(50); err != nil {
		t.Fatal(err)
	}
	if err := s.Take(30); err != nil || dropped != 0 {
		t.Errorf("with room: %v, %d dropped", err, dropped)
	}
	if err := s.Take(20); err != nil || dropped != 0 {
		t.Errorf("to the last byte: %v, %d dropped", err, dropped)
	}
	s.Give(10)
	if err := s.Take(15); err != nil || dropped != 2 {
		t.Errorf("an uneven share: %v, %d dropped", err, dropped)
	}
	if err := s.Take(30); err == nil || dropped != 3 {
		t.Errorf("more than all that are idle have: %v, %d dropped", err, dropped)
	}
}

func TestShortageTellsWhoHasWhat(t *testing.T) {
	b := NewBudget(8<<20, nobodyIdle)
	s := b.Share()
	if err := s.Take(5 << 20); err != nil {
		t.Fatal(err)
	}
	err := s.Take(4 << 20)
	if want := "5 MiB of 8 MiB are in use, 5 MiB of them by this plugin, and 4 MiB more are needed"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want %q", err, want)
	}
}

func TestMemoryForPeople(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 MiB", 64 << 20: "64 MiB", 64 << 10: "0.1 MiB", 3 << 19: "1.5 MiB"} {
		if got := mib(n); got != want {
			t.Errorf("%d bytes are %s, want %s", n, got, want)
		}
	}
}
