package egress

import (
	"sync"
	"time"

	"k8s.io/utils/lru"

	contract "github.com/thole-dev/thole/abi/http"
)

const (
	// circuitFailures in a row open the circuit of a host.
	circuitFailures = 5
	// firstPause is how long a circuit is open at first. It doubles with each probe that
	// fails, up to lastPause.
	firstPause = 5 * time.Second
	lastPause  = time.Minute
	// maxCircuits bounds how many hosts are remembered. Only those that fail are: a plugin
	// cannot drop one by requests to hosts that work.
	maxCircuits = 256
)

// circuits remember the hosts whose last requests have failed.
type circuits struct {
	now func() time.Time

	mu     sync.Mutex
	byHost *lru.Cache // of *circuit, by host and port
}

// circuit is a host whose last requests have failed.
type circuit struct {
	failures int
	pause    time.Duration // 0: it was never open
	until    time.Time     // it is open; zero if it is closed
	probing  bool          // one request is on its way to find out whether the host works again
}

func newCircuits(now func() time.Time) *circuits {
	return &circuits{now: now, byHost: lru.New(maxCircuits)}
}

// enter returns an error if no request may be sent to a host. Otherwise the result of the request
// must be given to the function that it returns. Errors that say nothing about the host, such as the
// end of the run, change nothing.
func (all *circuits) enter(host string) (leave func(err error), err error) {
	if all == nil {
		return func(error) {}, nil
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	c := all.get(host)
	if c == nil || c.until.IsZero() {
		return func(err error) { all.count(host, err) }, nil
	}
	left := c.until.Sub(all.now())
	if left <= 0 && !c.probing {
		c.probing = true
		return func(err error) { all.probed(host, c, err) }, nil
	}
	return nil, failed(contract.CircuitOpen, "the last requests to %s failed; the next one is sent in %s", host, max(left, time.Second).Round(time.Second))
}

func (all *circuits) get(host string) *circuit {
	if c, ok := all.byHost.Get(host); ok {
		return c.(*circuit)
	}
	return nil
}

// count counts the result of a request under a closed circuit.
func (all *circuits) count(host string, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	c := all.get(host)
	switch {
	case err == nil, answers(err):
		if c != nil && c.until.IsZero() { // else it has opened meanwhile, and the probe decides
			all.byHost.Remove(host)
		}
		return
	case !breaks(err):
		return
	case c == nil:
		c = &circuit{}
		all.byHost.Add(host, c)
	}
	if c.failures++; c.failures >= circuitFailures && c.until.IsZero() {
		c.open(all.now())
	}
}

// probed counts the result of the one request under an open circuit.
func (all *circuits) probed(host string, c *circuit, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	c.probing = false
	switch {
	case err == nil, answers(err):
		all.byHost.Remove(host)
	case breaks(err):
		c.open(all.now())
	}
}

func (c *circuit) open(now time.Time) {
	c.pause = min(max(2*c.pause, firstPause), lastPause)
	c.until = now.Add(c.pause)
}
