package source

import (
	"os"
	"strings"
	"testing"
	"time"
)

// everySystem runs a test on this machine's file system, and on one that does
// not tell who has a file open for writing.
func everySystem(t *testing.T, test func(s *scene)) {
	t.Helper()
	t.Run("this one", func(t *testing.T) { test(newScene(t)) })
	t.Run("without leases", func(t *testing.T) { test(newScene(t).withoutLeases(false)) })
}

func TestANewFileIsLeftOutUntilItIsWhole(t *testing.T) {
	everySystem(t, func(s *scene) {
		s.write("old.wasm", "1")
		s.expect(s.settle(), "old=1")
		f := s.open("new.wasm")
		for _, part := range []string{"", "part one, ", "part two"} {
			s.put(f, part)
			s.expect(s.scan(), "old=1")
			if s.due.IsZero() {
				s.Error("nobody looks again")
			}
		}
		f.Close()
		s.expect(s.settle(), "new=part one, part two old=1")
	})
}

func TestAFileThatIsOverwrittenStaysAsItWas(t *testing.T) {
	everySystem(t, func(s *scene) {
		s.write("a.wasm", "1")
		before := s.settle()
		f := s.open("a.wasm") // empty from here on
		if after := s.scan(); !before.same(after) {
			t.Errorf("while it is empty: %v", after)
		}
		s.put(f, "2, but not all")
		if after := s.scan(); !before.same(after) {
			t.Errorf("half-way: %v", after)
		}
		s.put(f, " of it")
		f.Close()
		s.expect(s.settle(), "a=2, but not all of it")
	})
}

// TestAPolicyThatIsWrittenKeepsItsPlugin as it was: under half of a policy it
// might be allowed more.
func TestAPolicyThatIsWrittenKeepsItsPlugin(t *testing.T) {
	everySystem(t, func(s *scene) {
		s.write("a.wasm", "1")
		s.write("a.yaml", "dryRun: true")
		s.settle()
		f := s.open("a.yaml")
		s.write("a.wasm", "2")
		s.write("b.wasm", "1")
		fb := s.open("b.yaml")
		s.scan()
		s.passed += 20 * time.Millisecond
		snapshot := s.scan()
		if len(snapshot) != 1 || snapshot[0].Digest != digest([]byte("1")) || string(snapshot[0].Policy) != "dryRun: true" {
			t.Errorf("while its policy is written: %+v", snapshot)
		}
		f.Close()
		fb.Close()
		s.expect(s.settle(), "a=2 b=1")
		if p := s.scan()[0].Policy; p == nil || len(p) != 0 {
			t.Errorf("the policy is %q", p)
		}
	})
}

// TestACopyThatStallsIsNotRead however long it does, on a system that tells
// who writes.
func TestACopyThatStallsIsNotRead(t *testing.T) {
	s := newScene(t)
	needLeases(s)
	s.write("a.wasm", "1")
	s.settle()
	f := s.open("a.wasm")
	s.put(f, "2, ")
	for _, wait := range []time.Duration{0, time.Second, time.Hour, 24 * time.Hour} {
		s.passed += wait
		if got := s.scan(); len(got) != 1 || got[0].Digest != digest([]byte("1")) {
			t.Errorf("after %s: %v", wait, got)
		}
	}
	s.put(f, "whole")
	f.Close()
	s.expect(s.scan(), "a=2, whole")
}

// needLeases skips a test where the temporary directory is on a file system
// without them.
func needLeases(s *scene) {
	s.Helper()
	s.write("probe", "")
	f, err := os.Open(s.path("probe"))
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	c := s.d.system.claim(f)
	if c.release(); c.answer != held {
		s.Skip("the file system of the temporary directory has no leases")
	}
}

// TestAFileThatStaysOpenIsToldOnce, and once more if it is so again.
func TestAFileThatStaysOpenIsToldOnce(t *testing.T) {
	s := newScene(t)
	needLeases(s)
	for range 2 {
		f := s.open("a.wasm")
		s.put(f, "1")
		for range 12 {
			s.scan()
			s.passed += 2 * time.Second
		}
		if n := len(s.logs); n != 1 {
			t.Fatalf("told %d times", n)
		}
		if line := <-s.logs; !strings.Contains(line, s.path("a.wasm")) || !strings.Contains(line, "rename it to this name") || !strings.Contains(line, "open for writing") {
			t.Errorf("told %s", line)
		}
		f.Close()
		s.expect(s.settle(), "a=1")
	}
}

func TestAFileThatKeepsChangingIsTold(t *testing.T) {
	s := newScene(t).withoutLeases(false)
	f := s.open("a.wasm")
	for range 300 {
		s.put(f, ".")
		s.passed += 50 * time.Millisecond
		s.expect(s.scan(), "")
	}
	if n := len(s.logs); n != 1 {
		t.Fatalf("told %d times", n)
	}
	if line := <-s.logs; !strings.Contains(line, "it keeps changing") {
		t.Errorf("told %s", line)
	}
}

// TestUnsettledFilesAreLookedAtLessAndLess: the first look follows at once,
// later ones each second.
func TestUnsettledFilesAreLookedAtLessAndLess(t *testing.T) {
	s := newScene(t)
	needLeases(s)
	s.open("a.wasm")
	s.scan()
	scans, start := 0, s.passed
	for s.passed-start < 20*time.Second {
		wait := s.due.Sub(s.d.system.now())
		if wait > patience {
			t.Fatalf("after %s the next look is %s later", s.passed-start, wait)
		}
		s.passed += max(wait, 0)
		s.scan()
		scans++
	}
	if scans < 20 || scans > 40 {
		t.Errorf("%d scans in 20 s", scans)
	}
}

// TestWithoutLeasesAFileMustStayTheSame for the settle time.
func TestWithoutLeasesAFileMustStayTheSame(t *testing.T) {
	s := newScene(t).withoutLeases(false)
	s.write("a.wasm", "1")
	s.expect(s.scan(), "")
	s.passed += s.d.Settle / 2
	s.expect(s.scan(), "")
	s.write("a.wasm", "2")
	s.passed += s.d.Settle / 2
	s.expect(s.scan(), "") // another file now
	s.passed += s.d.Settle
	s.expect(s.scan(), "a=2")
}

// TestOldFilesAreReadAtOnce where their stamps are of this machine's clock:
// a start is not delayed. Fresh ones may have a writer yet.
func TestOldFilesAreReadAtOnce(t *testing.T) {
	s := newScene(t).withoutLeases(true)
	s.d.Settle = time.Hour // so that no file is old by itself
	s.write("a.wasm", "1")
	s.expect(s.scan(), "")
	s.d = s.directory()
	s.withoutLeases(true)
	s.d.Settle = time.Hour
	s.passed = 61 * time.Minute
	s.expect(s.scan(), "a=1")
}

// TestFilesOfTheFutureAreRead: a stamp may be of another clock.
func TestFilesOfTheFutureAreRead(t *testing.T) {
	everySystem(t, func(s *scene) {
		s.passed = -24 * time.Hour
		s.write("a.wasm", "1")
		s.expect(s.settle(), "a=1")
		s.write("a.wasm", "2")
		s.expect(s.settle(), "a=2")
	})
}

// TestAChangeInTheSameTickIsSeen: size, date and inode are those of before.
func TestAChangeInTheSameTickIsSeen(t *testing.T) {
	s := newScene(t)
	s.write("a.wasm", "1")
	s.settle()
	e := s.d.entries["a"]
	if err := os.WriteFile(s.path("a.wasm"), []byte("2"), 0o644); err != nil {
		t.Fatal(err)
	}
	e.module.look = lookAt(s.path("a.wasm")) // as if the clock had not moved
	e.module.latest = e.module.look
	s.expect(s.settle(), "a=2")
}

// TestAShortAbsenceIsNone: tools remove a file and write it anew.
func TestAShortAbsenceIsNone(t *testing.T) {
	everySystem(t, func(s *scene) {
		s.write("a.wasm", "1")
		s.write("a.yaml", "x")
		before := s.settle()
		s.remove("a.wasm")
		s.remove("a.yaml")
		if after := s.scan(); !before.same(after) {
			t.Errorf("when it is gone: %v", after)
		}
		s.passed += s.d.Settle / 2
		if after := s.scan(); !before.same(after) {
			t.Errorf("soon after: %v", after)
		}
		f := s.open("a.wasm")
		s.put(f, "2")
		s.write("a.yaml", "y")
		if after := s.scan(); !before.same(after) {
			t.Errorf("while it is written anew: %v", after)
		}
		f.Close()
		if after := s.settle(); describe(after) != "a=2" || string(after[0].Policy) != "y" {
			t.Errorf("when it is back: %v", after)
		}
		s.remove("a.yaml")
		if after := s.settle(); after[0].Policy != nil {
			t.Errorf("without a policy: %v", after)
		}
		s.remove("a.wasm")
		s.expect(s.settle(), "")
		if len(s.d.entries) != 0 {
			t.Error("what is gone is still known")
		}
	})
}

func TestAPluginThatIsRenamedIsAnotherOne(t *testing.T) {
	everySystem(t, func(s *scene) {
		s.write("a.wasm", "1")
		s.settle()
		if err := os.Rename(s.path("a.wasm"), s.path("b.wasm")); err != nil {
			t.Fatal(err)
		}
		s.expect(s.settle(), "b=1")
	})
}

// TestALinkThatDanglesForAMomentChangesNothing: links dangle for a moment while
// what they lead to is replaced.
func TestALinkThatDanglesForAMomentChangesNothing(t *testing.T) {
	everySystem(t, func(s *scene) {
		s.write("target", "1")
		link(t, "target", s.path("a.wasm"))
		before := s.settle()
		s.remove("target")
		if after := s.scan(); !before.same(after) {
			t.Errorf("while it dangles: %v", after)
		}
		s.write("target", "2")
		s.expect(s.settle(), "a=2")
		s.remove("target")
		if after := s.settle(); len(after) != 1 || after[0].Err == nil {
			t.Errorf("when it dangles for long: %v", after)
		}
	})
}

// TestAFileThatIsReplacedBeforeItIsReadIsReadLater: one that is replaced between the look
// and the read is read another time.
func TestAFileThatIsReplacedBeforeItIsReadIsReadLater(t *testing.T) {
	s := newScene(t)
	s.write("a.wasm", "1")
	claimed := s.d.system.claim
	s.d.system.claim = func(f *os.File) claim {
		s.d.system.claim = claimed
		if err := os.WriteFile(s.path("a.wasm"), []byte("two"), 0o644); err != nil {
			t.Error(err)
		}
		return unclaimed(held, true)
	}
	s.expect(s.scan(), "")
	s.expect(s.settle(), "a=two")
}

// TestAFileThatChangesWhileItIsReadIsReadLater where no lease keeps writers
// out: they were quiet for longer than the settle time.
func TestAFileThatChangesWhileItIsReadIsReadLater(t *testing.T) {
	s := newScene(t)
	s.write("a.wasm", "1")
	s.withoutLeases(false).scan()
	s.passed += s.d.Settle
	s.d.system.claim = func(*os.File) claim {
		s.withoutLeases(false)
		return claim{answer: unknown, release: func() bool { // follows the read
			if err := os.WriteFile(s.path("a.wasm"), []byte("two"), 0o600); err != nil {
				t.Error(err)
			}
			return true
		}}
	}
	s.expect(s.scan(), "")
	s.expect(s.settle(), "a=two")
}

// TestALeaseThatTookTooLongIsNone: the kernel has let a writer in.
func TestALeaseThatTookTooLongIsNone(t *testing.T) {
	s := newScene(t)
	s.write("a.wasm", "1")
	claimed := s.d.system.claim
	s.d.system.claim = func(*os.File) claim {
		s.d.system.claim = claimed
		return claim{answer: held, local: true, release: func() bool { return false }}
	}
	s.expect(s.scan(), "")
	s.expect(s.settle(), "a=1")
}
