package config

import (
	"slices"
	"strings"
	"testing"
)

func TestEventsHaveAnAudience(t *testing.T) {
	if c := (Config{}).WithDefaults(); !slices.Equal(c.Events.Audiences, []string{"thole.dev"}) {
		t.Errorf("%q", c.Events.Audiences)
	}
	c := Config{Events: Events{Audiences: []string{"a"}}}.WithDefaults()
	if !slices.Equal(c.Events.Audiences, []string{"a"}) {
		t.Errorf("%q", c.Events.Audiences)
	}
}

func TestEventsAreChecked(t *testing.T) {
	expectRead(t, map[string]string{
		"events: {audiences: [thole.dev, https://b]}":              "",
		"events: {audiences: ['']}":                                "events.audiences[0]: Required value",
		"events: {audience: a}":                                    `unknown field "events.audience", did you mean "events.audiences"?`,
		"events: {audiences: [" + strings.Repeat("a, ", 17) + "]}": "events.audiences: Too many",
		"limits: {eventsPerSecond: 0.01}":                          "limits.eventsPerSecond: Invalid value: 0.01: must be between 0.1 and 100000",
	})
}
