package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/thole-dev/thole/cmd/internal/pluginlist"
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
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.listen+"/readyz", nil)
	if err != nil {
		return false, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, fmt.Errorf("ask the host: %w", err)
	}
	return answer.StatusCode == http.StatusOK, answer.Body.Close()
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

// checkPlugin fails if the plugin cannot run, which no waiting repairs.
func (d *demo) checkPlugin(ctx context.Context) error {
	state, err := d.pluginState(ctx)
	if err == nil && state.State == "failed" {
		return &failure{
			err:    fmt.Errorf("plugin %s cannot run: %s", plugin, state.Problem()),
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

// pluginState is what the host says of the plugin.
func (d *demo) pluginState(ctx context.Context) (pluginlist.Plugin, error) {
	list, err := pluginlist.Ask(ctx, d.listen)
	if err != nil {
		return pluginlist.Plugin{}, err
	}
	state, ok := list.Find(plugin)
	if !ok {
		return state, fmt.Errorf("the host has no plugin %s: is %s there?", plugin, d.pluginFile())
	}
	return state, nil
}
