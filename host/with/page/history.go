package page

import (
	"slices"
	"sync"
	"time"

	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/sanitize"
)

// Load is something that has happened to the module of a plugin.
type Load struct {
	At       time.Time // the last time
	Times    int       // in a row
	Plugin   string
	Revision int    // 0: none has come of it
	What     string // in a word or two
	Bad      bool   // somebody has to do something about it
	Version  string
	Digest   string
	Detail   string // one line; may be empty
}

// history has the latest loads of each plugin. One that is loaded again and again displaces nothing of
// others.
type history struct {
	mu       sync.Mutex
	byPlugin map[string][]Load
}

// What a history keeps, of each plugin and in all. Beyond that the plugin is forgotten to which nothing has
// happened for the longest time.
const (
	loadsOfPlugin = 20
	maxPlugins    = 500
	maxDetail     = 512 // bytes
)

// observe adds what an event reports of loads.
func (h *history) observe(event events.Event) {
	switch e := event.(type) {
	case events.PluginStarted:
		h.add(ofRevision("started", e.Revision))
	case events.PluginRestored:
		h.add(ofRevision("restored", e.Revision))
	case events.PluginWaiting:
		h.add(Load{Plugin: e.Plugin, What: "waits", Digest: e.Digest, Detail: e.Reason})
	case events.PluginRefused:
		if !e.RolledBack { // that has an entry of its own
			h.add(Load{Plugin: e.Plugin, What: "refused", Bad: true, Digest: e.Digest, Detail: e.Step + ": " + e.Err.Error()})
		}
	case events.PluginRolledBack:
		l := ofRevision("rolled back", e.From)
		l.Bad, l.Detail = true, e.Reason
		h.add(l)
	case events.PluginStopped:
		l := Load{Plugin: e.Plugin, What: "stopped"}
		if e.Removed {
			l.What = "removed"
		}
		h.add(l)
	}
}

func ofRevision(what string, r events.Revision) Load {
	return Load{Plugin: r.Plugin, What: what, Revision: r.Number, Version: r.Version, Digest: r.Digest}
}

func (h *history) add(l Load) {
	l.At, l.Times, l.Detail = time.Now(), 1, sanitize.Truncate(sanitize.Line(l.Detail), maxDetail)
	l.Version = sanitize.Truncate(sanitize.Line(l.Version), maxDetail)
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.byPlugin[l.Plugin]
	if n := len(all); n > 0 && all[n-1].same(l) {
		l.Times += all[n-1].Times
		all = all[:n-1]
	}
	if len(all) == 0 && len(h.byPlugin) >= maxPlugins {
		delete(h.byPlugin, h.quietest())
	}
	all = append(all, l)
	h.byPlugin[l.Plugin] = slices.Clone(all[max(0, len(all)-loadsOfPlugin):])
}

// same reports whether two loads differ in nothing but their time.
func (l Load) same(other Load) bool {
	other.At, other.Times = l.At, l.Times
	return l == other
}

// quietest returns the plugin to which nothing has happened for the longest time. h.mu is held.
func (h *history) quietest() (plugin string) {
	var at time.Time
	for name, all := range h.byPlugin {
		if last := all[len(all)-1].At; plugin == "" || last.Before(at) {
			plugin, at = name, last
		}
	}
	return plugin
}

// of returns what has happened to a plugin, "" for all, the latest first.
func (h *history) of(plugin string) []Load {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Load
	for name, all := range h.byPlugin {
		if plugin == "" || plugin == name {
			out = append(out, all...)
		}
	}
	slices.SortStableFunc(out, func(a, b Load) int { return b.At.Compare(a.At) })
	return out
}
