package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/thole-dev/thole/abi"
)

// world loads and runs modules in memory and writes down what happens. The
// text of a module says what it is: "kind", or "broken", or "kind/slow".
type world struct {
	mu       sync.Mutex
	log      []string
	runs     map[string]string // plugin -> digest
	present  map[string]bool   // kinds that are served
	counters map[string]int
	stopping chan struct{}            // Stop waits until it is closed; nil: it does not wait
	held     map[string]chan struct{} // by digest: Start waits until it is closed
	attempts map[string]int           // by digest: calls of Start
	guests   []*guest                 // all that were loaded
	policies map[string]string        // by plugin, of what runs
	misused  []string                 // what was done with guests that are closed
	sound    map[string]bool          // plugins that do no worse than before
	busy     map[string]chan struct{} // by version: Close waits until it is closed, and Stop closes it
}

func newWorld(kinds ...string) *world {
	w := &world{
		runs: map[string]string{}, present: map[string]bool{}, counters: map[string]int{},
		held: map[string]chan struct{}{}, attempts: map[string]int{}, policies: map[string]string{}, sound: map[string]bool{},
		busy: map[string]chan struct{}{},
	}
	for _, k := range kinds {
		w.present[k] = true
	}
	return w
}

func (w *world) serve(kind string)    { w.setPresent(kind, true) }
func (w *world) withdraw(kind string) { w.setPresent(kind, false) }

func (w *world) setPresent(kind string, present bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present[kind] = present
}

// hold has starts of a digest wait until it is released.
func (w *world) hold(digest string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[digest] = make(chan struct{})
}

func (w *world) release(digest string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.held[digest])
}

// begin answers what a start of the digest waits for, nil for nothing.
func (w *world) begin(digest string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attempts[digest]++
	return w.held[digest]
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

type guest struct {
	w        *world
	name     string
	manifest *abi.Manifest
	closed   int // so many times; guarded by w.mu
}

func (g *guest) Manifest() *abi.Manifest { return g.manifest }

func (g *guest) Close(context.Context) error {
	g.w.mu.Lock()
	g.closed++
	busy := g.w.busy[g.manifest.Version]
	g.w.mu.Unlock()
	if busy != nil {
		<-busy
	}
	g.w.note("close %s %s", g.name, g.manifest.Version)
	return nil
}

type loadError struct{}

func (loadError) Error() string    { return "no module" }
func (loadError) LoadStep() string { return "parse" }

func (w *world) Load(_ context.Context, m *Module) (Guest, error) {
	wasm, err := m.Read()
	if err != nil {
		return nil, err
	}
	name, text := m.Name, string(wasm)
	w.count("load " + name)
	if text == "broken" {
		return nil, loadError{}
	}
	kind, _, _ := strings.Cut(text, "/")
	return w.guest(name, &abi.Manifest{Name: name, Version: text, Controllers: []abi.Controller{{
		Name: "c", For: abi.Kind{APIVersion: "example.dev/v1", Kind: kind},
	}}}), nil
}

func (w *world) Reload(_ context.Context, g Guest, m *Module) (Guest, error) {
	if string(m.Policy) == "unfit" {
		return nil, &failure{"policy", errors.New("the policy does not fit")}
	}
	w.note("reload %s %s", m.Name, m.Digest)
	w.alive(g, "reload")
	return w.guest(m.Name, g.Manifest()), nil
}

func (w *world) guest(name string, manifest *abi.Manifest) *guest {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := &guest{w: w, name: name, manifest: manifest}
	w.guests = append(w.guests, g)
	return g
}

// alive writes down if a guest is used that is closed.
func (w *world) alive(g Guest, use string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g := g.(*guest); g.closed > 0 {
		w.misused = append(w.misused, use+" "+g.name+" "+g.manifest.Version)
	}
}

func (w *world) Start(ctx context.Context, g *Generation) error {
	if strings.HasSuffix(g.Digest, "/slow") {
		<-ctx.Done()
		return ctx.Err()
	}
	w.alive(g.Guest, "start")
	if held := w.begin(g.Digest); held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := g.Manifest.Controllers[0].For.Kind
	if !w.present[kind] {
		return &WaitError{Reason: "kind " + kind + " is not served"}
	}
	w.runs[g.Plugin], w.policies[g.Plugin] = g.Digest, string(g.Policy)
	w.log = append(w.log, strings.TrimSpace("start "+g.Plugin+" "+g.Digest+" "+string(g.Policy)))
	return nil
}

func (w *world) Sound(plugin string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sound[plugin]
}

func (w *world) Stop(plugin string, _ bool) {
	if w.stopping != nil {
		<-w.stopping
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.runs, plugin)
	w.log = append(w.log, "stop "+plugin)
	for version, busy := range w.busy {
		delete(w.busy, version)
		close(busy)
	}
}

func (w *world) PluginStarted(g *Generation)  { w.count("started " + g.Plugin) }
func (w *world) PluginStopped(plugin string)  { w.count("stopped " + plugin) }
func (w *world) PluginWaits(plugin, _ string) { w.count("waits " + plugin) }
func (w *world) PluginFailed(plugin, step string, _ error, _ *Generation) {
	w.count("failed " + plugin + " " + step)
}

func (w *world) PluginRolledBack(from, to *Generation, reason string) {
	w.count(fmt.Sprintf("rolled back %s %d to %d: %s", from.Plugin, from.Number, to.Number, reason))
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counters[what]++
}
