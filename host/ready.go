package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/serve"
)

// checks are the parts of readiness: the API server answers, the directory
// was scanned, and every plugin runs, waits or has failed. A plugin runs only
// once its informers have read the API server.
func (h *Host) checks() []serve.Check {
	checks := []serve.Check{
		{Name: "API server", Ready: h.api.reached},
		{Name: "plugin directory", Ready: func() error {
			switch {
			case !h.catalog.Filled():
				return errors.New("was not read yet: if it cannot be, the log says why")
			case !h.catalog.Settled():
				return errors.New("its plugins are being loaded")
			}
			return nil
		}},
	}
	for _, s := range h.catalog.Statuses() {
		checks = append(checks, serve.Check{Name: fmt.Sprintf("plugin %s: %s", s.Name, s.State), Ready: func() error {
			if s.State == catalog.Loading {
				return errors.New("is being loaded")
			}
			return nil
		}})
	}
	return checks
}

const (
	// apiCheckTimeout is below the second that a kubelet gives a probe.
	apiCheckTimeout = 900 * time.Millisecond
	// apiCheckPeriod is how long an answer is believed, apiCheckRetry how long
	// that there was none.
	apiCheckPeriod = 5 * time.Second
	apiCheckRetry  = time.Second
)

// apiCheck asks the API server whether it is there.
type apiCheck struct {
	client rest.Interface

	mu      sync.Mutex
	checked time.Time
	err     error
}

func newAPICheck(cluster *rest.Config) (*apiCheck, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("make client for readiness: %w", err)
	}
	return &apiCheck{client: client.RESTClient()}, nil
}

// reached returns nil if the API server has answered lately.
func (c *apiCheck) reached() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	believed := apiCheckPeriod
	if c.err != nil {
		believed = apiCheckRetry
	}
	if time.Since(c.checked) < believed {
		return c.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), apiCheckTimeout)
	defer cancel()
	_, c.err = c.client.Get().AbsPath("/version").DoRaw(ctx)
	c.checked = time.Now()
	return c.err
}
