package devloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/telemetry"
)

// session is one `thole dev`, from its start to its end. Its fields are used by
// the goroutine of run alone, except those that state otherwise.
type session struct {
	Config
	out  *printer
	fail context.CancelCauseFunc // safe for concurrent use
	over chan struct{}           // closed when the session ends

	cwd          string
	home         string // directory of everything temporary
	toolchain    pluginCompiler
	controlPlane string   // program
	process      *process // the control plane; nil if there is none of ours
	reviews      string   // where the control plane asks for reviews; "": a cluster of the user may not reach this machine
	cluster      *rest.Config
	client       *client
	host         *host.Host

	notices chan notice  // safe for concurrent use
	missed  atomic.Int64 // notices that the session was too slow for

	plugin string // name of the plugin in the directory; "": none
	digest string // of its module
	known  *build // the last one that was installed and that a host would load; nil before there is one
	reload reload
	watch  objectWatch
	sample sampleState
}

// notice is something that happened outside of the session's goroutine: an
// [events.Event], an *objectChange or a logLine.
type notice struct {
	at   time.Time
	what any
}

const (
	maxNotices     = 4096 // that may wait for the session
	maxBuildEvents = 64   // that may wait while the cluster starts
)

// run is the session. The first build is made while the cluster starts.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	s.notices = make(chan notice, maxNotices)
	s.watch = newObjectWatch(func(c *objectChange) { s.notice(c) })
	builds := make(chan buildEvent, maxBuildEvents)
	b := newBuilder(s.Dir, s.cwd, s.path("build"), s.toolchain, &moduleInspector{
		wanted: s.Name, known: fallbackName(s.Dir), host: s.hostConfig().WithDefaults(), compiler: s.Compiler, capabilities: s.Capabilities.Modules(),
	})
	background.Go(func() { b.run(ctx, builds) })
	if err := s.startCluster(ctx); err != nil {
		return err
	}
	defer s.watch.wait() // for the end of ctx
	defer cancel()
	s.applyFile(ctx, crdFile)
	s.sample.waits = true
	if err := s.newHost(ctx); err != nil {
		return err
	}
	for _, path := range s.host.Views() {
		s.out.say("host", plain, "http://%s%s", s.host.Address(), path)
	}
	s.out.say("build", faint, "the first one, by %s", s.toolchain)
	background.Go(func() {
		if err := s.host.Run(ctx); err != nil {
			s.fail(fmt.Errorf("run the host: %w", err))
		}
	})
	s.follow(ctx, builds)
	if errors.Is(context.Cause(ctx), context.Canceled) {
		s.out.say("stopping", faint, "Ctrl-C again does not wait for anything")
	}
	return nil
}

// newHost makes the host. What it reports comes to the session as notices; its
// log is written to Config.Log.
func (s *session) newHost(ctx context.Context) (err error) {
	options := hclog.LoggerOptions{Name: "thole", Level: hclog.Debug, Output: s.Log, JSONFormat: true, Mutex: &sync.Mutex{}, IndependentLevels: true}
	if s.Log == nil {
		options.Output = io.Discard
	}
	logger := hclog.NewInterceptLogger(&options)
	logger.RegisterSink(logSink{s})
	telemetry.BridgeKubernetes(logger)
	s.host, err = host.New(ctx, s.hostConfig(), host.Environment{
		Cluster: s.cluster, Logger: logger, Version: s.Version, Compiler: s.Compiler, AllowRequested: true, Capabilities: s.Capabilities,
		// The session shows events itself: their lines go to the log alone.
		Events: events.Observers(events.Func(func(e events.Event) { s.notice(e) }), telemetry.LogEvents(hclog.New(&options))),
	})
	return err
}

// hostConfig is the configuration of the host. A plugin is allowed what its policy asks
// for, unless the file of --config has entries: whoever runs the session has written both.
func (s *session) hostConfig() config.Config {
	c := s.Host
	c.Plugins = s.path("plugins")
	c.HostIdentity = true
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	if c.Allow.Entries == nil {
		c.Allow.Entries = map[string]rights.Entries{config.EveryPlugin: rights.Everything()}
	}
	c.Allow = c.Allow.WithAllSections()
	for _, l := range c.Listening() {
		if l.Address() == "" && s.reviews != "" {
			l.ListenLocally(s.reviews)
		}
	}
	return c
}

// freeAddress returns an address of this machine that nobody listens on. Its port is none of those that
// the system gives to others by itself: the control plane starts before the host listens.
func freeAddress() (string, error) {
	const first, system = 20000, 32768
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(system-first))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}

// notice passes something to the session. It is safe for concurrent use and never
// blocks the host: what the session is too slow for is counted.
func (s *session) notice(what any) {
	select {
	case s.notices <- notice{time.Now(), what}:
	default:
		s.missed.Add(1)
	}
}

// logLine is a line that a stage of the host logged, beside the events.
type logLine struct {
	level   hclog.Level
	message string
	fields  []any // names and values in turn
}

// logSink passes the log of the host to the session.
type logSink struct{ s *session }

var _ hclog.SinkAdapter = logSink{}

// Accept implements [hclog.SinkAdapter].
func (l logSink) Accept(name string, level hclog.Level, message string, fields ...any) {
	least := hclog.Info
	if strings.HasSuffix(name, ".client-go") || strings.HasSuffix(name, ".slog") {
		least = hclog.Error // client-go logs what is its own affair
	}
	if strings.HasSuffix(name, ".webhook") {
		least = hclog.Warn // certificates, and what is written with them
	}
	if level >= least {
		l.s.notice(logLine{level, message, fields})
	}
}

// follow handles what happens until ctx is done.
func (s *session) follow(ctx context.Context, builds <-chan buildEvent) {
	var deadline <-chan time.Time
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case e := <-builds:
			s.onBuildEvent(ctx, e)
		case n := <-s.notices:
			s.onNotice(ctx, n)
		case <-look.C:
		case <-deadline:
			s.fail(s.notReadyError())
		}
		s.applySample(ctx)
		if s.Once && s.plugin != "" && deadline == nil {
			deadline = time.After(s.Timeout)
		}
	}
}

func (s *session) onNotice(ctx context.Context, n notice) {
	if missed := s.missed.Swap(0); missed > 0 {
		s.out.say("...", wait, "%d lines were left out: more happens than can be shown", missed)
	}
	switch what := n.what.(type) {
	case events.Event:
		s.onEvent(ctx, n.at, what)
	case *objectChange:
		s.out.lines(describeChange(what))
		s.onSampleChange(n.at, what)
	case logLine:
		s.out.lines(describeLog(what))
	}
}

func (s *session) onEvent(ctx context.Context, at time.Time, event events.Event) {
	s.out.lines(describeEvent(event))
	switch e := event.(type) {
	case events.PluginStarted:
		s.reload.started(e, at)
		s.watchPlugin(ctx, e)
	case events.RunEnded:
		if text, ok := s.reload.ended(e, at); ok {
			s.out.say("reloaded", good, "%s", text)
		}
		s.sample.noteRun(e)
	}
	s.checkSample(at)
}

func (s *session) onBuildEvent(ctx context.Context, e buildEvent) {
	switch {
	case e.started != nil:
		s.out.say("changed", plain, "%s", s.listChanges(e.started.changed))
	case e.ended != nil:
		s.onBuilt(e.ended)
	default:
		s.onManifestsChanged(ctx, e.manifests)
	}
}

const maxFilesNamed = 3 // of a change

func (s *session) listChanges(paths []string) string {
	var names []string
	for _, path := range paths[:min(len(paths), maxFilesNamed)] {
		names = append(names, shortPath(path, s.cwd))
	}
	text := strings.Join(names, ", ")
	if more := len(paths) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// onBuilt shows how a build ended and installs a new module.
func (s *session) onBuilt(b *build) {
	took := shortDuration(b.done.Sub(b.noticed))
	if b.err != nil {
		s.out.say("error", bad, "no plugin after %s%s", took, s.keeping())
		s.out.text(b.err.Error())
		if s.Once {
			s.fail(errNotBuilt)
		}
		return
	}
	text := fmt.Sprintf("%s.wasm in %s, %d KiB, digest %s", b.name, took, (b.size+1023)/1024, runner.ShortDigest(b.digest))
	if b.digest == s.digest && b.name == s.plugin {
		s.out.say("built", plain, "%s; it is the same as before", text)
		return
	}
	s.out.say("built", good, "%s", text)
	if b.refused != "" && s.plugin != "" && b.name != s.plugin {
		// To install it would only end the running plugin, which has another name.
		s.out.say("refused", bad, "%s%s", b.refused, s.keeping())
		return
	}
	s.reload = reload{build: b}
	if err := s.install(b); err != nil {
		s.out.say("error", bad, "install the plugin: %v", err)
	}
}

// keeping ends a sentence about a build that changes nothing.
func (s *session) keeping() string {
	if s.plugin == "" {
		return ""
	}
	return "; keeping the previous one"
}

// install puts a build, with the policy, into the plugin directory.
func (s *session) install(b *build) error {
	if err := s.installPolicy(b.name); err != nil {
		return err
	}
	if err := os.Rename(b.file, s.path("plugins", b.name+".wasm")); err != nil {
		return err
	}
	before := s.plugin
	s.plugin, s.digest = b.name, b.digest
	if b.refused == "" {
		s.known = b
	}
	if before == "" || before == b.name {
		return nil
	}
	if err := os.Remove(s.path("plugins", before+".wasm")); err != nil {
		return err
	}
	return os.RemoveAll(s.path("plugins", before+".yaml")) // which may not exist
}

// installPolicy copies the policy beside the source, or removes the installed one
// if there is none.
func (s *session) installPolicy(name string) error {
	target := s.path("plugins", name+".yaml")
	text, err := os.ReadFile(filepath.Join(s.Dir, policyFile))
	if os.IsNotExist(err) {
		return os.RemoveAll(target)
	}
	if err != nil {
		return err
	}
	partial := s.path("plugins", "."+name+".yaml")
	if err := os.WriteFile(partial, text, 0o600); err != nil {
		return err
	}
	return os.Rename(partial, target)
}

// onManifestsChanged applies or installs files beside the source.
func (s *session) onManifestsChanged(ctx context.Context, names []string) {
	s.out.say("changed", plain, "%s", strings.Join(names, ", "))
	for _, name := range manifestFiles {
		switch {
		case !slices.Contains(names, name):
		case name == sampleFile:
			s.sample.waits = true // follow applies it
		case name == crdFile:
			s.applyFile(ctx, name)
		case s.plugin != "": // the policy
			if err := s.installPolicy(s.plugin); err != nil {
				s.out.say("error", bad, "install the policy: %v", err)
			}
		}
	}
}

// reload is a build on its way from the save to its first reconcile.
type reload struct {
	build    *build
	revision int       // 0 until it runs
	running  time.Time // since when it runs
}

// maxReload is how long after its start the first reconcile of a revision is taken
// for a consequence of the reload.
const maxReload = time.Minute

func (r *reload) started(e events.PluginStarted, at time.Time) {
	if r.build != nil && r.revision == 0 && e.Digest == r.build.digest {
		r.revision, r.running = e.Number, at
	}
}

// ended returns how long the reload took if e is the first reconcile of the new
// revision and there was a save.
func (r *reload) ended(e events.RunEnded, at time.Time) (text string, ok bool) {
	if r.revision == 0 || e.Revision != r.revision {
		return "", false
	}
	b, running := r.build, r.running
	r.build, r.revision = nil, 0
	if len(b.changed) == 0 || at.Sub(running) > maxReload {
		return "", false
	}
	var parts []string
	for _, part := range []struct {
		name string
		took time.Duration
	}{
		{"noticed", b.noticed.Sub(b.saved)},
		{"built", b.compiled.Sub(b.noticed)},
		{"checked", b.done.Sub(b.compiled)},
		{"loaded", running.Sub(b.done)},
		{"first reconcile", at.Sub(running)},
	} {
		parts = append(parts, part.name+" "+shortDuration(part.took))
	}
	return fmt.Sprintf("%s after the save: %s", shortDuration(at.Sub(b.saved)), strings.Join(parts, ", ")), true
}
