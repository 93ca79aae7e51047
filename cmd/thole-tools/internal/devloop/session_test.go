package devloop

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/with/standard"
)

func TestInstalledPolicyFollowsTheFile(t *testing.T) {
	s := &session{home: t.TempDir()}
	s.Dir = t.TempDir()
	target := s.path("plugins", "p.yaml")
	tree(t, s.home, "plugins/x.wasm", "")
	for _, text := range []string{"", "dryRun: true\n", "dryRun: false\n", ""} {
		if text == "" {
			_ = os.Remove(filepath.Join(s.Dir, policyFile)) // it does not exist at first
		} else {
			tree(t, s.Dir, policyFile, text)
		}
		if err := s.installPolicy("p"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(target)
		if string(got) != text || os.IsNotExist(err) != (text == "") {
			t.Errorf("the policy is %q, %v, want %q", got, err, text)
		}
	}
}

func TestFallbackName(t *testing.T) {
	for dir, want := range map[string]string{"/a/podmanager": "podmanager", "/a/My-Plugin": "my-plugin", "/a/x_y": "plugin", "/": "plugin"} {
		if got := fallbackName(dir); got != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
}

func TestHostIsNotKeptWaiting(t *testing.T) {
	s := &session{notices: make(chan notice, 2)}
	for range 5 {
		s.notice(events.HostStarted{})
	}
	if got := s.missed.Load(); got != 3 {
		t.Errorf("missed %d, want 3", got)
	}
}

func TestLogSinkPassesWhatPeopleNeed(t *testing.T) {
	for name, c := range map[string]struct {
		log  func(hclog.Logger)
		want line
	}{
		"a warning of a stage": {
			func(l hclog.Logger) {
				l.Named("dispatch").With("object", "a/b").Warn("writes in every run", "writes", 1)
			},
			line{"host", "writes in every run object=a/b writes=1", wait},
		},
		"an error of client-go": {
			func(l hclog.Logger) { l.Named("client-go").Error("Failed to watch", "error", "refused") },
			line{"host", "Failed to watch error=refused", bad},
		},
		"a warning of client-go": {log: func(l hclog.Logger) { l.Named("client-go").Warn("throttled") }},
		"news of webhooks":       {log: func(l hclog.Logger) { l.Named("webhook").Info("written") }},
		"a detail of a stage":    {log: func(l hclog.Logger) { l.Named("effect").Debug("wrote") }},
	} {
		s := &session{notices: make(chan notice, 2)}
		logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "thole", Level: hclog.Debug, Output: hclog.DefaultOutput})
		logger.RegisterSink(logSink{s})
		c.log(logger)
		var got line
		if len(s.notices) > 0 {
			got = describeLog((<-s.notices).what.(logLine))[0]
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestReloadEndsWithTheFirstReconcileOfTheNewRevision(t *testing.T) {
	at := time.Now()
	after := func(d time.Duration) time.Time { return at.Add(d) }
	b := &build{changed: []string{"main.go"}, saved: at, noticed: after(60 * time.Millisecond), compiled: after(2700 * time.Millisecond), done: after(3 * time.Second), digest: "aa"}
	started := func(r *reload, digest string, revision int, d time.Duration) {
		r.started(events.PluginStarted{Revision: events.Revision{Digest: digest, Number: revision}}, after(d))
	}
	ended := func(r *reload, revision int, d time.Duration) (string, bool) {
		return r.ended(events.RunEnded{Run: events.Run{Revision: revision}}, after(d))
	}
	r := reload{build: b}
	if _, ok := ended(&r, 1, 3*time.Second); ok {
		t.Error("a reconcile of the old revision ended it")
	}
	started(&r, "bb", 7, time.Second)
	started(&r, "aa", 2, 3500*time.Millisecond)
	if _, ok := ended(&r, 1, 3600*time.Millisecond); ok {
		t.Error("a late reconcile of the old revision ended it")
	}
	want := "3.6 s after the save: noticed 60 ms, built 2.6 s, checked 300 ms, loaded 500 ms, first reconcile 80 ms"
	if got, ok := ended(&r, 2, 3580*time.Millisecond); !ok || got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if _, ok := ended(&r, 2, 4*time.Second); ok {
		t.Error("it ended twice")
	}

	first := reload{build: &build{digest: "aa"}}
	started(&first, "aa", 2, 3500*time.Millisecond)
	if _, ok := ended(&first, 2, 4*time.Second); ok {
		t.Error("there was no save before the first build")
	}
	late := reload{build: b}
	started(&late, "aa", 2, 3500*time.Millisecond)
	if _, ok := ended(&late, 2, time.Hour); ok {
		t.Error("an object that was made an hour later is not what a reload took")
	}
}

// What the file of --config bounds stays bounded, and where it has an address the host listens there.
func TestSessionServesAndAllowsWhatTheConfigurationDoesNotHave(t *testing.T) {
	sections := standard.Capabilities().Sections()
	for text, want := range map[string]struct {
		address string
		all     bool // webhooks are allowed to every plugin
	}{
		"":                                {"127.0.0.1:7", true},
		"webhooks: {listen: ':9443'}":     {":9443", true},
		"allow: {webhooks: [other]}":      {"127.0.0.1:7", false},
		"allow: {http: {p: [{host: a}]}}": {"127.0.0.1:7", true},
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := &session{home: t.TempDir(), reviews: "127.0.0.1:7"}
		var err error
		if s.Host, err = config.Read(file, sections...); err != nil {
			t.Fatal(err)
		}
		c := s.hostConfig()
		address := c.Listening()["webhooks"].Address()
		if _, all := c.Allow.SectionOf("webhooks", "p"); address != want.address || all != want.all || !s.listens() {
			t.Errorf("%s: the host listens at %s, and all is allowed: %t", text, address, all)
		}
		if err := c.WithDefaults().Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if s.reviews = ""; text == "" && s.listens() {
			t.Error("a session with a cluster of the user listens for it")
		}
	}
}
