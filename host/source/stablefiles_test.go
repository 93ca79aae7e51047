package source

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestNewFileIsLeftOutUntilItIsStable(t *testing.T) {
	f := newFixture(t)
	f.write("old.wasm", "1")
	f.expect(f.settle(), "old=1")
	file := f.open("new.wasm")
	for _, part := range []string{"", "part one, ", "part two"} {
		f.append(file, part)
		f.passed += f.d.StableFor - 1
		f.expect(f.scan(), "old=1")
		if want := f.d.system.now().Add(f.d.StableFor); !f.due.Equal(want) {
			f.Errorf("the next scan is due at %s, want %s", f.due, want)
		}
	}
	file.Close()
	f.expect(f.settle(), "new=part one, part two old=1")
}

func TestOverwrittenFileKeepsItsPluginUntilItIsStable(t *testing.T) {
	f := newFixture(t)
	f.write("a.wasm", "1")
	before := f.settle()
	file := f.open("a.wasm") // is empty now
	f.expectSame(f.scan(), before)
	f.append(file, "2, but not all")
	f.expectSame(f.scan(), before)
	f.append(file, " of it")
	file.Close()
	f.expect(f.settle(), "a=2, but not all of it")
}

// TestReplacedFileMustBeStableAnew covers a rename over a file that has not
// been stable for long enough.
func TestReplacedFileMustBeStableAnew(t *testing.T) {
	f := newFixture(t)
	f.write("a.wasm", "1")
	f.expect(f.scan(), "")
	f.passed += f.d.StableFor / 2
	f.expect(f.scan(), "")
	f.write("a.wasm", "2")
	f.passed += f.d.StableFor / 2
	f.expect(f.scan(), "")
	f.passed += f.d.StableFor
	f.expect(f.scan(), "a=2")
}

// TestModuleAndPolicyAreTakenOverTogether covers a policy that is still being
// written: half of it could allow the plugin more.
func TestModuleAndPolicyAreTakenOverTogether(t *testing.T) {
	f := newFixture(t)
	f.write("a.wasm", "1")
	f.write("a.yaml", "dryRun: true")
	f.settle()
	policyA := f.open("a.yaml")
	f.write("a.wasm", "2")
	f.write("b.wasm", "1")
	policyB := f.open("b.yaml")
	f.scan()
	for range 3 {
		f.append(policyA, "#")
		f.append(policyB, "#")
		f.passed += f.d.StableFor / 2
		snapshot := f.scan()
		if len(snapshot) != 1 || snapshot[0].Digest != digestOf([]byte("1")) || string(snapshot[0].Policy) != "dryRun: true" {
			t.Fatalf("while its policy is being written the plugin is %+v", snapshot)
		}
	}
	f.expect(f.settle(), "a=2 b=1")
	if got := string(f.scan()[0].Policy); got != "###" {
		t.Errorf("the policy is %q", got)
	}
}

// TestEmptyPolicyIsAnError covers a redirection such as `helm template >
// a.yaml`, which empties the file seconds before it writes to it.
func TestEmptyPolicyIsAnError(t *testing.T) {
	f := newFixture(t)
	f.write("a.wasm", "1")
	file := f.open("a.yaml")
	for _, blank := range []string{"", " \n"} {
		f.append(file, blank)
		if p := f.settle()[0]; p.Policy != nil || !strings.Contains(errorText(p.Err), "a.yaml: is empty") {
			t.Errorf("with a policy of %q the plugin is %+v", blank, p)
		}
	}
	f.append(file, "dryRun: true")
	file.Close()
	if p := f.settle()[0]; p.Err != nil || string(p.Policy) != " \ndryRun: true" {
		t.Errorf("with a policy the plugin is %+v", p)
	}
}

// TestCopyThatPausesIsReadTwice states the limit of the rule: a writer that
// pauses for longer than StableFor is not noticed.
func TestCopyThatPausesIsReadTwice(t *testing.T) {
	f := newFixture(t)
	file := f.open("a.wasm")
	f.append(file, "half")
	f.expect(f.settle(), "a=half")
	f.append(file, " and half")
	file.Close()
	f.expect(f.settle(), "a=half and half")
}

func TestFilesThatKeepChangingAreLoggedOnce(t *testing.T) {
	f := newFixture(t)
	for range 2 {
		file := f.open("a.wasm")
		for range 300 {
			f.append(file, ".")
			f.passed += 50 * time.Millisecond
			f.scan()
		}
		f.logs.ExpectNext(t, hclog.Warn, "module", f.path("a.wasm"))
		f.logs.ExpectNone(t)
		file.Close()
		f.settle()
	}
}

// TestClockBehindTheTimestampsDoesNotMatter covers files that another machine
// has stamped.
func TestClockBehindTheTimestampsDoesNotMatter(t *testing.T) {
	f := newFixture(t)
	f.passed = -24 * time.Hour
	f.write("a.wasm", "1")
	f.expect(f.settle(), "a=1")
	f.write("a.wasm", "2")
	f.expect(f.settle(), "a=2")
}

// TestChangeWithTheSameTimestampIsFound covers a change after which size,
// times and inode are those of before. It is found by one more read.
func TestChangeWithTheSameTimestampIsFound(t *testing.T) {
	f := newFixture(t)
	f.write("a.wasm", "1")
	f.settle()
	if err := os.WriteFile(f.path("a.wasm"), []byte("2"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := f.d.plugins["a"]
	p.latest.module = statFile(f.path("a.wasm")) // as if the file system's clock stood still
	p.read = p.latest
	f.passed += coarsestTimestamp / 2
	if got := f.scan(); got[0].Digest != digestOf([]byte("1")) {
		t.Error("the file was read again while it could still get the same timestamp")
	}
	f.passed += coarsestTimestamp
	f.expect(f.scan(), "a=2")
}

func TestStableFilesAreReadOnceMoreAndThenLeftAlone(t *testing.T) {
	f := newFixture(t)
	opened := map[string]int{}
	f.d.system.open = func(path string) (*os.File, error) {
		opened[path]++
		return openFile(path)
	}
	f.write("a.wasm", "1")
	f.write("a.yaml", "dryRun: true")
	f.write("b.wasm", "1")
	f.settle()
	for range 3 {
		f.passed += coarsestTimestamp
		f.scan()
	}
	for _, name := range []string{"a.wasm", "a.yaml", "b.wasm"} {
		if n := opened[f.path(name)]; n != 2 {
			t.Errorf("%s was read %d times", name, n)
		}
	}
	f.write("a.wasm", "2")
	f.settle()
	if n := opened[f.path("b.wasm")]; n != 2 {
		t.Errorf("b.wasm was read %d times, want no more for a change of a.wasm", n)
	}
}

// TestShortAbsenceKeepsThePlugin covers tools that remove a file and create it
// again.
func TestShortAbsenceKeepsThePlugin(t *testing.T) {
	f := newFixture(t)
	f.write("a.wasm", "1")
	f.write("a.yaml", "x")
	before := f.settle()
	f.remove("a.wasm")
	f.remove("a.yaml")
	f.expectSame(f.scan(), before)
	f.passed += f.d.StableFor / 2
	f.expectSame(f.scan(), before)
	file := f.open("a.wasm")
	f.append(file, "2")
	f.write("a.yaml", "y")
	f.expectSame(f.scan(), before)
	file.Close()
	if after := f.settle(); describe(after) != "a=2" || string(after[0].Policy) != "y" {
		t.Errorf("when the files are back the snapshot is %v", after)
	}
	f.remove("a.yaml")
	if after := f.settle(); after[0].Policy != nil {
		t.Errorf("without a policy the snapshot is %v", after)
	}
	f.remove("a.wasm")
	f.expect(f.settle(), "")
	if len(f.d.plugins) != 0 {
		t.Error("a plugin that is gone is still followed")
	}
}

func TestRenamedPluginIsAnotherPlugin(t *testing.T) {
	f := newFixture(t)
	f.write("a.wasm", "1")
	f.settle()
	if err := os.Rename(f.path("a.wasm"), f.path("b.wasm")); err != nil {
		t.Fatal(err)
	}
	f.expect(f.settle(), "b=1")
}

// TestLinkThatDanglesForAMomentKeepsThePlugin covers tools that replace the
// target of a link.
func TestLinkThatDanglesForAMomentKeepsThePlugin(t *testing.T) {
	f := newFixture(t)
	f.write("target", "1")
	link(t, "target", f.path("a.wasm"))
	before := f.settle()
	f.remove("target")
	f.expectSame(f.scan(), before)
	f.write("target", "2")
	f.expect(f.settle(), "a=2")
	f.remove("target")
	if after := f.settle(); len(after) != 1 || after[0].Err == nil {
		t.Errorf("when the link dangles for long the snapshot is %v", after)
	}
}

// TestFileThatChangesWhileItIsReadIsReadLater changes a file that was stable,
// before and after it is opened.
func TestFileThatChangesWhileItIsReadIsReadLater(t *testing.T) {
	for name, replaceThenOpen := range map[string]bool{"after the scan's stat": true, "after the file was opened": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.write("a.wasm", "1")
			f.scan()
			f.passed += f.d.StableFor
			f.d.system.open = func(path string) (*os.File, error) {
				f.d.system.open = openFile
				if replaceThenOpen {
					f.write("a.wasm", "two")
					return openFile(path)
				}
				file, err := openFile(path)
				if err := os.WriteFile(path, []byte("two"), 0o644); err != nil {
					t.Error(err)
				}
				return file, err
			}
			f.expect(f.scan(), "")
			f.expect(f.settle(), "a=two")
		})
	}
}

func TestTouchedFileIsReadByItsDigest(t *testing.T) {
	f := newFixture(t)
	f.write("a.wasm", "1")
	snapshot := f.settle()
	f.d.system.open = func(path string) (*os.File, error) {
		if err := os.Chtimes(path, time.Time{}, f.start.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		return openFile(path)
	}
	if wasm, err := snapshot[0].Read(); string(wasm) != "1" {
		t.Errorf("read %q, %v", wasm, err)
	}
}
