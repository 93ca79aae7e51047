package scenario

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// host starts, stops and disturbs thole.
func host(s *script, args []string) error {
	if len(args) == 0 || len(args) > 1 && args[0] != "start" {
		return wrongUse("%d arguments", len(args))
	}
	do, ok := map[string]func(*script, []string) error{
		"start":      (*script).startHost,
		"stop":       (*script).stopHost,
		"kill":       (*script).killHost,
		"restart":    (*script).restartHost,
		"pause":      (*script).pauseHost,
		"continue":   (*script).continueHost,
		"await-exit": (*script).awaitExit,
		"supervise":  (*script).superviseHost,
	}[args[0]]
	if !ok {
		return wrongUse("%q", args[0])
	}
	return do(s, args[1:])
}

// startHost starts the host, with further arguments for `thole run`, and waits until
// every plugin runs unless the first one is -nowait.
func (s *script) startHost(args []string) error {
	if host, err := s.running(); host != nil && err == nil {
		return fmt.Errorf("the host runs already, with pid %d", host.PID())
	}
	nowait := len(args) > 0 && args[0] == "-nowait"
	if nowait {
		args = args[1:]
	}
	if s.own == nil && slices.ContainsFunc(args, isNamespaceFlag) {
		return fmt.Errorf("a host in other namespaces than $NS would act on objects of other scripts: begin the script with `cluster own`")
	}
	s.hostArgs, s.stopped = args, false
	s.launch()
	if nowait {
		return nil
	}
	return s.awaitPlugins()
}

// launch runs thole with the arguments of the last start.
func (s *script) launch() {
	h := tholetest.Host{
		Program: s.Program, Plugins: s.plugins, Kubeconfig: s.proxy.Kubeconfig, CacheDir: s.CacheDir,
		Args: append([]string{"--namespace", s.namespace}, s.hostArgs...),
	}
	host := h.Start(s.tb)
	s.tb.Cleanup(func() { s.cleanUp(host) }) // runs before that of Start, which stops the host
	s.hosts = append(s.hosts, host)
	s.proxy.SetProcess(host.PID())
}

// cleanUp makes a paused host able to stop. One that may be killed at any time is
// not expected to.
func (s *script) cleanUp(host *tholetest.Process) {
	host.Signal(syscall.SIGCONT)
	if !s.supervised {
		return
	}
	if err := host.Kill(); err != nil {
		s.tb.Error(err)
	}
}

func (s *script) awaitPlugins() error {
	return s.await(wait{}, func() error {
		host, err := s.running()
		switch {
		case err != nil && s.supervised:
			return err // the next check starts it again
		case err != nil:
			return permanentError{err}
		}
		for _, name := range s.installed {
			if !host.Running(name, 1) {
				_, readiness := host.Get("/readyz?verbose")
				return fmt.Errorf("plugin %s does not run or the host is not ready: %+v\n%s", name, host.Plugin(name), readiness)
			}
		}
		return nil
	})
}

func (s *script) stopHost([]string) error {
	host, err := s.running()
	if err != nil {
		return err
	}
	s.stopped, s.supervised = true, false
	return host.Stop()
}

func (s *script) killHost([]string) error {
	host, err := s.running()
	if err != nil {
		return err
	}
	s.stopped = !s.supervised
	return host.Kill()
}

func (s *script) restartHost([]string) error {
	if err := s.stopHost(nil); err != nil {
		return err
	}
	return s.startHost(s.hostArgs)
}

func (s *script) pauseHost([]string) error { return s.signal(syscall.SIGSTOP) }

func (s *script) continueHost([]string) error { return s.signal(syscall.SIGCONT) }

func (s *script) signal(signal syscall.Signal) error {
	host, err := s.running()
	if err == nil {
		host.Signal(signal)
	}
	return err
}

// awaitExit waits until a fault has killed the host.
func (s *script) awaitExit([]string) error {
	if len(s.hosts) == 0 || s.stopped {
		return fmt.Errorf("the host does not run: there is nothing to wait for")
	}
	host := s.hosts[len(s.hosts)-1]
	if !await.Poll(s.limit, func() bool { return host.Exited() != nil }) {
		return fmt.Errorf("not within %s: the host exits", s.limit)
	}
	if !host.Killed() {
		return host.Exited()
	}
	s.stopped = true
	return host.Kill()
}

// superviseHost makes the checks of the script start the host again whenever it was
// killed, as the kubelet does, until `host stop`.
func (s *script) superviseHost([]string) error {
	if s.supervised {
		return nil // it may have been killed by now
	}
	_, err := s.running()
	s.supervised = err == nil
	return err
}

// restartKilled starts a supervised host again if it was killed.
func (s *script) restartKilled() error {
	if !s.supervised {
		return nil
	}
	host := s.hosts[len(s.hosts)-1]
	switch err := host.Exited(); {
	case err == nil:
		return nil
	case !host.Killed():
		return permanentError{err}
	}
	if err := host.Kill(); err != nil { // has a data race
		return permanentError{err}
	}
	s.launch()
	return nil
}

func isNamespaceFlag(arg string) bool {
	return arg == "--namespace" || strings.HasPrefix(arg, "--namespace=")
}
