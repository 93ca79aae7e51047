package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// script is one script while it runs. Its commands run one after the other in one
// goroutine.
type script struct {
	*Suite
	tb        testing.TB
	work      string        // $WORK
	namespace string        // $NS
	limit     time.Duration // of waits without -within
	plugins   string        // the plugin directory of the host
	installed []string      // names of the plugins in it

	own     *devcluster.Cluster // nil: the shared one is used
	cluster *devcluster.Cluster // nil until connected
	api     *api                // of the cluster, not through the proxy
	proxy   *tholetest.Proxy    // between the host and the cluster

	hosts      []*tholetest.Process // all that were started; the last one may run
	hostArgs   []string             // of the last `host start`
	stopped    bool                 // the last host was stopped by the script
	supervised bool
	service    *service // nil: the script has started none
	polled     func()   // called whenever a check is made; may be nil
}

// connect chooses the cluster, and starts what every script has in it: a namespace
// and a proxy. Later calls do nothing.
func (s *script) connect() (err error) {
	if s.cluster != nil {
		return nil
	}
	cluster := s.own
	if cluster == nil {
		if cluster, err = s.Suite.cluster(); err != nil {
			return err
		}
	}
	if s.api, err = newAPI(cluster.Config); err != nil {
		return err
	}
	s.cluster, s.proxy = cluster, tholetest.NewProxy(s.tb, cluster.Config)
	return s.createNamespace()
}

func (s *script) createNamespace() error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	_, err := s.api.clients.CoreV1().Namespaces().Create(s.tb.Context(), ns, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return err
	}
	// Without it, pods are refused.
	return await.Success(func() error {
		_, err := s.api.clients.CoreV1().ServiceAccounts(s.namespace).Get(s.tb.Context(), "default", metav1.GetOptions{})
		return err
	})
}

// permanentError is an error of a check that waiting does not end.
type permanentError struct{ error }

// await blocks until a check returns no error, within a limit, and then for as long
// as the check must continue to do so.
func (s *script) await(w wait, check func() error) (err error) {
	within := cmp.Or(w.within, s.limit)
	polled := s.polling(check)
	ok := await.Poll(within, func() bool {
		err = polled()
		var permanent permanentError
		return err == nil || errors.As(err, &permanent)
	})
	if !ok {
		return fmt.Errorf("not within %s: %w", within, err)
	}
	if err != nil || w.during == 0 {
		return err
	}
	return s.hold(w.during, check)
}

// polling returns a check that first does what must be done again and again.
func (s *script) polling(check func() error) func() error {
	return func() error {
		if s.polled != nil {
			s.polled()
		}
		if err := s.restartKilled(); err != nil {
			return err
		}
		return check()
	}
}

// hold returns an error as soon as a check does, nil if it does not for that time.
func (s *script) hold(during time.Duration, check func() error) (err error) {
	begin := time.Now()
	check = s.polling(check)
	await.Poll(during, func() bool {
		err = check()
		return err != nil
	})
	if err != nil && during > 0 {
		return fmt.Errorf("not for %s, but for %s: %w", during, time.Since(begin).Round(time.Millisecond), err)
	}
	return err
}

// running returns the host, and an error if there is none.
func (s *script) running() (*tholetest.Process, error) {
	if len(s.hosts) == 0 || s.stopped {
		return nil, errors.New("the host does not run: start it with `host start`")
	}
	host := s.hosts[len(s.hosts)-1]
	return host, host.Exited()
}

// log returns the text of the logs of all hosts of the script.
func (s *script) log() string {
	var text strings.Builder
	for _, host := range s.hosts {
		text.WriteString(host.Log.Tail(1<<30) + "\n")
	}
	return text.String()
}

// logTail returns the last lines of the log, for people.
func (s *script) logTail() string {
	lines := strings.Split(strings.TrimSpace(s.log()), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

const tailLines = 20
