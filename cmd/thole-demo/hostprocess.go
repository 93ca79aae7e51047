package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/thole-dev/thole/cmd/internal/words"
)

const askTimeout = 20 * time.Second

// startHost starts it with the plugins and waits until it has settled: every
// plugin runs, waits or has failed.
func (d *demo) startHost(ctx context.Context) error {
	d.out.begin("host")
	clock := newStopwatch()
	config, err := json.Marshal(map[string]any{
		"cacheDir": d.path("cache"), // ours, and not the user's
		"allow":    map[string]any{"crossNamespace": []string{"configsync"}},
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.path("host.yaml"), config, 0o600); err != nil {
		return err
	}
	cmd := exec.Command(d.thole, "run", "--config", d.path("host.yaml"), "--plugins", d.plugins,
		"--kubeconfig", d.path("kubeconfig"), "--host-identity", "--listen", "127.0.0.1:0", "--log-level", "debug")
	log := &recordWriter{each: func(r *record) { d.notice(fact{record: r}) }}
	if err := d.start("host", "host.log", cmd, log); err != nil {
		return err
	}
	if err := d.tellUntil(ctx, func(f fact) bool { return f.record != nil && f.record.Text == words.HostStarts }); err != nil {
		return err
	}
	if err := poll(ctx, func() (bool, error) { return d.hostReady(ctx) }); err != nil {
		return err
	}
	d.out.end("ready in "+clock.elapsed(), "plugin "+plugin+d.size()+", sandboxed")
	return d.checkPlugin(ctx)
}

func (d *demo) hostReady(ctx context.Context) (bool, error) {
	status, _, err := d.ask(ctx, "/readyz")
	return status == http.StatusOK, err
}

// size is how big the plugin is, as a part of a sentence.
func (d *demo) size() string {
	info, err := os.Stat(d.pluginFile())
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (%d KiB)", (info.Size()+1023)/1024)
}

func (d *demo) pluginFile() string { return filepath.Join(d.plugins, plugin+".wasm") }

// pluginState is what the host says of a plugin.
type pluginState struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Version   string `json:"version"`
	LastError string `json:"lastError"`
	Rejected  string `json:"rejectedFor"` // the step that failed
}

func (s pluginState) String() string {
	text := s.State
	if s.LastError != "" {
		text += " (" + s.Rejected + "): " + words.OneLine(s.LastError)
	}
	return text
}

// checkPlugin fails if the plugin cannot run, which no waiting repairs.
func (d *demo) checkPlugin(ctx context.Context) error {
	state, err := d.pluginState(ctx)
	if err == nil && state.State == "failed" {
		return &failure{
			err:    fmt.Errorf("plugin %s cannot run: %s: %s", plugin, state.Rejected, state.LastError),
			advice: "repair plugins/" + plugin + " and build it again: make plugins",
		}
	}
	return err
}

// awaitPlugin waits until the plugin runs, which its CRD lets it do.
func (d *demo) awaitPlugin(ctx context.Context) error {
	d.out.begin("plugin")
	clock := newStopwatch()
	version := ""
	err := d.tellUntil(ctx, func(f fact) bool {
		if f.record == nil || f.record.Plugin != plugin {
			return false
		}
		version = f.record.Version
		return f.record.Text == words.PluginRuns || f.record.Text == words.PluginFails
	})
	if err == nil {
		err = d.checkPlugin(ctx)
	}
	if err == nil {
		d.out.end("runs after "+clock.elapsed(), plugin+" "+version)
	}
	return err
}

func (d *demo) pluginState(ctx context.Context) (pluginState, error) {
	_, body, err := d.ask(ctx, "/plugins")
	if err != nil {
		return pluginState{}, err
	}
	var states []pluginState
	if err := json.Unmarshal(body, &states); err != nil {
		return pluginState{}, fmt.Errorf("read /plugins of the host: %w", err)
	}
	for _, s := range states {
		if s.Name == plugin {
			return s, nil
		}
	}
	return pluginState{}, fmt.Errorf("the host has no plugin %s: is %s there?", plugin, d.pluginFile())
}

// ask sends a GET request to the host.
func (d *demo) ask(ctx context.Context, path string) (status int, body []byte, err error) {
	if d.listen == "" {
		return 0, nil, errors.New("the host does not serve yet")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.listen+path, nil)
	if err != nil {
		return 0, nil, err
	}
	answer, err := (&http.Client{Timeout: askTimeout}).Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("ask the host: %w", err)
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(answer.Body)
	return answer.StatusCode, body, err
}
