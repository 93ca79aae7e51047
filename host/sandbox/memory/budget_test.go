package memory

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestGuestWithMoreThanAnEvenShareLeavesAnEighth(t *testing.T) {
	const limit = 800
	b := NewBudget(limit, noneIdle)
	alone := b.Account()
	if err := alone.Reserve(limit, nil); err != nil {
		t.Errorf("a guest that is alone does not get all: %v", err)
	}
	alone.Release(limit)
	other := b.Account()
	if err := alone.Reserve(701, nil); !errors.Is(err, ErrExhausted) || !ExceedsEvenShare(err) {
		t.Errorf("more than an even share, and less than an eighth left: %v", err)
	}
	if err := alone.Reserve(700, nil); err != nil {
		t.Errorf("more than an even share: %v", err)
	}
	if !other.Fits(100) || other.Fits(101) {
		t.Error("what was left is not the other's")
	}
	if err := other.Reserve(101, nil); !errors.Is(err, ErrExhausted) || ExceedsEvenShare(err) {
		t.Errorf("less than an even share: %v", err)
	}
	if got, want := b.Stats(), (Stats{LimitBytes: limit, UsedBytes: 700, Refused: 2, Accounts: 2}); got != want {
		t.Errorf("stats = %+v, want %+v", got, want)
	}
	alone.Release(700)
	other.Close()
	if err := alone.Reserve(limit, nil); err != nil {
		t.Errorf("alone again: %v", err)
	}
}

func TestBudgetStatesWhetherARequestIsWithinAShare(t *testing.T) {
	var asked []bool
	b := NewBudget(100, func(sharing bool) bool {
		asked = append(asked, sharing)
		return false
	})
	one, other := b.Account(), b.Account()
	if err := one.Reserve(80, nil); err != nil {
		t.Fatal(err)
	}
	_, _, _ = one.Reserve(10, nil), other.Reserve(50, nil), other.Reserve(60, nil)
	if want := []bool{false, true, false}; !slices.Equal(asked, want) {
		t.Errorf("within a share: %v, want %v", asked, want)
	}
}

func TestIdleInstancesAreDroppedForAReservation(t *testing.T) {
	var idle *Account
	dropped := 0
	b := NewBudget(100, func(bool) bool {
		if dropped == 3 {
			return false
		}
		dropped++
		idle.Release(10)
		return true
	})
	idle = b.Account()
	s := b.Account()
	if err := idle.Reserve(50, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Reserve(30, nil); err != nil || dropped != 0 {
		t.Errorf("with room: %v, %d dropped", err, dropped)
	}
	if err := s.Reserve(20, nil); err != nil || dropped != 0 {
		t.Errorf("to the last byte: %v, %d dropped", err, dropped)
	}
	s.Release(10)
	if err := s.Reserve(15, nil); err != nil || dropped != 2 {
		t.Errorf("an uneven share: %v, %d dropped", err, dropped)
	}
	if err := s.Reserve(30, nil); err == nil || dropped != 3 {
		t.Errorf("more than all idle instances have: %v, %d dropped", err, dropped)
	}
}

func TestRefusalStatesUsageAndBudget(t *testing.T) {
	b := NewBudget(8<<20, noneIdle)
	s := b.Account()
	if err := s.Reserve(5<<20, nil); err != nil {
		t.Fatal(err)
	}
	err := s.Reserve(4<<20, nil)
	if want := "5 MiB of 8 MiB are in use, 5 MiB of them by this plugin, and 4 MiB more are needed"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want %q", err, want)
	}
}

func TestMiBRoundsToOneDigit(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 MiB", 64 << 20: "64 MiB", 64 << 10: "0.1 MiB", 3 << 19: "1.5 MiB"} {
		if got := mib(n); got != want {
			t.Errorf("%d bytes are %s, want %s", n, got, want)
		}
	}
}

func TestDefaultLimit(t *testing.T) {
	const machine = "MemTotal:       16777216 kB\nMemFree:        1 kB\n" // 16 GiB
	for _, c := range []struct {
		name  string
		files map[string]string
		want  uint64
	}{
		{"unknown", nil, 1 << 30},
		{"machine", map[string]string{"proc/meminfo": machine}, 8 << 30},
		{"cgroup v2 in a container", map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, 256 << 20},
		{"cgroup v2 without a limit", map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, 8 << 30},
		{"cgroup v2 with a smaller limit of the parent", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1048576\n", "sys/fs/cgroup/a/b/memory.max": "4194304\n",
		}, 512 << 10},
		{"cgroup v1", map[string]string{
			"proc/self/cgroup": "5:cpu:/c\n4:hugetlb,memory:/a/b\n0::/\n",
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes":     "2097152\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":         "9223372036854771712\n",
			"sys/fs/cgroup/memory/c/memory.limit_in_bytes":       "1\n",
			"sys/fs/cgroup/memory/a/b/other/memory.max":          "1\n",
			"sys/fs/cgroup/memory/a/b/c/d/memory.limit_in_bytes": "1\n",
		}, 1 << 20},
		{"cgroup v1 in a container, with the path of the machine", map[string]string{
			"proc/self/cgroup": "4:memory:/docker/0123\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "2097152\n",
		}, 1 << 20},
		{"cgroup v1 without a limit", map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 8 << 30},
		{"malformed files", map[string]string{"proc/meminfo": "MemTotal: much\n", "proc/self/cgroup": "\n0:\n::\n"}, 1 << 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range c.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := DefaultLimit(root); got != c.want {
				t.Errorf("%d bytes, want %d", got, c.want)
			}
		})
	}
	if got := DefaultLimit(os.DirFS("/")); got < 1<<20 {
		t.Errorf("%d bytes on this machine", got)
	}
}
