package handlers_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/sdk/handlers"
)

func TestFilters(t *testing.T) {
	type handler = handlers.Handler[siteSpec, siteStatus]
	isShort := handlers.Matches(func(value string) bool { return len(value) < 4 })
	for name, c := range map[string]struct {
		filter func(*handler) *handler
		want   bool
	}{
		"label present":          {func(h *handler) *handler { return h.Labels("tier", handlers.Present) }, true},
		"label absent":           {func(h *handler) *handler { return h.Labels("tier", handlers.Absent) }, false},
		"no such label present":  {func(h *handler) *handler { return h.Labels("x", handlers.Present) }, false},
		"no such label absent":   {func(h *handler) *handler { return h.Labels("x", handlers.Absent) }, true},
		"label with the value":   {func(h *handler) *handler { return h.Labels("tier", handlers.Value("web")) }, true},
		"label, another value":   {func(h *handler) *handler { return h.Labels("tier", handlers.Value("db")) }, false},
		"no such label, no text": {func(h *handler) *handler { return h.Labels("x", handlers.Value("")) }, false},
		"label, predicate":       {func(h *handler) *handler { return h.Labels("tier", isShort) }, true},
		"no such label, pred.":   {func(h *handler) *handler { return h.Labels("x", isShort) }, false},
		"annotation":             {func(h *handler) *handler { return h.Annotations("note", handlers.Value("x")) }, true},
		"another annotation":     {func(h *handler) *handler { return h.Annotations("tier", handlers.Present) }, false},
		"field":                  {func(h *handler) *handler { return h.Field("spec.title", handlers.Value("Shop!")) }, true},
		"field, number":          {func(h *handler) *handler { return h.Field("spec.replicas", handlers.Value("2")) }, true},
		"field, object":          {func(h *handler) *handler { return h.Field("spec", handlers.Present) }, true},
		"no such field":          {func(h *handler) *handler { return h.Field("spec.none", handlers.Absent) }, true},
		"field, predicate":       {func(h *handler) *handler { return h.Field("spec.title", isShort) }, false},
		"old":                    {func(h *handler) *handler { return h.Old("spec.title", handlers.Value("Shop")) }, true},
		"old, the new value":     {func(h *handler) *handler { return h.Old("spec.title", handlers.Value("Shop!")) }, false},
		"when":                   {func(h *handler) *handler { return h.When(func(c *call) bool { return c.Old.Spec.Title == "Shop" }) }, true},
		"when not":               {func(h *handler) *handler { return h.When(func(c *call) bool { return c.Spec.Replicas > 5 }) }, false},
		"two that match":         {func(h *handler) *handler { return h.Labels("tier", handlers.Present).Labels("x", handlers.Absent) }, true},
		"one of two":             {func(h *handler) *handler { return h.Labels("tier", handlers.Present).Labels("x", handlers.Present) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := &test{t: t}
			h := &handlerSet{}
			c.filter(h.OnUpdate("update", x.record(nil)))
			c.filter(h.OnField("field", "spec.title", x.record(nil)).Old("spec.title", handlers.Present))
			c.filter(h.OnEvent("event", x.record(nil)).Old("spec.title", handlers.Present))
			x.begin(h)
			x.run()
			x.change(`{"spec":{"title":"Shop!"}}`)
			if c.want {
				x.run("update", "field", "event")
			} else {
				x.run()
			}
		})
	}
}

func TestFilterAppliesToDeletions(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnCreate("status", func(c *call) error { c.Status.URL = "u"; return nil })
	h.OnDelete("web", x.record(nil)).Labels("tier", handlers.Value("web"))
	h.OnDelete("db", x.record(nil)).Labels("tier", handlers.Value("db"))
	x.begin(h)
	x.run()
	x.Delete(shop)
	x.run("web").ExpectWrites("release")
}

// A change that no handler wanted is handled.
func TestFilterThatMatchesLaterIsNoChange(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	h.OnField("spec", "spec.replicas", x.record(nil)).Labels("on", handlers.Present)
	h.OnField("status", "status.url", x.record(nil)).Labels("on", handlers.Present)
	x.begin(h)
	x.run()
	x.change(`{"spec":{"replicas":3},"status":{"url":"a"}}`)
	x.run()
	x.change(`{"metadata":{"labels":{"on":"1"}}}`)
	x.run()
	x.change(`{"spec":{"replicas":4},"status":{"url":"b"}}`)
	x.run("spec", "status")
}

// most is how many handlers with names of 63 bytes a controller can have.
const most = 26

func longName(i int) string { return strings.Repeat("x", 60) + strconv.Itoa(100+i) }

func TestProgressOfAsManyHandlersAsPossibleIsKept(t *testing.T) {
	x := &test{t: t}
	h := &handlerSet{}
	for i := range most {
		h.OnField(longName(i), "spec.replicas", func(*call) error { return errBroken })
	}
	x.begin(h)
	for range 12 {
		x.run().ExpectRetry("HandlerFailed")
		x.Advance(time.Hour)
	}
}

func TestHandlerThatCannotWorkPanics(t *testing.T) {
	none := func(*call) error { return nil }
	for name, c := range map[string]struct {
		register func(*handlerSet)
		want     string
	}{
		"two of a name":   {func(h *handlerSet) { h.OnCreate("a", none); h.OnUpdate("a", none) }, `handler "a": there are two`},
		"no name":         {func(h *handlerSet) { h.OnCreate("", none) }, `the name is not`},
		"a wrong name":    {func(h *handlerSet) { h.OnCreate("a.b", none) }, `handler "a.b": the name is not`},
		"no function":     {func(h *handlerSet) { h.OnCreate("a", nil) }, `it has no function`},
		"no path":         {func(h *handlerSet) { h.OnField("a", "", none) }, `handler "a": path ""`},
		"an empty name":   {func(h *handlerSet) { h.OnField("a", "spec..b", none) }, `path "spec..b"`},
		"a wrong path":    {func(h *handlerSet) { h.OnField("a", "spec.b[*]", none) }, `path "spec.b[*]"`},
		"bookkeeping":     {func(h *handlerSet) { h.OnField("a", "metadata.generation", none) }, `path "metadata.generation" has no changes`},
		"a kind":          {func(h *handlerSet) { h.OnField("a", "kind", none) }, `path "kind" never changes`},
		"wrong filter":    {func(h *handlerSet) { h.OnCreate("a", none).Field("", handlers.Present) }, `path ""`},
		"no match":        {func(h *handlerSet) { h.OnCreate("a", none).Labels("x", nil) }, `a filter has no Match`},
		"no When":         {func(h *handlerSet) { h.OnCreate("a", none).When(nil) }, `When has no function`},
		"no retries":      {func(h *handlerSet) { h.OnCreate("a", none).Retries(0) }, `Retries is 0`},
		"no timeout":      {func(h *handlerSet) { h.OnCreate("a", none).Timeout(0) }, `Timeout is 0s`},
		"no backoff":      {func(h *handlerSet) { h.OnCreate("a", none).Backoff(-1) }, `Backoff is -1ns`},
		"optional create": {func(h *handlerSet) { h.OnCreate("a", none).Optional() }, `Optional is for OnDelete`},
		"nothing":         {func(h *handlerSet) { h.Controller(controller{Name: "c"}) }, `controller "c" has no handlers`},
		"a Cleanup": {func(h *handlerSet) {
			h.OnCreate("a", none)
			h.Controller(controller{Cleanup: func(r *siteRequest) error { return nil }})
		}, `of its own`},
		"too late": {func(h *handlerSet) { h.OnCreate("a", none); h.Controller(controller{}); h.OnCreate("b", none) }, `after the call of Controller`},
		"too many": {func(h *handlerSet) {
			for i := range most + 1 {
				h.OnCreate(longName(i), none)
			}
			h.Controller(controller{})
		}, `4 KiB`},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got, _ := recover().(string); !strings.HasPrefix(got, "handlers: ") || !strings.Contains(got, c.want) {
					t.Errorf("panics with %q, expected %q", got, c.want)
				}
			}()
			c.register(&handlerSet{})
		})
	}
}
