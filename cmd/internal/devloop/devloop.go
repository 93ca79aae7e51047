package devloop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/thole-dev/thole/abi"

	"github.com/thole-dev/thole/cmd/internal/child"
	"github.com/thole-dev/thole/cmd/internal/kubeconfig"
	"github.com/thole-dev/thole/host"
)

// Config is what a session is given.
type Config struct {
	Dir  string // of the plugin's main package
	Name string // of the plugin; "": as the module says, else Dir's base name
	// Host is the configuration of the host, without Plugins; plugins act with
	// its rights.
	Host host.Config

	TinyGo     string // the compiler; "": found
	Devcluster string // the embedded control plane; "": found
	Data       string // directory in which it keeps its data; "": a temporary one
	Kubeconfig string // of another cluster to use; "": the embedded control plane
	Apply      bool   // crd.yaml and sample.yaml to that one, too

	Output  io.Writer
	Colour  bool
	Log     io.Writer       // the host's whole log, as JSON; nil: nowhere
	Hurry   <-chan struct{} // closed: end without waiting for anything
	Version string          // of the host
	// Compiler is a program with arguments that runs sandbox.Compiler; nil:
	// the host compiles plugins in its own process.
	Compiler []string
}

// Run builds and runs the plugin until ctx is done, which is no error, or the
// cluster or the host has failed. Nothing that it has started or made is left
// then, but Data.
func Run(ctx context.Context, c Config) error {
	s := &session{Config: c, over: make(chan struct{})}
	ctx, s.fail = context.WithCancelCause(ctx)
	defer s.fail(nil)
	s.out = &printer{out: c.Output, colour: c.Colour, lost: func() { s.fail(errUnread) }}
	if err := s.prepare(ctx); err != nil {
		return explained(ctx, err)
	}
	err := s.run(ctx)
	return errors.Join(explained(ctx, err), s.finish())
}

// errUnread ends a session whose output is a pipe that nobody reads any more.
var errUnread = errors.New("nobody reads the output any more")

// explained is what has really ended the session; nil if the user has.
func explained(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, errUnread), errors.Is(cause, context.Canceled):
		return nil
	default:
		return explain(cause)
	}
}

// prepare looks for all that a session needs before anything is started.
func (s *session) prepare(ctx context.Context) (err error) {
	if s.Name != "" {
		if err := checkName(s.Name); err != nil {
			return err
		}
	}
	given := s.Dir
	if s.Dir, err = filepath.Abs(given); err != nil {
		return err
	}
	if err := checkPackage(ctx, s.Dir); err != nil {
		return err
	}
	if s.cwd, err = os.Getwd(); err != nil {
		return err
	}
	near := []string{s.Dir, s.cwd}
	if self, err := os.Executable(); err == nil {
		near = append(near, filepath.Dir(self))
	}
	if s.toolchain, err = findToolchain(s.TinyGo, near...); err != nil {
		return err
	}
	if s.Kubeconfig != "" {
		s.cluster, err = kubeconfig.Load(s.Kubeconfig)
	} else {
		s.controlPlane, err = findControlPlane(s.Devcluster)
	}
	if err != nil {
		return fmt.Errorf("find a cluster: %w", err)
	}
	if s.Data != "" {
		if s.Data, err = filepath.Abs(s.Data); err != nil {
			return err
		}
	}
	if s.home, err = os.MkdirTemp("", "thole-dev-"); err != nil {
		return fmt.Errorf("make a directory: %w; set TMPDIR to one that can be written", err)
	}
	return os.Mkdir(s.path("plugins"), 0o700)
}

// finish stops the control plane and removes what is temporary.
func (s *session) finish() (err error) {
	close(s.over)
	if s.child != nil {
		err = s.child.Stop(s.Hurry)
	}
	err = errors.Join(err, child.RemoveAll(s.home))
	if err != nil {
		return err
	}
	switch {
	case s.Data != "":
		s.out.say("stopped", plain, "the cluster's data stays in %s", s.Data)
	case s.Kubeconfig != "":
		s.out.say("stopped", plain, "what the plugin has made stays in the cluster")
	default:
		s.out.say("stopped", plain, "nothing is left")
	}
	return nil
}

// path is a path in the session's own directory.
func (s *session) path(elem ...string) string {
	return filepath.Join(append([]string{s.home}, elem...)...)
}

// checkName: the name of a plugin is that of its file, too.
func checkName(name string) error {
	if !abi.ValidName(name) {
		return fmt.Errorf("name %q: a plugin's name is a DNS label: lower-case letters, digits and '-'", name)
	}
	return nil
}

// fallbackName makes a name of a directory's.
func fallbackName(dir string) string {
	name := strings.ToLower(filepath.Base(dir))
	if !abi.ValidName(name) {
		return "plugin"
	}
	return name
}

// quoted is a path as a shell takes it.
func quoted(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%:,", r)
	}) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
