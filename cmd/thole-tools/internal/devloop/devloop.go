package devloop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/with"
	"github.com/thole-dev/thole/internal/kubeconfig"
	"github.com/thole-dev/thole/internal/toolchain"
)

// Config configures a session.
type Config struct {
	Dir  string // of the plugin's main package
	Name string // of the plugin; "": as the module states, else the base name of Dir
	// Host is the configuration of the host, without Plugins. Plugins act with
	// its rights.
	Host config.Config

	Go         bool   // the compiler is standard Go
	TinyGo     string // the compiler otherwise; "": it is searched for
	Devcluster string // the program of the embedded control plane; "": it is searched for
	Data       string // directory of the control plane's data; "": a temporary one
	Kubeconfig string // of another cluster to use; "": the embedded control plane
	Apply      bool   // apply crd.yaml and sample.yaml to that cluster, too

	// Once ends the session when every object of sample.yaml is Ready. It is an
	// error if the plugin does not build, or if that takes longer than Timeout,
	// counted from the first build or from the apply of the sample, whichever is
	// later.
	Once    bool
	Timeout time.Duration

	Output io.Writer
	Colour bool
	Log    io.Writer       // receives the whole log of the host, as JSON; nil: none
	Hurry  <-chan struct{} // when it is closed the session ends without waiting for anything

	Version string // of the host
	// Compiler is a program with arguments that runs sandbox.Compiler; nil: the
	// host compiles plugins in its own process.
	Compiler []string
	// Capabilities are those of the host.
	Capabilities with.List
}

// Run builds and runs the plugin until ctx is done, which is no error unless
// Config.Once is set, or until the cluster or the host fails. It leaves nothing
// behind but Config.Data.
func Run(ctx context.Context, c Config) error {
	s := &session{Config: c, over: make(chan struct{}), sample: newSampleState()}
	ctx, s.fail = context.WithCancelCause(ctx)
	defer s.fail(nil)
	s.out = &printer{out: c.Output, colour: c.Colour, lost: func() { s.fail(errOutputClosed) }}
	if err := s.prepare(ctx); err != nil {
		return s.cause(ctx, err)
	}
	err := s.run(ctx)
	return errors.Join(s.cause(ctx, err), s.finish())
}

var (
	// errOutputClosed ends a session whose output is a pipe that was closed.
	errOutputClosed = errors.New("the output was closed")
	// errDone ends a session that has reached its goal.
	errDone = errors.New("the sample is Ready")
	// errNotBuilt is the end of a session with Once whose plugin does not build.
	errNotBuilt = errors.New("the plugin does not build")
	// errInterrupted is the end of a session with Once before its goal.
	errInterrupted = errors.New("interrupted before the sample was Ready")
)

// cause returns what ended the session, nil if that is no error.
func (s *session) cause(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, errDone):
		return nil
	case errors.Is(cause, errOutputClosed), errors.Is(cause, context.Canceled):
		if s.Once {
			return errInterrupted
		}
		return nil
	default:
		return withLog(cause)
	}
}

// prepare finds everything that a session needs, before anything is started.
func (s *session) prepare(ctx context.Context) (err error) {
	if s.Name != "" && !abi.ValidName(s.Name) {
		return fmt.Errorf("name: %q is not a DNS label (lower-case letters, digits and '-')", s.Name)
	}
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return err
	}
	if err := checkPackage(ctx, s.Dir, tagsOf(s.Go)); err != nil {
		return err
	}
	if s.Once {
		if _, err := readManifests(filepath.Join(s.Dir, sampleFile)); err != nil {
			return fmt.Errorf("read %s, whose objects --once waits for: %w", sampleFile, err)
		}
	}
	if s.cwd, err = os.Getwd(); err != nil {
		return err
	}
	if !s.Go {
		if s.toolchain.Compiler, err = toolchain.FindTinyGo(s.TinyGo, s.Dir); err != nil {
			return err
		}
	}
	if s.Kubeconfig != "" {
		s.cluster, err = kubeconfig.Load(s.Kubeconfig)
	} else if s.controlPlane, err = findControlPlane(s.Devcluster); err == nil {
		s.reviews, err = freeAddress()
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
		return fmt.Errorf("make a directory: %w; set TMPDIR to a directory that can be written", err)
	}
	return os.Mkdir(s.path("plugins"), 0o700)
}

// finish stops the control plane and removes temporary files.
func (s *session) finish() (err error) {
	close(s.over)
	if s.process != nil {
		err = s.process.stop()
	}
	if err = errors.Join(err, removeAll(s.home)); err != nil {
		return err
	}
	switch {
	case s.Data != "":
		s.out.say("stopped", plain, "the data of the cluster stays in %s", s.Data)
	case s.Kubeconfig != "":
		s.out.say("stopped", plain, "what the plugin has made stays in the cluster")
	default:
		s.out.say("stopped", plain, "nothing is left behind")
	}
	return nil
}

// path is a path in the session's own directory.
func (s *session) path(elem ...string) string {
	return filepath.Join(append([]string{s.home}, elem...)...)
}

// fallbackName makes the name of a plugin from that of a directory.
func fallbackName(dir string) string {
	name := strings.ToLower(filepath.Base(dir))
	if !abi.ValidName(name) {
		return "plugin"
	}
	return name
}
