package host

import (
	"context"
	"errors"
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
	var host runner.Host
	view := with.Capability{Name: "view", New: func(runner.Environment) runner.Capability {
		return runner.Capability{
			Start: func(_ context.Context, of runner.Host) (func(context.Context) error, error) {
				host = of
				return nil, nil
			},
			Views: map[string]http.Handler{"/view": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintln(w, r.URL.Path, host.Plugins(), host.LastRuns())
			})},
		}
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

// A capability that serves something itself does so before the host runs, and until plugins are to stop.
func TestACapabilityServesBesideTheHost(t *testing.T) {
	var env runner.Environment
	var host runner.Host
	stopping, stop := make(chan struct{}), make(chan struct{})
	failed := errors.New("no room")
	serving := func(start error) with.Capability {
		return with.Capability{Name: "serving", New: func(of runner.Environment) runner.Capability {
			env = of
			return runner.Capability{
				Start: func(_ context.Context, of runner.Host) (func(context.Context) error, error) {
					host = of
					return func(ctx context.Context) error {
						<-ctx.Done()
						close(stopping)
						<-stop
						return failed
					}, start
				},
				Ready:   func() error { return failed },
				Problem: func(plugin string) string { return map[string]string{"p": "it is not served"}[plugin] },
				Serve:   map[string]http.Handler{"/served": http.NotFoundHandler()},
			}
		}}
	}
	quiet := with.Capability{Name: "quiet", New: func(runner.Environment) runner.Capability {
		return runner.Capability{
			Start:   func(context.Context, runner.Host) (func(context.Context) error, error) { return nil, nil },
			Ready:   func() error { return nil },
			Problem: func(string) string { return "" },
		}
	}}
	made := func(start error) (*Host, error) {
		c := config.Config{Plugins: t.TempDir(), Listen: "127.0.0.1:0", HostIdentity: true, CacheDir: filepath.Join(t.TempDir(), "cache"), DryRun: true}
		writeText(t, filepath.Join(c.Plugins, "p.wasm"), "no module")
		writeText(t, filepath.Join(c.Plugins, "q.wasm"), "nor this")
		return New(t.Context(), c, Environment{Cluster: &rest.Config{Host: "http://127.0.0.1:1"}, Logger: hclog.NewNullLogger(), Capabilities: with.List{quiet, serving(start)}})
	}
	if _, err := made(failed); !errors.Is(err, failed) {
		t.Errorf("a host whose capability does not start: %v", err)
	}
	h, err := made(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	await.Until(t, "the plugins have failed", func() bool {
		all := h.Plugins()
		return len(all) == 2 && all[0].State == catalog.Failed && all[1].State == catalog.Failed
	})
	if all := h.Plugins(); all[0].Problems["serving"] != "it is not served" || len(all[0].Problems) != 1 || all[1].Problems != nil {
		t.Errorf("%+v", all)
	}
	for _, check := range h.readiness() {
		if err := check.Ready(); check.Name == "serving" && !errors.Is(err, failed) || check.Name == "quiet" && err != nil {
			t.Errorf("%s: %v", check.Name, err)
		}
	}
	d := host.Directory
	s, known := d.Status("p")
	policy, read := d.Policy("p")
	if all := d.Statuses(); !known || s.State != catalog.Failed || !read || !policy.DryRun || len(all) != 2 || !d.Updated() || !d.Leads("p") || d.OthersLead("p") {
		t.Errorf("the directory has %+v, %+v", s, policy)
	}
	if _, known := d.Status("r"); known || !env.DryRun || len(host.Handlers) != 1 {
		t.Errorf("there is another plugin, or other handlers: %v", host.Handlers)
	}
	cancel()
	<-stopping
	response, err := http.Get("http://" + h.Address() + "/healthz")
	if err != nil {
		t.Fatalf("the host ends before what serves: %v", err)
	}
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	close(stop)
	if err := <-ended; !errors.Is(err, failed) {
		t.Errorf("the host has ended with %v", err)
	}
}

// leaders are the [runner.Leaders] of a replica that leads the plugin p alone.
type leaders struct{ runner.Leaders }

type lead struct {
	runner.Lead
	leads bool
}

func (l lead) Leads() bool    { return l.leads }
func (l lead) Leader() string { return "one" }

func (leaders) OthersLead(plugin string) bool { return plugin == "q" }

func (leaders) Lead(plugin string) runner.Lead {
	if plugin == "unknown" {
		return nil
	}
	return lead{leads: plugin == "p"}
}

func TestOneCapabilityDecidesWhichReplicaLeads(t *testing.T) {
	all := []runner.Capability{{Name: "a"}, {Name: "b", Leaders: leaders{}}, {Name: "c"}}
	found, err := leadersOf(all)
	if err != nil || found != (leaders{}) {
		t.Errorf("%v, %v", found, err)
	}
	if found, err := leadersOf(all[:1]); err != nil || found != nil {
		t.Errorf("of one replica: %v, %v", found, err)
	}
	if _, err := leadersOf(append(all, all[1])); err == nil {
		t.Error("two capabilities decide")
	}
}

func TestAPluginIsShownWithItsLeader(t *testing.T) {
	for plugin, want := range map[string]struct {
		leader       string
		leads, other bool
	}{
		"p": {"one", true, false}, "q": {"one", false, true}, "unknown": {"", false, false},
	} {
		h := &Host{leaders: leaders{}}
		d := directory{h}
		if got := h.leaderOf(plugin); got != want.leader || d.Leads(plugin) != want.leads || d.OthersLead(plugin) != want.other {
			t.Errorf("%s is led by %q; %+v", plugin, got, want)
		}
	}
	if h := new(Host); h.leaderOf("p") != "" || !(directory{h}).Leads("p") {
		t.Error("one replica has a leader, or does not lead")
	}
}
