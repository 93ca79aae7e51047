package tholetest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Address is where probes and metrics are, "" before they are.
func (p *Process) Address() string {
	started := p.Log.With("host starts")
	if len(started) == 0 {
		return ""
	}
	return started[0].String("listen")
}

// askTimeout is more than a host takes that has not the processor for itself.
const askTimeout = 20 * time.Second

// Ask returns the answer to a request of probes and metrics. Without one the
// status is 0, and body says why.
func (p *Process) Ask(path string) (status int, body string) {
	address := p.Address()
	if address == "" {
		return 0, "the host does not listen yet"
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: askTimeout}
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

// Plugin is what /plugins tells of one.
type Plugin struct {
	Name, State            string
	Generation             int
	Loads, Rollbacks       int
	LastError, RejectedFor string
}

// Plugins returns all of them; ok is false without an answer.
func (p *Process) Plugins() (all []Plugin, ok bool) {
	status, body := p.Ask("/plugins")
	if status != http.StatusOK {
		return nil, false
	}
	return all, json.Unmarshal([]byte(body), &all) == nil
}

// Plugin returns one of them, the zero value if it is not told.
func (p *Process) Plugin(name string) Plugin {
	all, _ := p.Plugins()
	for _, plugin := range all {
		if plugin.Name == name {
			return plugin
		}
	}
	return Plugin{}
}

// runs are the states of a plugin of which a generation runs.
var runs = []string{"running", "degraded", "quarantined"}

// Runs says whether a plugin runs at that generation or a later one, and the
// host says that it is ready.
func (p *Process) Runs(plugin string, generation int) bool {
	if s := p.Plugin(plugin); !slices.Contains(runs, s.State) || s.Generation < generation {
		return false
	}
	status, _ := p.Ask("/readyz")
	return status == http.StatusOK
}

// Metric returns the value of a series, labels and all; 0 if there is none.
func (p *Process) Metric(series string) float64 {
	_, body := p.Ask("/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return n
		}
	}
	return 0
}
