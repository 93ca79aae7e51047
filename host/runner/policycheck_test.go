package runner

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/rights"
)

var (
	secrets    = abi.Kind{APIVersion: "v1", Kind: "Secret"}
	configMaps = abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	spaces     = abi.Kind{APIVersion: "v1", Kind: "Namespace"}
	coreKinds  = `{"kind":"APIResourceList","groupVersion":"v1","resources":[` +
		`{"name":"secrets","namespaced":true,"kind":"Secret","verbs":["get","list","watch"]},` +
		`{"name":"configmaps","namespaced":true,"kind":"ConfigMap","verbs":["get","list","watch"]},` +
		`{"name":"namespaces","namespaced":false,"kind":"Namespace","verbs":["get","list","watch"]}]}`
)

// startCore starts an API server of Widgets, Secrets, ConfigMaps and Namespaces. listed returns
// the paths of core objects that were read.
func startCore(t *testing.T) (url string, listed func() []string) {
	var mu sync.Mutex
	var paths []string
	url = startServer(t, func(out http.ResponseWriter, request *http.Request) bool {
		path, core := strings.CutPrefix(request.URL.Path, "/api/v1")
		switch query := request.URL.Query(); {
		case !core:
			return false
		case path == "":
			fmt.Fprint(out, coreKinds)
		case query.Get("watch") != "" || query.Get("sendInitialEvents") != "":
			return false
		default:
			mu.Lock()
			defer mu.Unlock()
			paths = append(paths, path)
			fmt.Fprint(out, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
		}
		return true
	})
	return url, func() []string {
		mu.Lock()
		defer mu.Unlock()
		defer func() { paths = nil }()
		return paths
	}
}

func startAs(t *testing.T, r *Runner, allow rights.Entries, c abi.Controller) error {
	t.Helper()
	policy := config.Policy{Allow: allow}
	policy.Limits.Concurrency = 1
	c.Name = "c"
	return r.Start(t.Context(), &Revision{
		Revision: events.Revision{Plugin: "p", Number: 1, Digest: "d"}, Policy: policy,
		Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{c}},
	}, func() error { return nil })
}

// Nothing is read for a plugin before its policy allows it.
func TestAPluginWaitsForAPolicyThatAllowsWhatItNeeds(t *testing.T) {
	entry := func(verbs string, kinds ...string) rights.Entry {
		return rights.Entry{Groups: []string{""}, Kinds: kinds, Verbs: strings.Fields(verbs)}
	}
	reader := abi.Controller{For: widgets.All(), Reads: abi.AllOf(secrets, configMaps)}
	for name, c := range map[string]struct {
		controller abi.Controller
		allow      rights.Entries
		want       string // the entries that it waits for; "": it starts
	}{
		"reads of ConfigMaps":       {abi.Controller{For: widgets.All(), Reads: abi.AllOf(configMaps), Owns: abi.AllOf(configMaps)}, nil, ""},
		"reads of Secrets":          {reader, nil, "[{groups: [''], kinds: [Secret], verbs: [get, list, watch]}]"},
		"some verbs of reading":     {reader, rights.Entries{entry("get list", "Secret")}, "[{groups: [''], kinds: [Secret], verbs: [get, list]}, {groups: [''], kinds: [Secret], verbs: [get, list, watch]}]"},
		"verbs of another kind":     {reader, rights.Entries{entry("get list watch", "Pod")}, "[{groups: [''], kinds: [Pod], verbs: [get, list, watch]}, {groups: [''], kinds: [Secret], verbs: [get, list, watch]}]"},
		"allowed":                   {reader, rights.Entries{entry("get list watch", "Secret")}, ""},
		"verbs of several entries":  {reader, rights.Entries{entry("get list", "Pod", "Secret"), entry("watch", "*")}, ""},
		"watches of Namespaces":     {abi.Controller{For: widgets.All(), Watches: []abi.Watch{{Followed: spaces.All(), By: abi.WatchByField, Field: "spec.n"}}}, nil, "[{groups: [''], kinds: [Namespace], verbs: [get, list, watch]}]"},
		"for a built-in kind":       {abi.Controller{For: configMaps.All()}, nil, "[{groups: [''], kinds: [ConfigMap], verbs: [get, list, watch]}]"},
		"for with a finalizer":      {abi.Controller{For: configMaps.All(), Finalizer: true}, rights.Entries{entry("get list watch", "ConfigMap")}, "[{groups: [''], kinds: [ConfigMap], verbs: [get, list, watch]}, {groups: [''], kinds: [ConfigMap], verbs: [get, list, watch, patch]}]"},
		"for a cluster-scoped kind": {abi.Controller{For: spaces.All(), Owns: abi.AllOf(configMaps)}, nil, "[{groups: [''], kinds: [ConfigMap], verbs: [get, list, watch, create, patch, delete], namespaces: ['*']}, {groups: [''], kinds: [Namespace], verbs: [get, list, watch]}]"},
		"writes":                    {abi.Controller{For: widgets.All(), Writes: []abi.Kind{configMaps}}, nil, "[{groups: [''], kinds: [ConfigMap], verbs: [create, patch, delete]}]"},
		"one verb of writes":        {abi.Controller{For: widgets.All(), Writes: []abi.Kind{configMaps}}, rights.Entries{entry("delete", "ConfigMap")}, ""},
		"a verb of reading":         {abi.Controller{For: widgets.All(), Writes: []abi.Kind{configMaps}}, rights.Entries{entry("get", "ConfigMap")}, "[{groups: [''], kinds: [ConfigMap], verbs: [get]}, {groups: [''], kinds: [ConfigMap], verbs: [create, patch, delete]}]"},
		"writes of Namespaces":      {abi.Controller{For: widgets.All(), Writes: []abi.Kind{spaces}}, rights.Entries{{Groups: []string{"*"}, Kinds: []string{"*"}, Verbs: []string{"*"}, Namespaces: []string{"a"}}}, "[{groups: ['*'], kinds: ['*'], verbs: ['*'], namespaces: [a]}, {groups: [''], kinds: [Namespace], verbs: [create, patch, delete]}]"},
		"writes of what it owns":    {abi.Controller{For: widgets.All(), Owns: abi.AllOf(configMaps), Writes: []abi.Kind{configMaps}}, nil, "[{groups: [''], kinds: [ConfigMap], verbs: [create, patch, delete]}]"},
	} {
		t.Run(name, func(t *testing.T) {
			url, listed := startCore(t)
			r := newRunner(t, url, "")
			err := startAs(t, r, c.allow, c.controller)
			wait, waits := errors.AsType[*catalog.WaitError](err)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			want := "the policy does not allow what the manifest asks for; write to p.yaml, beside the module, and leave its other fields as they are: " +
				"{apiVersion: thole.dev/v1alpha1, allow: " + c.want + "}; and to the file of --config: {allow: {entries: {p: " + c.want + "}}}"
			if !waits || !wait.Denied || wait.Reason != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if paths := listed(); paths != nil {
				t.Errorf("was read: %q", paths)
			}
			// What it says is what is missing.
			needed, err := config.Config{Allow: config.Ceiling{Entries: map[string]rights.Entries{config.EveryPlugin: rights.Everything()}}}.WithDefaults().
				ReadPolicy("p", []byte("{apiVersion: thole.dev/v1alpha1, allow: "+c.want+"}"))
			if err == nil {
				err = startAs(t, r, needed.Allow, c.controller)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheReasonNamesTheConfigurationOnlyIfThatIsTooNarrow(t *testing.T) {
	url, _ := startCore(t)
	r := newRunner(t, url, "")
	r.Ceiling = config.Ceiling{Entries: map[string]rights.Entries{"p": rights.Everything()}}
	err := startAs(t, r, nil, abi.Controller{For: widgets.All(), Reads: abi.AllOf(secrets)})
	if err == nil || strings.Contains(err.Error(), "--config") {
		t.Error(err)
	}
}

func TestPrimariesAreFollowedInTheNamespacesOfTheEntry(t *testing.T) {
	url, listed := startCore(t)
	r := newRunner(t, url, "")
	allow := rights.Entries{{Groups: []string{""}, Kinds: []string{"Secret"}, Verbs: []string{"get", "list", "watch"}, Namespaces: []string{"b", "a"}}}
	if err := startAs(t, r, allow, abi.Controller{For: secrets.All(), Owns: abi.AllOf(configMaps)}); err != nil {
		t.Fatal(err)
	}
	for _, path := range listed() {
		if path != "/namespaces/a/secrets" && path != "/namespaces/b/secrets" && path != "/configmaps" {
			t.Errorf("lists %s", path)
		}
	}
	reads := r.plugins["p"].controllers["c"].Revision().Scopes.Reads[secrets]
	if _, err := reads.Get(scope.Read{Namespace: "c"}); err == nil {
		t.Error("a Secret of another namespace may be read")
	}
}

// thole dev runs a plugin before it has a policy.
func TestWhatTheManifestAsksForIsAllowedInASession(t *testing.T) {
	url, _ := startCore(t)
	r := newRunner(t, url, "")
	logs := logtest.New(hclog.Warn)
	r.AllowRequested, r.Logger = true, logs.Logger
	c := abi.Controller{For: widgets.All(), Reads: abi.AllOf(secrets), Writes: []abi.Kind{spaces}}
	if err := startAs(t, r, nil, c); err != nil {
		t.Fatal(err)
	}
	const want = "{apiVersion: thole.dev/v1alpha1, allow: [{groups: [''], kinds: [Namespace], verbs: [create, patch, delete]}, {groups: [''], kinds: [Secret], verbs: [get, list, watch]}]}"
	logs.ExpectNext(t, hclog.Warn, "policy", want)
	other := c
	other.Watches = []abi.Watch{{Followed: gadgets.All(), By: abi.WatchByOwner}} // not served: it is tried again and again
	for _, controller := range []abi.Controller{c, other} {
		if err := startAs(t, r, nil, controller); err != nil && controller.Watches == nil {
			t.Fatal(err)
		}
		logs.ExpectNone(t)
	}
	running := r.plugins["p"]
	if !running.effects.Load().Allow.Reach(spaces, "", "delete").Cluster || !running.controllers["c"].Revision().Reads[secrets].Get.Own {
		t.Errorf("it runs with %s", running.effects.Load().Allow)
	}
	if err := startAs(t, r, rights.Entries{{Groups: []string{""}, Kinds: []string{"Secret"}, Verbs: []string{"get"}}}, c); err == nil {
		t.Error("a policy with entries does not bound the plugin")
	}
}

// letters is the field of a capability in policies.
type letters struct {
	To []string `json:"to,omitempty"`
}

func (*letters) Problems(*field.Path, string, config.Ceiling) []error { return nil }
func (*letters) Secrets() []rights.SecretRef                          { return nil }

func TestACapabilityNeedsThePolicy(t *testing.T) {
	url, _ := startCore(t)
	r := newRunner(t, url, "")
	logs := logtest.New(hclog.Warn)
	r.Logger = logs.Logger
	r.Sections = []config.Section{{
		Name: "letters", New: func() config.PolicySection { return &letters{} },
		Missing: func(_ config.PolicySection, written bool, m *abi.Manifest) config.MissingSection {
			section := string(m.Controllers[0].Section("letters"))
			if written || section == "" {
				return config.MissingSection{}
			}
			return config.MissingSection{Value: &letters{To: []string{section}}, Text: "{to: [" + section + "]}", Wildcard: section == "0"}
		},
	}}
	c := abi.Controller{For: widgets.All(), Sections: []abi.Section{{Name: "letters", Value: []byte("1")}}}
	const policy = "{apiVersion: thole.dev/v1alpha1, letters: {to: [1]}}"
	err := startAs(t, r, rights.Entries{}, c)
	if wait, ok := errors.AsType[*catalog.WaitError](err); !ok || !wait.Denied || !strings.Contains(wait.Reason, "write to p.yaml, beside the module, and leave its other fields as they are: "+policy) {
		t.Errorf("got %v, want %s", err, policy)
	}
	r.AllowRequested = true // thole dev
	if err := startAs(t, r, nil, c); err != nil {
		t.Error(err)
	}
	logs.ExpectNext(t, hclog.Warn, "policy", policy)
	c.Sections[0].Value = []byte("0") // more than it uses
	if wait, ok := errors.AsType[*catalog.WaitError](startAs(t, r, nil, c)); !ok || !strings.Contains(wait.Reason, "letters: {to: [0]}") {
		t.Errorf("more than the plugin uses: %v", wait)
	}
}
