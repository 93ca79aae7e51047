package tholetest

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"time"
)

// Address returns where the process serves probes and metrics, "" while it has
// not reported that yet.
func (p *Process) Address() string {
	started := p.Log.Events("HostStarted")
	if len(started) == 0 {
		return ""
	}
	return started[0].String("listen")
}

// getTimeout is generous: the process may share a busy machine with other tests.
const getTimeout = 20 * time.Second

// Get requests a path from the address of probes and metrics. Without a response
// the status is 0 and body is the reason.
func (p *Process) Get(path string) (status int, body string) {
	address := p.Address()
	if address == "" {
		return 0, "the host does not listen yet"
	}
	// Who serves on the address is known: the certificate is not verified.
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	client := http.Client{Transport: transport, Timeout: getTimeout}
	request, err := http.NewRequest(http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	if p.TokenFile != "" {
		token, err := os.ReadFile(p.TokenFile)
		if err != nil {
			return 0, err.Error()
		}
		request.URL.Scheme = "https"
		request.Header.Set("Authorization", "Bearer "+string(token))
	}
	response, err := client.Do(request)
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

// Plugin is an entry of /plugins, as far as tests need it.
type Plugin struct {
	Name, State      string
	Revision         int
	Loads, Rollbacks int
	LastError        string
	FailedStep       string `json:"rejectedFor"`
	CannotFollow     []string
	MissingRights    []string
	WaitsFor         string
	Problems         map[string]string // by capability
	Breaker          *Breaker          // nil while no revision runs
	CacheProblem     string
}

// Breaker is the circuit breaker of a plugin.
type Breaker struct {
	State, Reason    string
	Since, NextProbe time.Time
	LastFault        struct {
		Controller, Object, Class, Message string
		Stack                              []string
		Fuel                               int64
		MemoryBytes                        uint64
	}
}

// Plugins returns all plugins. ok is false if the process does not respond.
func (p *Process) Plugins() (all []Plugin, ok bool) {
	status, body := p.Get("/plugins")
	if status != http.StatusOK {
		return nil, false
	}
	return all, json.Unmarshal([]byte(body), &all) == nil
}

// Plugin returns the plugin of that name, or the zero value if there is none.
func (p *Process) Plugin(name string) Plugin {
	all, _ := p.Plugins()
	if i := slices.IndexFunc(all, func(plugin Plugin) bool { return plugin.Name == name }); i >= 0 {
		return all[i]
	}
	return Plugin{}
}

// Serving reports whether a revision of the plugin runs, not necessarily that of
// its newest file.
func (p Plugin) Serving() bool {
	return slices.Contains([]string{"running", "degraded", "quarantined"}, p.State)
}

// Running reports whether a plugin runs at that revision or a later one and the
// host is ready.
func (p *Process) Running(plugin string, revision int) bool {
	if s := p.Plugin(plugin); !s.Serving() || s.Revision < revision {
		return false
	}
	status, _ := p.Get("/readyz")
	return status == http.StatusOK
}

// Metrics returns the metrics, none if the process does not respond.
func (p *Process) Metrics() Metrics {
	_, body := p.Get("/metrics")
	return Metrics(body)
}
