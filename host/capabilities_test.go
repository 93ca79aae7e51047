package host

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// The hosts of this package have no capabilities. A plugin, or a policy, that names one is refused by the name,
// and the plugin is loaded without it.
func TestWhatNamesACapabilityThatIsAwayIsRefused(t *testing.T) {
	r := start(t, controlPlane(t), nil)
	refused := func(name, want string) {
		t.Helper()
		r.expectState(name, func(s catalog.Status) bool {
			return s.State == catalog.Failed && strings.Contains(s.LastError, want)
		})
	}
	r.install("labinstance", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/labinstance"))
	refused("labinstance", `, which is not a capability of this host either`)
	policy := filepath.Join(r.dir, "ttl.yaml")
	writeText(t, policy, "apiVersion: thole.dev/v1alpha1\nabsent: {}\n")
	r.install("ttl", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/ttl"))
	refused("ttl", `unknown field "absent"`)
	writeText(t, policy, "apiVersion: thole.dev/v1alpha1\n")
	r.expectState("ttl", func(s catalog.Status) bool { return s.State == catalog.Waiting }) // for what its policy does not allow
}

// watched is the section of a capability that notes what it observes.
type watched struct {
	Name string `json:"name,omitempty"`
}

func (*watched) Problems(*field.Path) []error { return nil }

// watching returns the capability, and what it has noted. It observes nothing if it has no name.
func watching() (of with.Capability, noted func() []string) {
	var mu sync.Mutex
	var all []string
	note := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, text)
	}
	of = with.Capability{
		Name:   "watch",
		Config: func() config.HostSection { return &watched{"default"} },
		New: func(env runner.Environment) runner.Capability {
			name := env.Section.(*watched).Name
			if name == "" {
				return runner.Capability{}
			}
			return runner.Capability{
				Observe: func(e events.Event) { note(fmt.Sprintf("%s %T", name, e)) },
				Stop:    func() { note(name + " stop") },
			}
		},
	}
	return of, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func TestCapabilitiesObserveAHostFromItsStartToItsEnd(t *testing.T) {
	for name, want := range map[string][]string{
		"default": {"default events.HostStarted", "default events.NoPlugins", "default events.HostStopped", "default stop"},
		"other":   {"other events.HostStarted", "other events.NoPlugins", "other events.HostStopped", "other stop"},
		"":        nil,
	} {
		of, noted := watching()
		r := startWith(t, controlPlane(t), with.List{of}, func(c *config.Config) {
			if name != "default" {
				c.Values = map[string]config.HostSection{"watch": &watched{name}}
			}
		})
		await.Until(t, "the host has looked for plugins", func() bool { return strings.Contains(r.log.String(), `"NoPlugins"`) })
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		if got := noted(); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// What a capability shows of the plugins is served with /plugins, and nothing at its path without the capability.
func TestViewsOfCapabilitiesAreServed(t *testing.T) {
	var env runner.Environment
	view := with.Capability{Name: "view", New: func(of runner.Environment) runner.Capability {
		env = of
		return runner.Capability{Views: map[string]http.Handler{"/view": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, r.URL.Path, env.Plugins(), env.LastRuns())
		})}}
	}}
	for _, test := range []struct {
		list   with.List
		status int
		paths  string
	}{{with.List{view}, http.StatusOK, "[/view]"}, {nil, http.StatusNotFound, "[]"}} {
		r := startWith(t, controlPlane(t), test.list, nil)
		for _, path := range []string{"/view", "/view/of/one"} {
			response, err := http.Get("http://" + r.host.Address() + path)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if shown := string(text) == path+" [] map[]\n"; response.StatusCode != test.status || shown != (test.status == http.StatusOK) {
				t.Errorf("%s: %s %q", path, response.Status, text)
			}
		}
		if got := fmt.Sprint(r.host.Views()); got != test.paths {
			t.Errorf("the views are %s, want %s", got, test.paths)
		}
		http.DefaultClient.CloseIdleConnections()
	}
}

func TestCapabilitiesOfAHostThatCannotBeMadeAreStopped(t *testing.T) {
	of, noted := watching()
	c := config.Config{Plugins: t.TempDir(), Listen: "127.0.0.1:99999", CacheDir: t.TempDir()}
	_, err := New(context.Background(), c, Environment{Cluster: &rest.Config{Host: "127.0.0.1:1"}, Logger: hclog.NewNullLogger(), Capabilities: with.List{of}})
	if got := noted(); err == nil || !slices.Equal(got, []string{"default stop"}) {
		t.Errorf("%v, %q", err, got)
	}
}
