package devloop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/thole-dev/thole/cmd/internal/child"
	"github.com/thole-dev/thole/cmd/internal/controlplane"
	"github.com/thole-dev/thole/cmd/internal/kubeconfig"
	"github.com/thole-dev/thole/cmd/internal/words"
)

// controlPlaneProgram is the embedded control plane.
const controlPlaneProgram = "thole-devcluster"

// findControlPlane returns the program that is named, or the one beside this
// program, or that of the PATH.
func findControlPlane(named string) (string, error) {
	advice := "build it by `make devcluster` in the repository of Thole, which takes some minutes the first time, and name it with --devcluster; or name a cluster of your own with --kubeconfig"
	if named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("the embedded control plane: %w: %s", err, advice)
		}
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), controlPlaneProgram)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(controlPlaneProgram)
	if err != nil {
		return "", fmt.Errorf("the embedded control plane: no %s beside thole or in PATH: %s", controlPlaneProgram, advice)
	}
	return path, nil
}

// startCluster makes the cluster ready: it starts the embedded control plane,
// unless there is a kubeconfig.
func (s *session) startCluster(ctx context.Context) (err error) {
	if s.Kubeconfig == "" {
		if err := s.startControlPlane(ctx); err != nil {
			return err
		}
		if s.cluster, err = kubeconfig.Load(s.kubeconfig()); err != nil {
			return err
		}
	} else {
		s.out.say("cluster", plain, "%s, as %s says", s.cluster.Host, s.Kubeconfig)
	}
	s.applier, err = newApplier(s.cluster)
	return err
}

func (s *session) startControlPlane(ctx context.Context) error {
	s.out.say("cluster", faint, "starting the embedded control plane")
	begun := time.Now()
	if err := os.MkdirAll(s.data(), 0o700); err != nil {
		return fmt.Errorf("make the directory of the control plane: %w", err)
	}
	cmd, ready, err := controlplane.Command(s.controlPlane, s.data(), s.kubeconfig())
	if err != nil {
		return err
	}
	process, err := child.Start("control plane", s.path("control-plane.log"), cmd, nil)
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	s.child = process
	go process.Watch(s.over, s.fail)
	select {
	case <-ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.out.say("cluster", good, "ready in %s; for kubectl in another terminal:", words.Duration(time.Since(begun)))
	s.out.text("export KUBECONFIG=" + quoted(s.kubeconfig()))
	return nil
}

// data is the directory of the control plane.
func (s *session) data() string {
	if s.Data != "" {
		return s.Data
	}
	return s.path("control-plane")
}

// kubeconfig is the path of the cluster's.
func (s *session) kubeconfig() string {
	switch {
	case s.Kubeconfig != "":
		return s.Kubeconfig
	case s.Data != "":
		return filepath.Join(s.Data, "kubeconfig")
	}
	return s.path("kubeconfig")
}

// applyBeside applies one of the files beside the source, if it is there and
// the cluster is one to apply it to.
func (s *session) applyBeside(ctx context.Context, name string) {
	if s.Kubeconfig != "" && !s.Apply {
		return
	}
	objects, err := readManifests(filepath.Join(s.Dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		s.out.say("error", bad, "read %s: %v", name, err)
		return
	}
	for _, o := range objects {
		if err := s.applier.apply(ctx, o); err != nil {
			s.out.say("error", bad, "apply %s of %s: %v", named(o), name, err)
			continue
		}
		s.out.say("applied", plain, "%s", named(o))
	}
}

// explain adds the end of its log to an error about a child that has ended.
func explain(err error) error {
	died, ok := errors.AsType[child.Ended](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%w; it said last:\n    %s", err, strings.Join(child.Tail(died.Log), "\n    "))
}
