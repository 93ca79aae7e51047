package scenario

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/internal/repository"
)

// Suite is what the scripts of a test binary share.
type Suite struct {
	// Program is the path of thole.
	Program string
	// CacheDir is where the hosts keep their compile caches.
	CacheDir string
	// Plugins are the directories in which the command plugin looks for a name, the
	// first one first.
	Plugins []string
	// Flags are those of thole-devcluster.
	Flags []string

	started sync.Once
	shared  *devcluster.Cluster
	err     error // of the start
}

// parallel is how many scripts run at once on two processors. Each has a host, which
// waits for most of its time, and shares an API server; with more of them, time limits
// would depend on the machine.
const parallel = 3

// Params returns the parameters of [testscript.Run] for the scripts in a directory.
func (s *Suite) Params(dir string) testscript.Params {
	slots := make(chan struct{}, parallel)
	return testscript.Params{
		Dir:  dir,
		Cmds: commands(),
		Setup: func(env *testscript.Env) error {
			slots <- struct{}{}
			tb := env.T().(testing.TB) // as documented for testscript.Run
			tb.Cleanup(func() { <-slots })
			return s.setup(env, tb, &script{limit: await.Limit})
		},
		Condition: inFaults(false),
	}
}

// inFaults returns the condition [faults] of scripts.
func inFaults(is bool) func(condition string) (bool, error) {
	return func(condition string) (bool, error) {
		if condition != "faults" {
			return false, fmt.Errorf("unknown condition %q", condition)
		}
		return is, nil
	}
}

// setup prepares a script in its environment. The script connects to its control
// plane later, see [script.connect].
func (s *Suite) setup(env *testscript.Env, tb testing.TB, sc *script) error {
	root, err := repository.Root()
	if err != nil {
		return err
	}
	sc.Suite, sc.tb, sc.work = s, tb, env.WorkDir
	sc.plugins, sc.namespace = tb.TempDir(), namespaceFor(tb.Name())
	env.Values[scriptKey{}] = sc
	env.Setenv("NS", sc.namespace)
	env.Setenv("REPO", root)
	return nil
}

// scriptKey is the key of the *script in the values of a testscript.
type scriptKey struct{}

// namespaceFor returns a namespace that no other script has.
func namespaceFor(test string) string {
	name := strings.ToLower(test[strings.LastIndexByte(test, '/')+1:])
	name = strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name), "-")
	return fmt.Sprintf("s-%.40s-%s", name, rand.String(5))
}

// cluster returns the control plane that scripts share.
func (s *Suite) cluster() (*devcluster.Cluster, error) {
	s.started.Do(func() { s.shared, s.err = devcluster.StartMain(s.Flags...) })
	return s.shared, s.err
}

// Close stops the control plane if a script has started it. Scripts must have
// ended.
func (s *Suite) Close() error {
	if s.shared == nil {
		return nil
	}
	return s.shared.Stop()
}
