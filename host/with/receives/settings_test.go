package receives

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/with"
)

func sections() []config.Section { return with.List{Capability()}.Sections() }

// read reads the file of a configuration.
func read(t *testing.T, text string) (config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Read(file, sections()...)
}

func hostSettings(c config.Config) *HostSettings {
	return c.WithDefaults().Values["receives"].(*HostSettings)
}

func TestEventsHaveAnAudience(t *testing.T) {
	if s := hostSettings(config.Config{Sections: sections()}); !slices.Equal(s.Audiences, []string{"thole.dev"}) || s.EventsPerSecond != 1000 {
		t.Errorf("%+v", s)
	}
	if c, err := read(t, "receives: {audiences: [a]}"); err != nil || !slices.Equal(hostSettings(c).Audiences, []string{"a"}) {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"receives: {audiences: [thole.dev, https://b]}":              "",
		"receives: {audiences: ['']}":                                "receives.audiences[0]: Required value",
		"receives: {audiences: []}":                                  "receives.audiences: Required value",
		"receives: {audience: a}":                                    `unknown field "receives.audience", did you mean "receives.audiences"?`,
		"receives: {audiences: [" + strings.Repeat("a, ", 17) + "]}": "receives.audiences: Too many",
		"receives: {eventsPerSecond: 0.01}":                          "receives.eventsPerSecond: Invalid value: 0.01: must be between 0.1 and 100000",
	} {
		if _, err := read(t, text); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestAPolicyLowersTheRate(t *testing.T) {
	c, err := read(t, "receives: {eventsPerSecond: 5}")
	if err != nil {
		t.Fatal(err)
	}
	if s := hostSettings(c); !slices.Equal(s.Audiences, []string{"thole.dev"}) || s.EventsPerSecond != 5 {
		t.Errorf("%+v", s)
	}
	for text, want := range map[string]float32{"receives: {}": 5, "receives: {eventsPerSecond: 0.5}": 0.5} {
		p, err := c.WithDefaults().ReadPolicy("p", []byte("apiVersion: thole.dev/v1alpha1\n"+text))
		if err != nil || p.Sections["receives"].(*Settings).EventsPerSecond != want {
			t.Errorf("%s: %+v, %v", text, p.Sections["receives"], err)
		}
	}
	if _, err := c.WithDefaults().ReadPolicy("p", []byte("apiVersion: thole.dev/v1alpha1\nreceives: {eventsPerSecond: 6}")); err == nil || !strings.Contains(err.Error(), "must be at most 5, the host's limit") {
		t.Error(err)
	}
}
