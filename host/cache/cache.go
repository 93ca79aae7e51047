package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Config is what a cache needs. REST is required.
type Config struct {
	// REST says how to reach the API server. Its Timeout is not used, since it
	// would end watches. Without a RateLimiter or QPS requests are limited to
	// 50 per second, in bursts of 100; watches are not limited.
	REST *rest.Config
	// Namespace restricts every informer of a namespaced kind; "" for all.
	Namespace string
	// Wake is called for the owner of each edge that a change concerns, and
	// must not wait. nil: nobody is woken.
	Wake func(Owner, Cause)
	// Logger; nil: nothing is logged.
	Logger hclog.Logger
	// StallAfter is how long a watch may go without an event or bookmark
	// before it is ended and the kind listed again; 90 s. The API server
	// sends a bookmark about once a minute. It bounds a list request, too.
	StallAfter time.Duration
	// IdleAfter is how long an informer goes on without users; 10 min.
	IdleAfter time.Duration
	// RetryAfter is the time between two looks for a kind whose CRD was
	// removed; 2 s.
	RetryAfter time.Duration
	// Clock is the clock of these three; nil: the real one.
	Clock clock.WithTickerAndDelayedExecution

	backoff *wait.Backoff // of the reflectors; nil: client-go's, 0.8 s to 30 s
}

func (c Config) withDefaults() Config {
	c.StallAfter = cmp.Or(c.StallAfter, 90*time.Second)
	c.IdleAfter = cmp.Or(c.IdleAfter, 10*time.Minute)
	c.RetryAfter = cmp.Or(c.RetryAfter, 2*time.Second)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Wake == nil {
		c.Wake = func(Owner, Cause) {}
	}
	return c
}

// Cache holds the informers of all kinds. It is safe for concurrent use.
type Cache struct {
	config    Config
	rest      *rest.Config
	http      *http.Client
	discovery *discovery
	edges     *edges
	ping      ping
	ctx       context.Context //nolint:containedctx // the cache's life
	cancel    context.CancelFunc

	mu        sync.Mutex
	informers map[abi.Kind]*informer
	stopping  sync.WaitGroup // informers that became idle
}

// New returns a cache. It does not talk to the API server yet.
func New(config Config) (*Cache, error) {
	if config.REST == nil {
		return nil, errors.New("create cache: Config.REST is required")
	}
	config = config.withDefaults()
	restConfig := clientConfig(config.REST)
	httpClient, err := rest.HTTPClientFor(restConfig)
	if err != nil {
		return nil, fmt.Errorf("create cache: %w", err)
	}
	c := &Cache{config: config, rest: restConfig, http: httpClient, informers: map[abi.Kind]*informer{}}
	client, err := c.client(abi.Kind{})
	if err != nil {
		return nil, fmt.Errorf("create cache: %w", err)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.discovery = newDiscovery(c.ctx, client, config.Clock)
	c.edges = newEdges(c)
	c.ping.client = client
	return c, nil
}

func clientConfig(base *rest.Config) *rest.Config {
	config := rest.CopyConfig(base)
	config.Timeout = 0
	config.AcceptContentTypes = mediaType
	config.ContentType = mediaType
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	if config.RateLimiter == nil && config.QPS >= 0 {
		qps, burst := cmp.Or(config.QPS, 50), cmp.Or(config.Burst, 100)
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	}
	return config
}

// client returns a client whose answers are decoded as objects of a kind. All
// clients share connections and rate limit.
func (c *Cache) client(kind abi.Kind) (rest.Interface, error) {
	config := rest.CopyConfig(c.rest)
	config.NegotiatedSerializer = serializer(kind)
	return rest.RESTClientForConfigAndClient(config, c.http)
}

// Resource says where the API server serves a kind. It asks the first time and
// again after ten minutes. The error is an [*UnknownKindError] when the kind
// is not there, which may change: come again.
func (c *Cache) Resource(ctx context.Context, kind abi.Kind) (object.Resource, error) {
	s, err := c.discovery.find(ctx, kind)
	return s.Resource, err
}

// Acquire returns the informer of a kind, which it starts if nobody else uses
// it. The caller ends with [Informer.Release]. It does not wait until the
// informer has synced. The error is an [*UnknownKindError] when the kind is
// not there, which may change, or a [*NotWatchableError].
func (c *Cache) Acquire(ctx context.Context, kind abi.Kind) (*Informer, error) {
	if i := c.hold(kind); i != nil {
		return i, nil
	}
	s, err := c.discovery.find(ctx, kind)
	if err != nil {
		return nil, err
	}
	if s.missing != "" {
		return nil, &NotWatchableError{Kind: kind, Missing: s.missing}
	}
	client, err := c.client(kind)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", kind, err)
	}
	return c.start(s.Resource, client)
}

// hold takes a hold on the informer of a kind if there is one.
func (c *Cache) hold(kind abi.Kind) *Informer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holdLocked(kind)
}

func (c *Cache) holdLocked(kind abi.Kind) *Informer {
	i := c.informers[kind]
	if i == nil {
		return nil
	}
	i.users++
	if i.idle != nil {
		i.idle.Stop()
		i.idle = nil
	}
	return &Informer{informer: i, cache: c}
}

func (c *Cache) start(resource object.Resource, client rest.Interface) (*Informer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, ErrStopped
	}
	if i := c.holdLocked(resource.Kind); i != nil {
		return i, nil // somebody else was faster
	}
	i := c.newInformer(resource, client)
	c.informers[resource.Kind] = i
	i.start()
	return &Informer{informer: i, cache: c}, nil
}

func (c *Cache) newInformer(resource object.Resource, client rest.Interface) *informer {
	log := c.config.Logger.With("kind", resource.Kind.String())
	i := &informer{kind: resource.Kind, store: newStore(), client: client, health: newHealth(log), backoff: c.config.backoff, users: 1}
	i.resource.Store(&resource)
	i.ctx, i.cancel = context.WithCancel(c.ctx)
	i.lw = &listWatch{
		kind:      resource.Kind,
		namespace: c.config.Namespace,
		client:    client,
		discovery: c.discovery,
		clock:     c.config.Clock,
		stall:     c.config.StallAfter,
		retry:     c.config.RetryAfter,
		health:    i.health,
		gone:      i.store.clear,
		found:     func(r object.Resource) { i.resource.Store(&r) },
	}
	return i
}

// release gives a hold back. The last one starts the time after which the
// informer is stopped.
func (c *Cache) release(i *informer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.users--; i.users > 0 || c.ctx.Err() != nil {
		return
	}
	// In a goroutine of its own: a clock may call with its lock held.
	i.idle = c.config.Clock.AfterFunc(c.config.IdleAfter, func() { go c.retire(i) })
}

// retire stops an informer that nobody uses.
func (c *Cache) retire(i *informer) {
	c.mu.Lock()
	if i.users > 0 || c.ctx.Err() != nil || c.informers[i.Kind()] != i {
		c.mu.Unlock()
		return
	}
	delete(c.informers, i.Kind())
	c.stopping.Add(1)
	c.mu.Unlock()
	defer c.stopping.Done()
	i.stop()
}

// Stats says what the cache holds of a kind.
type Stats struct {
	Kind    abi.Kind
	Objects int
	Bytes   int // of JSON; the heap needs about 1 KiB more for each object
	Users   int
	Synced  bool
	Err     error // why the kind cannot be followed now, or nil
}

// Stats returns what the cache holds, by kind.
func (c *Cache) Stats() []Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Stats
	for kind, i := range c.informers {
		s := Stats{Kind: kind, Users: i.users, Synced: i.HasSynced(), Err: i.Err()}
		s.Objects, s.Bytes = i.store.size()
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Stats) int {
		return cmp.Or(cmp.Compare(a.Kind.APIVersion, b.Kind.APIVersion), cmp.Compare(a.Kind.Kind, b.Kind.Kind))
	})
	return all
}

// Stop ends all informers and waits for their goroutines; it must not be
// called from a handler. A second call does nothing.
func (c *Cache) Stop() {
	c.mu.Lock()
	c.cancel()
	informers := c.informers
	c.informers = map[abi.Kind]*informer{}
	for _, i := range informers {
		if i.idle != nil {
			i.idle.Stop()
		}
	}
	c.mu.Unlock()
	for _, i := range informers {
		i.stop()
	}
	c.stopping.Wait()
	utilnet.CloseIdleConnectionsFor(c.http.Transport)
}
