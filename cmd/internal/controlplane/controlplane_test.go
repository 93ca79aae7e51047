//go:build unix

package controlplane

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCommand: what is started here is a script that says what it was called
// with, is ready, and ends with its standard input.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	program, called := filepath.Join(dir, "program"), filepath.Join(dir, "called")
	script := "#!/bin/sh\necho \"$@\" >" + called + "\nprintf 'almost ready\\nrea'\nprintf 'dy\\n'\nexec cat\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd, ready, err := Command(program, "the-dir", "the-file")
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-ready
	if got, err := os.ReadFile(called); err != nil || string(got) != "--dir the-dir --kubeconfig-out the-file --stop-with-stdin\n" {
		t.Errorf("it is called with %q, %v", got, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
}

func TestAwaited(t *testing.T) {
	for text, want := range map[string]bool{"ready\n": true, "x\nready\ny\n": true, "ready": false, "not ready\n": false, "ready x\n": false} {
		a := newAwaited("ready")
		for i := range text {
			if _, err := a.Write([]byte(text[i : i+1])); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-a.seen:
			if !want {
				t.Errorf("%q is taken for the line", text)
			}
		default:
			if want {
				t.Errorf("%q is not taken for the line", text)
			}
		}
	}
}
