//go:build linux

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestOnceTellsTheStory(t *testing.T) {
	t.Parallel()
	r := startDemo(t, "--once")
	told := mask(r.ends(0))
	r.leavesNothing()
	if r.stderr.Len() > 0 {
		t.Errorf("on standard error: %s", r.stderr.String())
	}

	golden := filepath.Join("testdata", "once.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(told), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	frame, story := split(told)
	wantFrame, known := split(string(text))
	if !slices.Equal(frame, wantFrame) {
		t.Errorf("around the story:\n%s\nwant:\n%s", strings.Join(frame, "\n"), strings.Join(wantFrame, "\n"))
	}
	// Sources are apart: their order is not certain, nor whether the last of it
	// is still told. One Pod may lead to two runs: it is owned, and was read.
	known = append(known, "reconcile sample: success, nothing to write, N s")
	for _, l := range story {
		if !slices.Contains(known, l) {
			t.Errorf("not in the golden file: %s", l)
		}
	}
	expectInOrder(t, story,
		"podmanager/sample created by thole-demo",
		"podmanager/sample finalizer podmanager.thole.dev/podmanager added",
		"podmanager/sample Ready=True Succeeded")
	expectInOrder(t, story, "reconcile sample: success, 3 writes")
}

func TestInterruptLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"Ctrl-C": syscall.SIGINT, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			r := startDemo(t)
			r.tells("Ctrl-C ends the demo")
			r.tells("created by thole/podmanager/podmanager, owned by podmanager/sample")
			r.tells("PodCreated on podmanager/sample")
			if n := len(r.processes()); n != 6 { // the demo, the host, the control plane and its three roles
				t.Errorf("%d processes, want 6", n)
			}
			r.signal(signal)
			if told := r.ends(0); !strings.Contains(told, "nothing is left") {
				t.Errorf("told %q", told)
			}
			r.leavesNothing()
		})
	}
}

func TestInterruptWhileStarting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		code  int
	}{
		"until Ctrl-C": {nil, 0},
		"once":         {[]string{"--once"}, exitFailed}, // it was not Ready
	} {
		t.Run(name, func(t *testing.T) {
			r := startDemo(t, c.flags...)
			r.tells("thole demo")
			r.signal(syscall.SIGINT)
			r.ends(c.code)
			r.leavesNothing()
		})
	}
}

func TestSecondInterruptDoesNotWait(t *testing.T) {
	t.Parallel()
	r := startDemo(t)
	r.tells("Ctrl-C ends the demo")
	// A host that does not answer: without haste it would be waited for.
	if err := syscall.Kill(r.process("thole"), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.signal(syscall.SIGINT)
	r.tells("Stopping")
	r.signal(syscall.SIGINT)
	r.ends(0)
	r.leavesNothing()
}

func TestNobodyReads(t *testing.T) {
	t.Parallel()
	t.Run("until Ctrl-C", func(t *testing.T) {
		r := startDemo(t)
		r.tells("Ctrl-C ends the demo")
		r.stdout.Close()
		r.ends(0)
		r.leavesNothing()
	})
	t.Run("once", func(t *testing.T) {
		r := startDemo(t, "--once")
		r.tells("thole demo")
		r.stdout.Close()
		r.ends(0)
		r.leavesNothing()
	})
}

func TestKilledDemoTakesItsChildrenAlong(t *testing.T) {
	t.Parallel()
	r := startDemo(t)
	r.tells("Ctrl-C ends the demo")
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err == nil {
		t.Fatal("killed, and yet exit code 0")
	}
	eventually(t, "the children to end", func() bool { return len(r.processes()) == 0 })
}

func TestEndOfAChildEndsTheDemo(t *testing.T) {
	t.Parallel()
	for binary, c := range map[string]struct{ name, log string }{
		"thole":            {"host", "host.log"},
		"thole-devcluster": {"control plane", "control-plane.log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := startDemo(t)
			r.tells("Ctrl-C ends the demo")
			if err := syscall.Kill(r.process(binary), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			r.ends(exitFailed)
			expectSaid(t, r, "the "+c.name+" ended: signal: killed", c.log, "what to do")
			r.leavesLogs(c.log, "kube-apiserver.log")
		})
	}
}

func TestBrokenPlugin(t *testing.T) {
	t.Parallel()
	plugins := t.TempDir()
	if err := os.WriteFile(filepath.Join(plugins, "podmanager.wasm"), []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startDemo(t, "--once", "--plugins", plugins)
	r.ends(exitFailed)
	expectSaid(t, r, "plugin podmanager cannot run", "thole_v1", "make plugins", "logs are in "+r.tmp)
	r.leavesLogs("host.log")
}

func TestNotReadyInTime(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	if err := os.CopyFS(manifests, os.DirFS(filepath.Join(repository, "plugins"))); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(manifests, "podmanager", "sample.yaml"), "image: nginx:1.29", `image: "two words"`)
	// On a machine that does not come that far in time it gets more.
	var r *running
	timeout := 10 * time.Second
	for ; ; timeout *= 2 {
		r = startDemo(t, "--once", "--timeout="+timeout.String(), "--manifests", manifests)
		r.ends(exitFailed)
		if strings.Contains(r.stderr.String(), "wait for Ready: ") || timeout > patience {
			break
		}
	}
	expectSaid(t, r,
		"wait for Ready: not Ready "+timeout.String()+" after the start",
		"podmanager default/sample has Stalled=True  InvalidImage: spec.image must name an image",
		"plugin podmanager is running",
		"the host logged: warn reconcile failed: default/sample: InvalidImage")
	r.leavesLogs("host.log")
}

func TestNothingToStart(t *testing.T) {
	r := &running{}
	d := &demo{options: options{devcluster: filepath.Join(t.TempDir(), "none")}}
	err := d.run()
	writeFailure(&r.stderr, err)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	expectSaid(t, r, "none", "make demo")
}

// mask hides what differs from run to run, and with it how wide columns are.
func mask(text string) string {
	for _, m := range []struct{ of, by string }{
		{`\d+(\.\d+)? (ms|s)\b`, "N s"},
		{`(\d+h)?\d+m\d+s\b`, "N s"},
		{`\d{4}-\d\d-\d\dT[\d:]+Z`, "TIME"},
		{`\(\d+ KiB\)`, "(N KiB)"},
		{` +`, " "},
	} {
		text = regexp.MustCompile(m.of).ReplaceAllString(text, m.by)
	}
	return text
}

// split parts the story from what is around it.
func split(masked string) (frame, story []string) {
	for l := range strings.Lines(masked) {
		l = strings.TrimSuffix(l, "\n")
		if told, ok := strings.CutPrefix(l, " +N s "); ok {
			story = append(story, told)
		} else {
			frame = append(frame, l)
		}
	}
	return frame, story
}

func expectInOrder(t *testing.T, story []string, beginnings ...string) {
	t.Helper()
	rest := story
	for _, b := range beginnings {
		i := slices.IndexFunc(rest, func(l string) bool { return strings.HasPrefix(l, b) })
		if i < 0 {
			t.Errorf("%q is not told, or too early:\n%s", b, strings.Join(story, "\n"))
			return
		}
		rest = rest[i+1:]
	}
}

func expectSaid(t *testing.T, r *running, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(r.stderr.String(), part) {
			t.Errorf("%q is not in what it says:\n%s", part, r.stderr.String())
		}
	}
}

func edit(t *testing.T, path, from, to string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), from, to, 1)
	if changed == string(text) {
		t.Fatalf("%s does not contain %q", path, from)
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}
