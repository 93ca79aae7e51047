package devloop

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/cmd/internal/words"
)

// logged is what the session says of what a host logs, by the logger that the
// host is given.
func logged(t *testing.T, log func(hclog.Logger)) []line {
	t.Helper()
	var whole bytes.Buffer
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: rootModule, Level: hclog.Debug, Output: &whole, JSONFormat: true})
	r := newRecorder()
	logger.RegisterSink(r)
	log(logger)
	var lines []line
	for len(r.records) > 0 {
		lines = append(lines, tell(<-r.records))
	}
	if !json.Valid(bytes.TrimSpace(whole.Bytes())) {
		t.Errorf("the whole log is not JSON: %s", whole.String())
	}
	return lines
}

func TestTheStory(t *testing.T) {
	const digest = "0123456789abcdef"
	run := func(l hclog.Logger) hclog.Logger {
		return l.Named("dispatch").With("plugin", "p", "controller", "c").With("object", "default/a", "generation", 2, "reconcileID", "ff")
	}
	catalog := func(l hclog.Logger) hclog.Logger { return l.Named("catalog").With("plugin", "p", "digest", digest) }
	for name, c := range map[string]struct {
		log  func(hclog.Logger)
		want line
	}{
		"reconciled": {
			func(l hclog.Logger) {
				run(l).Debug(words.Reconciled, "result", "success", "duration", "1.5s", "writes", 2, "attempt", 0, "fuel", uint64(7))
			},
			line{"reconcile", "default/a: success, 2 writes, 1.5 s", plain},
		},
		"nothing to write, again later": {
			func(l hclog.Logger) {
				run(l).Debug(words.Reconciled, "result", "requeue_after", "duration", "212µs", "writes", 0, "attempt", 0, "next", "30s")
			},
			line{"reconcile", "default/a: requeue after, nothing to write, 1 ms, again in 30 s", faint},
		},
		"failed": {
			func(l hclog.Logger) {
				run(l).Warn(words.ReconcileFailed, "result", "error", "duration", "12ms", "writes", 1, "attempt", 3, "next", "2s", "class", "retry", "reason", "NoAnswer", "message", "it is\n  away")
			},
			line{"reconcile", "default/a: failed (retry), 1 write, 12 ms, attempt 3, again in 2.0 s; NoAnswer: it is away", bad},
		},
		"waits": {
			func(l hclog.Logger) {
				run(l).Info(words.ReconcileWaits, "result", "waiting", "duration", "12ms", "writes", 1, "attempt", 0, "reason", "PodTerminating", "message", "a new one follows")
			},
			line{"reconcile", "default/a: waiting, 1 write, 12 ms; PodTerminating: a new one follows", wait},
		},
		"a cluster-scoped object": {
			func(l hclog.Logger) {
				l.Named("dispatch").Debug(words.Reconciled, "object", "/a", "result", "success", "duration", "1ms", "writes", 1)
			},
			line{"reconcile", "a: success, 1 write, 1 ms", plain},
		},
		"a line of the plugin": {
			func(l hclog.Logger) { run(l).Named("guest").Debug("greeted", "name", "world", "guest.object", "x") },
			line{"log", "default/a: greeted name=world guest.object=x", faint},
		},
		"a warning of the plugin": {
			func(l hclog.Logger) { run(l).Named("guest").Warn("odd") },
			line{"log", "default/a: warn: odd", wait},
		},
		"runs": {
			func(l hclog.Logger) {
				catalog(l).Info(words.PluginRuns, "generation", 2, "version", "0.1.0", "controllers", []string{"c"})
			},
			line{"runs", "p generation 2, version 0.1.0, digest 0123456789ab", good},
		},
		"runs without a version": {
			func(l hclog.Logger) { catalog(l).Info(words.PluginRuns, "generation", 1, "version", "") },
			line{"runs", "p generation 1, digest 0123456789ab", good},
		},
		"waits for a CRD": {
			func(l hclog.Logger) { catalog(l).Warn(words.PluginWaits, "reason", "a/v1, Kind=B is not served") },
			line{"waits", "p: a/v1, Kind=B is not served", wait},
		},
		"a new one waits": {
			func(l hclog.Logger) {
				catalog(l).Warn(words.NewWaits, "running", "fedcba9876543210", "reason", "B is not served")
			},
			line{"waits", "B is not served; the last good one goes on: digest fedcba987654", wait},
		},
		"refused": {
			func(l hclog.Logger) {
				catalog(l).Error(words.PluginFails, "step", "verify", "error", errors.New("no\nexport"))
			},
			line{"refused", "verify: no export", bad},
		},
		"a new one refused": {
			func(l hclog.Logger) {
				catalog(l).Error(words.NewRefused, "step", "verify", "running", "fedcba9876543210", "error", errors.New("no export"))
			},
			line{"refused", "verify: no export; the last good one goes on: digest fedcba987654", bad},
		},
		"rolled back": {
			func(l hclog.Logger) { catalog(l).Error(words.RolledBack, "to", 1, "reason", "3 of 3 runs failed") },
			line{"rollback", "to generation 1: 3 of 3 runs failed", bad},
		},
		"stopped": {
			func(l hclog.Logger) { l.Named("catalog").Info(words.PluginStopped, "plugin", "p") },
			line{"stopped", "p", plain},
		},
		"another thing that the host says": {
			func(l hclog.Logger) { run(l).Warn("writes in every run", "writes", 1) },
			line{"host", "writes in every run object=default/a writes=1", wait},
		},
		"what client-go calls an error": {
			func(l hclog.Logger) { l.Named("client-go").Error("Failed to watch", "error", "refused") },
			line{"host", "Failed to watch error=refused", bad},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := logged(t, c.log); len(got) != 1 || got[0] != c.want {
				t.Errorf("told\n%+v, want\n%+v", got, c.want)
			}
		})
	}
}

func TestWhatIsNotTold(t *testing.T) {
	for name, log := range map[string]func(hclog.Logger){
		"the host's own start": func(l hclog.Logger) { l.Info(words.HostStarts) },
		"client-go's affairs":  func(l hclog.Logger) { l.Named("client-go").Warn("throttled") },
		"details":              func(l hclog.Logger) { l.Named("effect").Debug("wrote") },
	} {
		if got := logged(t, log); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAHostIsNotKeptWaiting(t *testing.T) {
	r := newRecorder()
	for range manyRecords + 3 {
		r.Accept(rootModule, hclog.Info, "x")
	}
	if got := r.missed.Load(); got != 3 {
		t.Errorf("missed %d, want 3", got)
	}
}

func TestReload(t *testing.T) {
	at := time.Now()
	after := func(d time.Duration) time.Time { return at.Add(d) }
	b := &build{changed: []string{"main.go"}, saved: at, noticed: after(60 * time.Millisecond), compiled: after(2700 * time.Millisecond), done: after(3 * time.Second), digest: "aa"}
	runs := &record{at: after(3500 * time.Millisecond), fields: []field{{"digest", "aa"}, {"generation", 2}}}
	of := func(generation int, d time.Duration) *record {
		return &record{at: after(d), fields: []field{{"generation", generation}}}
	}
	r := reload{build: b}
	if _, ok := r.reconciled(of(1, 3*time.Second)); ok {
		t.Error("a reconcile of the old generation ended it")
	}
	r.ran(&record{at: after(time.Second), fields: []field{{"digest", "bb"}, {"generation", 7}}})
	r.ran(runs)
	if _, ok := r.reconciled(of(1, 3600*time.Millisecond)); ok {
		t.Error("a late reconcile of the old generation ended it")
	}
	want := "3.6 s after the save: noticed 60 ms, built 2.6 s, checked 300 ms, loaded 500 ms, first reconcile 80 ms"
	if got, ok := r.reconciled(of(2, 3580*time.Millisecond)); !ok || got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if _, ok := r.reconciled(of(2, 4*time.Second)); ok {
		t.Error("told twice")
	}

	first := reload{build: &build{digest: "aa"}}
	first.ran(runs)
	if _, ok := first.reconciled(of(2, 4*time.Second)); ok {
		t.Error("the first build was no save")
	}
	late := reload{build: b}
	late.ran(runs)
	if _, ok := late.reconciled(of(2, time.Hour)); ok {
		t.Error("an object that was made an hour later is not what a reload took")
	}
}

func TestRelocate(t *testing.T) {
	text := "# example.com/x\nmain.go:1:2: undefined: a\n../lib/lib.go:3: b: c\n/opt/go/d.go:4:5: e\n\tmain.go:9:9: more\ngo: main: no"
	want := "# example.com/x\nplugins/x/main.go:1:2: undefined: a\nplugins/lib/lib.go:3: b: c\n/opt/go/d.go:4:5: e\n\tmain.go:9:9: more\ngo: main: no"
	if got := relocate(text, "/home/me/plugins/x", "/home/me"); got != want {
		t.Errorf("it is\n%s", got)
	}
	if got := relocate("main.go:1:2: a", "/home/me/x", "/home/me/x"); got != "main.go:1:2: a" {
		t.Errorf("in the folder itself: %s", got)
	}
}

func TestOnly(t *testing.T) {
	for text, want := range map[string]bool{
		"# x\ngen.go:1:2: a\n../y/gen.go:2: b": true,
		"gen.go:1:2: a\nmain.go:1:2: b":        false,
		"nothing":                              false,
	} {
		if got := only(text, "gen.go"); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestPrinter(t *testing.T) {
	var out strings.Builder
	p := &printer{out: &out}
	p.line(line{"log", "red \x1b[31mtext\x07\r", bad})
	if got := out.String(); !strings.HasSuffix(got, "  log        red [31mtext\n") || strings.Contains(got, "\x1b") {
		t.Errorf("without colour: %q", got)
	}
	out.Reset()
	p.colour = true
	p.line(line{"log", "text", bad})
	if got := out.String(); !strings.HasPrefix(got, "\x1b[2m") || !strings.HasSuffix(got, "  log        \x1b[31mtext\x1b[0m\n") {
		t.Errorf("with colour: %q", got)
	}
	lost := false
	(&printer{out: broken{}, lost: func() { lost = true }}).text("x")
	if !lost {
		t.Error("nobody was told that nobody reads")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }
