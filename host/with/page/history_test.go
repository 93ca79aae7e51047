package page

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/events"
)

func describe(loads []Load) string {
	var all []string
	for _, l := range loads {
		all = append(all, fmt.Sprintf("%s %s %d x%d", l.Plugin, l.What, l.Revision, l.Times))
	}
	return strings.Join(all, "; ")
}

func newHistory() *history { return &history{byPlugin: map[string][]Load{}} }

func TestHistoryHasTheLatestFirst(t *testing.T) {
	h := newHistory()
	first, second := events.Revision{Plugin: "a", Number: 1}, events.Revision{Plugin: "a", Number: 2}
	for _, e := range []events.Event{
		events.PluginWaiting{Plugin: "a", Reason: "no CRD"},
		events.PluginStarted{Revision: first},
		events.PluginStarted{Revision: events.Revision{Plugin: "b", Number: 1}},
		events.PluginRefused{Plugin: "a", Err: errors.New("x")},
		events.PluginRefused{Plugin: "a", Err: errors.New("x")},
		events.PluginRestored{Revision: first},
		events.PluginStarted{Revision: second},
		events.PluginStarted{Revision: first},
		events.PluginRolledBack{From: second, To: first},
		events.PluginRefused{Plugin: "a", Err: errors.New("y"), RolledBack: true},
		events.RunEnded{},
		events.PluginStopped{Plugin: "a", Removed: true},
		events.PluginStopped{Plugin: "b"},
	} {
		h.observe(e)
	}
	want := "b stopped 0 x1; a removed 0 x1; a rolled back 2 x1; a started 1 x1; a started 2 x1; a restored 1 x1; a refused 0 x2; b started 1 x1; a started 1 x1; a waits 0 x1"
	if got := describe(h.of("")); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := describe(h.of("b")); got != "b stopped 0 x1; b started 1 x1" {
		t.Error(got)
	}
}

// However often a plugin is loaded, and whatever their number, the memory is bounded and others keep theirs.
func TestHistoryIsBounded(t *testing.T) {
	h := newHistory()
	h.observe(events.PluginStarted{Revision: events.Revision{Plugin: "quiet", Number: 1}})
	for i := range 1000 {
		h.observe(events.PluginStarted{Revision: events.Revision{Plugin: "busy", Number: i, Version: strings.Repeat("v", 10_000)}})
		h.observe(events.PluginRefused{Plugin: "busy", Err: errors.New(strings.Repeat("x\n", 10_000)), Digest: fmt.Sprint(i)})
	}
	busy := h.of("busy")
	if len(busy) != loadsOfPlugin || len(busy[0].Detail) > maxDetail || strings.Contains(busy[0].Detail, "\n") || len(busy[1].Version) > maxDetail {
		t.Errorf("%d loads, the last one with %d bytes", len(busy), len(busy[0].Detail))
	}
	if got := describe(h.of("quiet")); got != "quiet started 1 x1" {
		t.Error(got)
	}
	for i := range 2 * maxPlugins {
		h.observe(events.PluginStarted{Revision: events.Revision{Plugin: fmt.Sprint(i), Number: 1}})
		if i == maxPlugins/2 {
			h.observe(events.PluginStarted{Revision: events.Revision{Plugin: "busy", Number: 7}})
		}
	}
	if len(h.byPlugin) != maxPlugins || len(h.of("quiet")) != 0 || len(h.of(fmt.Sprint(2*maxPlugins-1))) != 1 {
		t.Errorf("%d plugins, %d of quiet", len(h.byPlugin), len(h.of("quiet")))
	}
}
