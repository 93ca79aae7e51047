package deploytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// process is a running thole.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	log     *transcript
	ended   chan struct{} // closed when it has
	err     error         // its exit; set before ended is closed
	stopped bool
}

// start runs a command that is thole.
func start(t *testing.T, cmd *exec.Cmd) (*process, error) {
	p := &process{t: t, cmd: cmd, log: &transcript{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// stop ends the process as a kubelet does.
func (p *process) stop(patience time.Duration) error {
	if p.stopped {
		return nil
	}
	p.stopped = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	kill := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	<-p.ended
	if p.err != nil {
		return fmt.Errorf("thole ended with %w:\n%s", p.err, p.log.tail(20))
	}
	return nil
}

// kubeconfig writes one with a token of the service account.
func kubeconfig(t *testing.T, server clientcmdapi.Cluster, namespace, name string) string {
	t.Helper()
	token, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": &server},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "a"}},
		CurrentContext: "x",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// thole runs the host with the plugin podmanager until the test ends.
func thole(t *testing.T, kubeconfig string, args, env []string) *process {
	t.Helper()
	plugins := t.TempDir()
	writePlugin(t, plugins, wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager"))
	cmd := exec.Command(program(t), append([]string{
		"run", "--plugins", plugins, "--kubeconfig", kubeconfig, "--host-identity", "--listen", "127.0.0.1:0", "--log-level", "debug",
	}, args...)...)
	cmd.Env = append(append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(scratch, "cache")), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p, err := start(t, cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(20 * time.Second); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of thole:\n%s", p.log.tail(30))
		}
	})
	return p
}

// address is where probes and metrics are, "" before they are.
func (p *process) address() (address string) {
	for _, line := range p.log.lines(0) {
		if line["@message"] == "host starts" {
			address, _ = line["listen"].(string)
		}
	}
	return address
}

// ask returns the answer to a request of probes and metrics; 0 is none.
func (p *process) ask(path string) (status int, body string) {
	address := p.address()
	if address == "" {
		return 0, ""
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	response, err := client.Get("http://" + address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// pluginState is what /plugins tells of one.
type pluginState struct {
	State      string
	Generation int
	LastError  string
}

// only is the only plugin; its zero value if there is no answer.
func (p *process) only() pluginState {
	var plugins []pluginState
	_, body := p.ask("/plugins")
	if json.Unmarshal([]byte(body), &plugins) != nil || len(plugins) != 1 {
		return pluginState{}
	}
	return plugins[0]
}

// generation is that of the plugin which runs, 0 if it does not.
func (p *process) generation() int {
	if only := p.only(); only.State == "running" {
		return only.Generation
	}
	return 0
}

// transcript collects what a process says.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *transcript) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

// after returns what was said after a mark, which is a length.
func (w *transcript) after(mark int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text.Bytes()[mark:])
}

func (w *transcript) mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Len()
}

func (w *transcript) tail(n int) string {
	lines := strings.Split(strings.TrimSpace(w.after(0)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// lines returns the log's lines after a mark.
func (w *transcript) lines(mark int) (lines []map[string]any) {
	for line := range strings.Lines(w.after(mark)) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil {
			lines = append(lines, fields)
		}
	}
	return lines
}

// says whether a line after the mark, of at least level warn, holds the text.
func (w *transcript) warns(mark int, text string) bool {
	for _, line := range w.lines(mark) {
		if line["@level"] != "warn" && line["@level"] != "error" {
			continue
		}
		for _, value := range line {
			if s, ok := value.(string); ok && strings.Contains(s, text) {
				return true
			}
		}
	}
	return false
}
