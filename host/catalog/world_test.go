package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
)

type testCatalog = Catalog[*guest]

// world implements what a catalog needs, in memory, and records what happens. The
// text of a module is the kinds of its controllers, such as A or A+B, followed by
// anything after a slash; "broken" cannot be loaded, and "kind/slow" never starts.
type world struct {
	mu       sync.Mutex
	log      []string
	runs     map[string]string // plugin -> digest
	present  map[string]bool   // kinds that are served
	counters map[string]int
	stopping chan struct{}            // Stop blocks until it is closed; nil: it does not block
	held     map[string]chan struct{} // by digest: Start blocks until it is closed
	attempts map[string]int           // by digest: calls of Start
	guests   []*guest                 // all that were loaded
	policies map[string]string        // by plugin, of what runs
	misused  []string                 // uses of guests that were closed
	healthy  map[string]bool          // by plugin
	lacking  map[string]string        // the right that an account lacks, by plugin
	silent   bool                     // what accounts lack cannot be found out
	impaired Impairments              // every plugin that runs
	busy     map[string]chan struct{} // by version: Close blocks until it is closed, which Stop does
}

// policy returns a policy that differs from others by its text. "pin A/1", after anything
// else, pins that module.
func policy(text string) config.Policy {
	if text == "" {
		return config.Policy{}
	}
	p := config.Policy{Config: json.RawMessage(text)}
	if _, digest, pins := strings.Cut(text, "pin "); pins {
		p.Digest = "sha256:" + digest
	}
	return p
}

// unfit reports whether a policy does not fit any module that is loaded already.
func unfit(p config.Policy) bool { return strings.HasPrefix(string(p.Config), "unfit") }

// denies reports whether a policy does not allow what a module needs: "deny all", or
// "deny /2" for the modules of that end.
func denies(p config.Policy, digest string) bool {
	what, is := strings.CutPrefix(string(p.Config), "deny ")
	what, _, _ = strings.Cut(what, ",")
	return is && (what == "all" || strings.HasSuffix(digest, what))
}

func newWorld(kinds ...string) *world {
	w := &world{
		runs: map[string]string{}, present: map[string]bool{}, counters: map[string]int{},
		held: map[string]chan struct{}{}, attempts: map[string]int{}, policies: map[string]string{}, healthy: map[string]bool{},
		busy: map[string]chan struct{}{}, lacking: map[string]string{},
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

// hold makes starts of a digest block until release is called.
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

// begin counts a start of the digest and returns what it has to wait for; nil for
// nothing.
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

func (w *world) Load(_ context.Context, m *Module) (*guest, error) {
	wasm, err := m.Read()
	if err != nil {
		return nil, err
	}
	name, text := m.Name, string(wasm)
	w.count("load " + name)
	w.pinned(name, m.Digest, m.Policy)
	if text == "broken" {
		return nil, loadError{}
	}
	manifest := &abi.Manifest{Name: name, Version: text}
	for i, kind := range kindsOf(text) {
		manifest.Controllers = append(manifest.Controllers, abi.Controller{
			Name: "c" + strings.Repeat("c", i), For: abi.Kind{APIVersion: "example.dev/v1", Kind: kind}.All(),
		})
	}
	return w.guest(name, manifest), nil
}

// kindsOf returns the kinds of the controllers of a module.
func kindsOf(text string) []string {
	kinds, _, _ := strings.Cut(text, "/")
	return strings.Split(kinds, "+")
}

func (w *world) WithPolicy(_ context.Context, g *guest, m *Module) (*guest, error) {
	w.pinned(m.Name, m.Digest, m.Policy)
	if unfit(m.Policy) {
		return nil, &stepError{"policy", errors.New("the policy does not fit")}
	}
	w.note("with policy %s %s", m.Name, m.Digest)
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

// alive records the use of a guest that is closed.
func (w *world) alive(g *guest, use string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.closed > 0 {
		w.misused = append(w.misused, use+" "+g.name+" "+g.manifest.Version)
	}
}

// pinned records that code gets a policy that does not pin it.
func (w *world) pinned(plugin, digest string, p config.Policy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !p.Pins(digest) {
		w.misused = append(w.misused, plugin+" "+digest+" got a policy that pins "+p.Digest)
	}
}

func (w *world) Start(ctx context.Context, g *Revision[*guest], claim func() error) error {
	if strings.HasSuffix(g.Digest, "/slow") {
		<-ctx.Done()
		return ctx.Err()
	}
	w.alive(g.Guest, "start")
	w.pinned(g.Plugin, g.Digest, g.Policy)
	if held := w.begin(g.Digest); held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if denies(g.Policy, g.Digest) {
		return &WaitError{Reason: "the policy does not allow it", Denied: true}
	}
	for _, kind := range kindsOf(g.Digest) {
		if !w.serves(kind) {
			return &WaitError{Reason: "kind " + kind + " is not served"}
		}
	}
	if err := claim(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for other, digest := range w.runs {
		if other != g.Plugin && overlap(digest, g.Digest) {
			w.misused = append(w.misused, g.Plugin+" "+g.Digest+" was started beside "+other+" "+digest)
		}
	}
	w.runs[g.Plugin], w.policies[g.Plugin] = g.Digest, string(g.Policy.Config)
	w.log = append(w.log, strings.TrimSpace("start "+g.Plugin+" "+g.Digest+" "+string(g.Policy.Config)))
	w.counters["started "+g.Plugin]++
	return nil
}

func (w *world) serves(kind string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.present[kind]
}

// overlap reports whether two modules write the same condition.
func overlap(a, b string) bool {
	return slices.ContainsFunc(kindsOf(a), func(kind string) bool { return slices.Contains(kindsOf(b), kind) })
}

// takeRight makes the account of a plugin lack a right, or none for "".
func (w *world) takeRight(plugin, right string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lacking[plugin] = right
}

// silence makes what accounts lack unknown, or known again.
func (w *world) silence(silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = silent
}

func (w *world) LackedRight(_ context.Context, r *Revision[*guest]) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent {
		return "", errors.New("the API server is away")
	}
	return w.lacking[r.Plugin], nil
}

func (w *world) Healthy(plugin string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.healthy[plugin]
}

func (w *world) Impairments(string) Impairments { return w.impaired }

func (w *world) Discard(*Revision[*guest]) {}

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

// Observe counts events by their types and what tests look at.
func (w *world) Observe(event events.Event) {
	switch e := event.(type) {
	case events.PluginRestored:
		w.count("restored " + e.Plugin)
	case events.PluginStopped:
		w.count(fmt.Sprintf("stopped %s, ran: %t", e.Plugin, e.Ran))
	case events.PluginWaiting:
		w.count("waits " + e.Plugin)
	case events.PluginRefused:
		w.count("refused " + e.Plugin + " " + e.Step)
	case events.PluginRolledBack:
		w.count(fmt.Sprintf("rolled back %s %d to %d: %s", e.From.Plugin, e.From.Number, e.To.Number, e.Reason))
	}
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counters[what]++
}
