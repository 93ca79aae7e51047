package supervise

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long to wait for something that takes a moment on an idle
// machine.
const patience = 2 * time.Minute

// TestMain is also the executable that the tests start again: "component
// NAME" is one of these.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "component" {
		runTestComponent(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

func runTestComponent(name string) {
	self, err := Attach()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch name {
	case "serve":
		self.Ready()
		select {}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		self.Ready()
		select {}
	case "fail":
		for i := range 100 {
			fmt.Fprintln(os.Stderr, "line", i)
		}
		os.Exit(3)
	case "silent":
	case "read":
		line, _ := bufio.NewReader(self.File(0)).ReadString('\n')
		fmt.Print(line)
	}
}

func TestStopEndsTheComponent(t *testing.T) {
	p := started(t, spec(t, "serve"))
	expectClosed(t, "ready", p.Ready())
	p.Stop(patience)
	expectClosed(t, "done", p.Done())
	expectSaid(t, p.Err(), "serve ended: signal: terminated")
	p.Stop(patience) // has no effect
}

func TestStopKillsAComponentThatIgnoresSIGTERM(t *testing.T) {
	p := started(t, spec(t, "stubborn"))
	expectClosed(t, "ready", p.Ready())
	p.Stop(50 * time.Millisecond)
	expectSaid(t, p.Err(), "stubborn ended: signal: killed")
}

// On Linux the kernel kills a component first; this tests the other way.
func TestComponentEndsWhenItsLifelineIsClosed(t *testing.T) {
	p := started(t, spec(t, "stubborn"))
	expectClosed(t, "ready", p.Ready())
	_ = p.lifeline.Close()
	expectClosed(t, "done", p.Done())
	expectSaid(t, p.Err(), "stubborn ended: exit status 1")
}

func TestErrShowsTheLastLinesOfTheLog(t *testing.T) {
	s := spec(t, "fail")
	p := started(t, s)
	expectClosed(t, "done", p.Done())
	expectSaid(t, p.Err(), "fail ended: exit status 3", s.Log, "\n    line 90\n", "\n    line 99")
	if strings.Contains(p.Err().Error(), "line 89") {
		t.Errorf("shows more than the last lines: %v", p.Err())
	}
	select {
	case <-p.Ready():
		t.Error("ready")
	default:
	}
}

func TestErrMentionsAnEmptyLog(t *testing.T) {
	p := started(t, spec(t, "silent"))
	expectClosed(t, "done", p.Done())
	expectSaid(t, p.Err(), "silent ended: exit status 0", "is empty")
}

func TestComponentReadsAnInheritedFile(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := spec(t, "read")
	s.Files = []*os.File{r}
	p := started(t, s)
	fmt.Fprintln(w, "hello")
	expectClosed(t, "done", p.Done())
	expectSaid(t, p.Err(), "hello")
	_, _ = r.Close(), w.Close()
}

func TestLogOfThePreviousRunIsKept(t *testing.T) {
	s := spec(t, "silent")
	if err := os.WriteFile(s.Log, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := started(t, s)
	expectClosed(t, "done", p.Done())
	expectSaid(t, p.Err(), "is empty")
	if old, err := os.ReadFile(s.Log + ".1"); string(old) != "old\n" {
		t.Errorf("log of the previous run is %q, %v", old, err)
	}
}

func TestStartFailsWithoutADirectoryForTheLog(t *testing.T) {
	s := spec(t, "serve")
	s.Log = filepath.Join(s.Dir, "missing", "log")
	_, err := Start(s)
	expectSaid(t, err, "start serve: ", s.Log)
}

func TestOnlyPipesAreTakenForThoseOfAParent(t *testing.T) {
	if isPipe(os.NewFile(9999, "none")) {
		t.Error("a closed descriptor is a pipe")
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if isPipe(f) {
		t.Error("a file is a pipe")
	}
}

func spec(t *testing.T, component string) Spec {
	dir := t.TempDir()
	return Spec{Name: component, Args: []string{"component", component}, Dir: dir, Log: filepath.Join(dir, "log")}
}

// started keeps the test on its thread: when the test ends, the thread ends, and
// with it the component.
func started(t *testing.T, s Spec) *Process {
	t.Helper()
	runtime.LockOSThread()
	p, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0) })
	return p
}

func expectClosed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("not %s within %s", what, patience)
	}
}

func expectSaid(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want it to contain %q", err, part)
		}
	}
}
