// Package controlplane runs cmd/thole-devcluster as the child of a command.
package controlplane

import (
	"os/exec"
	"strings"
	"sync"
)

// Command is a control plane that keeps its data in dir and writes its
// kubeconfig to a file. ready is closed when it serves. It stops when the
// process that has started it ends, however that one ends.
func Command(program, dir, kubeconfig string) (cmd *exec.Cmd, ready <-chan struct{}, err error) {
	cmd = exec.Command(program, "--dir", dir, "--kubeconfig-out", kubeconfig, "--stop-with-stdin")
	serving := newAwaited("ready")
	cmd.Stdout = serving
	// The other end closes with this process.
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	return cmd, serving.seen, nil
}

// awaited is a writer that waits for a line.
type awaited struct {
	line string
	text strings.Builder
	seen chan struct{} // closed when the line was written
	once sync.Once
}

func newAwaited(line string) *awaited { return &awaited{line: line, seen: make(chan struct{})} }

func (a *awaited) Write(p []byte) (int, error) {
	a.text.Write(p)
	if strings.Contains("\n"+a.text.String(), "\n"+a.line+"\n") {
		a.once.Do(func() { close(a.seen) })
	}
	return len(p), nil
}
