package devloop

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/cmd/internal/child"
	"github.com/thole-dev/thole/cmd/internal/words"
	"github.com/thole-dev/thole/host"
	"github.com/thole-dev/thole/host/telemetry"
)

// session is one `thole dev`, from its start to its end.
type session struct {
	Config
	out  *printer
	fail context.CancelCauseFunc

	cwd          string
	home         string // directory of all that is temporary
	toolchain    toolchain
	controlPlane string // program
	over         chan struct{}
	child        *child.Process // the control plane; nil if there is none of ours
	cluster      *rest.Config
	applier      *applier
	recorder     *recorder

	plugin string // the name of the plugin in the directory; "" if none is there
	digest string // of its module
	reload reload
	ahead  ahead
}

// manyNews is how much of the workshop waits while the cluster starts.
const manyNews = 64

// run is the session. The first build is made while the cluster starts.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	builds := make(chan news, manyNews)
	shop := newWorkshop(s.Dir, s.cwd, s.path("build"), s.toolchain, &identifier{
		wanted: s.Name, known: fallbackName(s.Dir), host: s.hostConfig().WithDefaults(), compiler: s.Compiler,
	})
	background.Go(func() { shop.run(ctx, builds) })
	if err := s.startCluster(ctx); err != nil {
		return err
	}
	s.applyBeside(ctx, crdFile)
	s.applyBeside(ctx, sampleFile)
	h, err := s.newHost(ctx)
	if err != nil {
		return err
	}
	s.out.say("host", plain, "http://%s/plugins", h.Address())
	s.out.say("build", faint, "the first one, by TinyGo")
	background.Go(func() {
		if err := h.Run(ctx); err != nil {
			s.fail(fmt.Errorf("run the host: %w", err))
		}
	})
	s.follow(ctx, builds)
	return nil
}

// newHost makes the host. It logs to the recorder, and nowhere else unless the
// user wants it.
func (s *session) newHost(ctx context.Context) (*host.Host, error) {
	log := s.Log
	if log == nil {
		log = io.Discard
	}
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: rootModule, Level: hclog.Debug, Output: log, JSONFormat: true})
	s.recorder = newRecorder()
	logger.RegisterSink(s.recorder)
	telemetry.BridgeKubernetes(logger)
	return host.New(ctx, s.hostConfig(), host.Environment{Cluster: s.cluster, Logger: logger, Version: s.Version, Compiler: s.Compiler})
}

// hostConfig is the host's. On a cluster of its own, a plugin is allowed what
// its policy asks for: nobody else is there to be protected.
func (s *session) hostConfig() host.Config {
	c := s.Host
	c.Plugins = s.path("plugins")
	c.HostIdentity = true
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	if s.Kubeconfig == "" {
		c.Allow.CrossNamespace = []string{host.EveryPlugin}
	}
	return c
}

// follow tells what happens until ctx is done.
func (s *session) follow(ctx context.Context, builds <-chan news) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case n := <-builds:
			s.take(ctx, n)
		case r := <-s.recorder.records:
			s.tell(r)
		}
	}
}

// tell tells a line of the host's log, and what follows from it. The first
// runs of a generation may be logged before it is said to run: they are told
// after that.
func (s *session) tell(r *record) {
	if n := s.recorder.missed.Swap(0); n > 0 {
		s.out.say("...", wait, "%d lines were left out: more happens than can be shown", n)
	}
	if s.ahead.early(r) {
		return
	}
	s.show(r)
	for _, held := range s.ahead.release(r) {
		s.show(held)
	}
}

func (s *session) show(r *record) {
	s.out.line(tell(r))
	switch r.text {
	case words.PluginRuns:
		s.reload.ran(r)
	case words.Reconciled, words.ReconcileWaits, words.ReconcileFailed:
		if text, ok := s.reload.reconciled(r); ok {
			s.out.say("reloaded", good, "%s", text)
		}
	}
}

// take tells what the workshop says, and puts a good build in place.
func (s *session) take(ctx context.Context, n news) {
	switch {
	case n.begun != nil:
		s.out.say("changed", plain, "%s", s.changes(n.begun.changed))
	case n.ended != nil:
		s.built(n.ended)
	default:
		s.besideChanged(ctx, n.beside)
	}
}

const mostNamed = 3 // files of a change

func (s *session) changes(paths []string) string {
	var names []string
	for _, path := range paths[:min(len(paths), mostNamed)] {
		names = append(names, typed(path, s.cwd))
	}
	text := strings.Join(names, ", ")
	if more := len(paths) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (s *session) built(b *build) {
	took := words.Duration(b.done.Sub(b.noticed))
	if b.err != nil {
		s.out.say("error", bad, "no plugin after %s%s", took, s.goesOn())
		s.out.text(b.err.Error())
		return
	}
	text := fmt.Sprintf("%s.wasm in %s, %d KiB, digest %s", b.name, took, (b.size+1023)/1024, short(b.digest))
	if b.digest == s.digest && b.name == s.plugin {
		s.out.say("built", plain, "%s; it is the same as before", text)
		return
	}
	s.out.say("built", good, "%s", text)
	if b.refused != "" && s.plugin != "" && b.name != s.plugin {
		// In place it would only end the one that runs under another name.
		s.out.say("refused", bad, "%s%s", b.refused, s.goesOn())
		return
	}
	s.reload = reload{build: b}
	if err := s.install(b); err != nil {
		s.out.say("error", bad, "put the plugin in place: %v", err)
	}
}

// goesOn is the end of a sentence about a build that changes nothing.
func (s *session) goesOn() string {
	if s.plugin == "" {
		return ""
	}
	return "; the last good one goes on"
}

// install puts a build, with the policy, into the host's directory.
func (s *session) install(b *build) error {
	if err := s.installPolicy(b.name); err != nil {
		return err
	}
	if err := os.Rename(b.file, s.path("plugins", b.name+".wasm")); err != nil {
		return err
	}
	before := s.plugin
	s.plugin, s.digest = b.name, b.digest
	if before == "" || before == b.name {
		return nil
	}
	if err := os.Remove(s.path("plugins", before+".wasm")); err != nil {
		return err
	}
	return os.RemoveAll(s.path("plugins", before+".yaml")) // there need be none
}

// installPolicy copies the policy beside the source, or takes away that of
// before if there is none.
func (s *session) installPolicy(name string) error {
	target := s.path("plugins", name+".yaml")
	text, err := os.ReadFile(filepath.Join(s.Dir, policyFile))
	if os.IsNotExist(err) {
		return os.RemoveAll(target) // there need be none
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

// besideChanged takes up files beside the source.
func (s *session) besideChanged(ctx context.Context, names []string) {
	s.out.say("changed", plain, "%s", strings.Join(names, ", "))
	for _, name := range besideFiles {
		switch {
		case !slices.Contains(names, name):
		case name != policyFile:
			s.applyBeside(ctx, name)
		case s.plugin != "":
			if err := s.installPolicy(s.plugin); err != nil {
				s.out.say("error", bad, "put the policy in place: %v", err)
			}
		}
	}
}
