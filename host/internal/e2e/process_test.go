package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// directory is a directory of plugins.
type directory struct {
	t    *testing.T
	path string
}

func newDirectory(t *testing.T) directory { return directory{t, t.TempDir()} }

// install puts a module in place as one is told to: by a rename.
func (d directory) install(name string, wasm []byte) {
	d.t.Helper()
	partial := filepath.Join(d.path, "."+name+".partial")
	if err := os.WriteFile(partial, wasm, 0o644); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(partial, filepath.Join(d.path, name+".wasm")); err != nil {
		d.t.Fatal(err)
	}
}

func podmanager(t *testing.T, toolchain wasmbuild.Toolchain) []byte {
	t.Helper()
	return wasmbuild.Build(t, toolchain, "plugins/podmanager")
}

// process is a running thole.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	output  *transcript
	ended   chan error // gets the exit status once
	stopped bool
}

// thole starts the program on a directory of plugins; config is the text of
// its configuration file. It is stopped with the test, and fails it if it did
// not end well or found a data race.
func thole(t *testing.T, d directory, namespace, config string) *process {
	t.Helper()
	return tholeOn(t, cluster.Kubeconfig, d, namespace, config)
}

// tholeOn is thole with another kubeconfig than the administrator's.
func tholeOn(t *testing.T, kubeconfig string, d directory, namespace, config string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, output: &transcript{}, ended: make(chan error, 1)}
	p.cmd = exec.Command(program, "run", "--plugins", d.path, "--kubeconfig", kubeconfig,
		"--namespace", namespace, "--config", file, "--host-identity", "--listen", "127.0.0.1:0", "--log-level", "debug")
	p.cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(filepath.Dir(program), "cache"))
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("log of thole:\n%s", p.output.tail(40))
		}
	})
	return p
}

// stop ends the process as an administrator would.
func (p *process) stop() {
	p.t.Helper()
	if p.stopped {
		return
	}
	p.stopped = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Error(err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Errorf("thole ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		p.t.Error("thole does not end on SIGTERM in 20 s")
		p.kill()
	}
	p.expectNoRace()
}

// kill ends the process without a chance to do anything.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Error(err)
	}
	if !p.stopped {
		<-p.ended
	}
	p.stopped = true
	p.expectNoRace()
}

func (p *process) expectNoRace() {
	p.t.Helper()
	if p.output.contains("WARNING: DATA RACE") {
		p.t.Errorf("thole has a data race:\n%s", p.output.tail(200))
	}
}

// expectNoErrors fails if the log has a line of level error.
func (p *process) expectNoErrors() {
	p.t.Helper()
	for _, line := range p.output.lines() {
		if line["@level"] == "error" {
			p.t.Errorf("error in the log: %v", line)
		}
	}
}

// address waits for the address of probes and metrics.
func (p *process) address() string {
	p.t.Helper()
	var address string
	eventually(p.t, "thole says where it listens", func() bool {
		for _, line := range p.output.lines() {
			if line["@message"] == "host starts" {
				address, _ = line["listen"].(string)
			}
		}
		return address != ""
	})
	return address
}

func (p *process) get(path string) (int, string) {
	p.t.Helper()
	response, err := http.Get("http://" + p.address() + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// ready waits until the plugin runs at that generation or a later one.
func (p *process) ready(plugin string, generation int) {
	p.t.Helper()
	eventually(p.t, plugin+" runs", func() bool {
		_, body := p.get("/plugins")
		var statuses []struct {
			Name       string
			State      string
			Generation int
		}
		if err := json.Unmarshal([]byte(body), &statuses); err != nil {
			p.t.Fatal(err)
		}
		for _, s := range statuses {
			if s.Name == plugin && s.State == "running" && s.Generation >= generation {
				return true
			}
		}
		return false
	})
	if status, body := p.get("/readyz"); status != http.StatusOK {
		p.t.Errorf("/readyz answers %d: %s", status, body)
	}
}

// transcript collects the log.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *transcript) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *transcript) contains(s string) bool { return strings.Contains(w.String(), s) }

func (w *transcript) tail(n int) string {
	lines := strings.Split(strings.TrimSpace(w.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (w *transcript) lines() []map[string]any {
	var lines []map[string]any
	for line := range strings.Lines(w.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil {
			lines = append(lines, fields)
		}
	}
	return lines
}

// eventually waits for a condition that a process brings about; half a minute
// is far more than any of them needs.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	within(t, 30*time.Second, what, done)
}

func within(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		<-tick.C
	}
}
