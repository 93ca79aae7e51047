package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache/edges"
	"github.com/thole-dev/thole/host/cache/openapi"
	"github.com/thole-dev/thole/host/object"
)

// Config configures a cache. REST is required.
type Config struct {
	// REST configures the connection to the API server. Its Timeout is
	// ignored, because it would end watches. Without a RateLimiter or QPS,
	// requests are limited to 50 per second in bursts of 100. Watches are not
	// limited.
	REST *rest.Config
	// Namespace restricts every informer of a namespaced kind. "" stands for
	// all namespaces.
	Namespace string
	Logger    hclog.Logger // may be nil
	// StallAfter is how long a watch may deliver neither an event nor a
	// bookmark before it is ended. The kind is listed again then or, if the
	// server has never sent a bookmark, watched from the last version. The
	// default is 90 s, because the API server sends a bookmark about once a
	// minute. It is also the timeout of a list request.
	StallAfter time.Duration
	// IdleAfter is how long an informer keeps running without users. The
	// default is 10 minutes.
	IdleAfter time.Duration
	// RetryAfter is the interval of the discovery requests for a kind whose
	// CRD was removed. The default is 2 s.
	RetryAfter time.Duration
	// Clock measures the three durations. The default is the real clock.
	Clock clock.WithTickerAndDelayedExecution

	backoff *wait.Backoff // of the reflectors; nil for watchBackoff
}

// watchBackoff is how long a reflector waits between requests that fail: 15 s at
// most. That of client-go has a cap of 30 s and adds as much by jitter.
var watchBackoff = wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 10 * time.Second}

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
	if c.backoff == nil {
		c.backoff = &watchBackoff
	}
	return c
}

// Hooks are what a cache calls. Functions that are nil are not called.
type Hooks struct {
	// Wake is called with the owner of each edge that a change concerns and
	// with the change; bulk is set if it concerns very many owners. When the informer of a kind has synced, it is called
	// with each owner whose read failed with [ErrNotSynced], and with no
	// change; when a list went past a state, with each owner that knows it
	// ([Informer.WakeIfSkipped]). It must not block.
	Wake func(o Owner, e Event, bulk bool)
	// Limited is called with an owner whose reads of a kind are too many to be
	// remembered by themselves, so that a change of any object of a namespace, or of
	// the kind, wakes it.
	Limited func(Owner, abi.Kind)
	// IndexLimited is called with an owner whose list looks at all objects of a kind,
	// because its plugin has no room for the index that it needs.
	IndexLimited func(Owner, abi.Kind)
	// OutageEnded is called when an informer reaches the API server again that
	// could not for a time: once for each informer.
	OutageEnded func()
	// Restored is called when a kind was listed again because the API server has
	// gone back to an earlier state, as after a restore of etcd. Objects then have
	// older resourceVersions than before, and nothing that was written since is
	// certain to exist. It must not block.
	Restored func(abi.Kind)
}

// Subscribe sets what the cache calls. It must be called before the first informer is acquired, and once at most.
func (c *Cache) Subscribe(hooks Hooks) { c.hooks = hooks.withDefaults() }

func (h Hooks) withDefaults() Hooks {
	if h.Wake == nil {
		h.Wake = func(Owner, Event, bool) {}
	}
	if h.Limited == nil {
		h.Limited = func(Owner, abi.Kind) {}
	}
	if h.IndexLimited == nil {
		h.IndexLimited = func(Owner, abi.Kind) {}
	}
	if h.OutageEnded == nil {
		h.OutageEnded = func() {}
	}
	if h.Restored == nil {
		h.Restored = func(abi.Kind) {}
	}
	return h
}

// Cache holds the informers of all kinds. It is safe for concurrent use.
type Cache struct {
	config    Config
	hooks     Hooks
	rest      *rest.Config
	http      *http.Client
	discovery *discovery
	schemas   *openapi.Schemas
	edges     *edges.Index
	ping      ping            // of the API server, for Reachable
	ctx       context.Context //nolint:containedctx // ends with Stop
	cancel    context.CancelFunc

	mu        sync.Mutex
	informers map[selected]*informer
	derived   map[abi.Kind]*Informer // those of them that [Cache.Derive] has started
	polls     map[abi.Kind]*pollCounts
	stopping  sync.WaitGroup // idle informers that are being stopped
}

// New returns a cache without informers. It sends no request to the API server.
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
	c := &Cache{
		config: config, hooks: Hooks{}.withDefaults(), rest: restConfig, http: httpClient,
		informers: map[selected]*informer{}, derived: map[abi.Kind]*Informer{}, polls: map[abi.Kind]*pollCounts{},
	}
	client, err := c.client(abi.Kind{}, false)
	if err != nil {
		return nil, fmt.Errorf("create cache: %w", err)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.discovery = newDiscovery(c.ctx, client, config.Clock)
	c.schemas = openapi.New(client)
	c.edges = edges.New(edges.Config{
		Wake: func(o Owner, change edges.Change, bulk bool) {
			c.hooks.Wake(o, Event{Old: change.Old, New: change.Updated}, bulk)
		},
		Limited: func(o Owner, kind abi.Kind) { c.hooks.Limited(o, kind) },
	})
	return c, nil
}

func clientConfig(base *rest.Config) *rest.Config {
	config := rest.CopyConfig(base)
	config.Timeout = 0
	config.AcceptContentTypes = mediaType
	config.ContentType = mediaType
	if config.RateLimiter == nil && config.QPS >= 0 {
		qps, burst := cmp.Or(config.QPS, 50), cmp.Or(config.Burst, 100)
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	}
	return config
}

// client returns a client that decodes responses as objects of a kind, or as their
// metadata. All clients share the connections and the rate limit.
func (c *Cache) client(kind abi.Kind, metadataOnly bool) (rest.Interface, error) {
	config := rest.CopyConfig(c.rest)
	config.NegotiatedSerializer = serializer(kind, metadataOnly)
	return rest.UnversionedRESTClientForConfigAndClient(config, c.http)
}

// Resource returns the resource under which the API server serves a kind. The
// result is cached for ten minutes. The error is an [*object.UnknownKindError]
// while the API server does not serve the kind, which may change at any time.
func (c *Cache) Resource(ctx context.Context, kind abi.Kind) (object.Resource, error) {
	s, err := c.discovery.find(ctx, kind)
	return s.Resource, err
}

// Followable is [Cache.Resource] for a kind that is to have an informer. The error
// is also a [*NotListableError] then, beside the resource.
func (c *Cache) Followable(ctx context.Context, kind abi.Kind) (object.Resource, error) {
	s, err := c.discovery.find(ctx, kind)
	if err == nil && !s.listed() {
		err = &NotListableError{Kind: kind}
	}
	return s.Resource, err
}

// CheckFields returns an [*openapi.UnknownFieldError] for the first path at which no
// object of a kind can have a value. After any other error nothing is known about
// them, because the API server does not show its schema.
func (c *Cache) CheckFields(ctx context.Context, kind abi.Kind, paths ...fieldpath.Path) error {
	return c.schemas.Check(ctx, kind, paths...)
}

// StatusSchema returns the schema of the status of a kind, as it was read at most maxAge ago. It is
// the same pointer as long as the schema is the same. After an error it is the one that was read
// before, nil if there is none.
func (c *Cache) StatusSchema(ctx context.Context, kind abi.Kind, maxAge time.Duration) (*object.Schema, error) {
	return c.schemas.Status(ctx, kind, maxAge)
}

// Stats describes the informers of one kind.
type Stats struct {
	Kind    abi.Kind
	Objects int
	Bytes   int // of JSON, which is compressed while it is not read
	// Restores is how often the API server was found to have gone back to an
	// earlier state.
	Restores uint64
}

// Stats returns the stats of all kinds that are followed, ordered by kind.
func (c *Cache) Stats() []Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	byKind := map[abi.Kind]Stats{}
	for _, i := range c.informers {
		objects, bytes := i.store.size()
		s := byKind[i.Kind()]
		byKind[i.Kind()] = Stats{Kind: i.Kind(), Objects: s.Objects + objects, Bytes: s.Bytes + bytes, Restores: max(s.Restores, i.Restores())}
	}
	return slices.SortedFunc(maps.Values(byKind), func(a, b Stats) int {
		return cmp.Or(cmp.Compare(a.Kind.APIVersion, b.Kind.APIVersion), cmp.Compare(a.Kind.Kind, b.Kind.Kind))
	})
}

// Memory is about what the parts of the cache take, in bytes.
type Memory struct{ Objects, Indexes, Edges uint64 }

// Memory returns what the parts of the cache take.
func (c *Cache) Memory() Memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := Memory{Edges: uint64(c.edges.Bytes())}
	for _, i := range c.informers {
		objects, indexes := i.store.memory()
		m.Objects, m.Indexes = m.Objects+objects, m.Indexes+indexes
	}
	return m
}

// Forget removes the edges of a key that does not exist any more. A run of the
// key that is still open leaves no edges.
func (c *Cache) Forget(o Owner) { c.edges.Forget(o) }

// ForgetController removes the edges of all keys of a controller.
func (c *Cache) ForgetController(name string) { c.edges.ForgetController(name) }

// Stop stops all informers and waits for their goroutines. It must not be
// called from a handler. Further calls do nothing.
func (c *Cache) Stop() {
	c.mu.Lock()
	c.cancel()
	informers := c.informers
	c.informers = map[selected]*informer{}
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
	c.edges.Stop()
	utilnet.CloseIdleConnectionsFor(c.http.Transport)
}

// ErrNotSynced is returned for a read of a kind whose informer has not synced.
// [Hooks.Wake] is called for the owner of the run when it has.
var ErrNotSynced = errors.New("the informer has not synced yet")

// ErrStopped is returned when the informer or the whole cache was stopped.
var ErrStopped = errors.New("the informer is stopped")

// ErrIncomparable is returned for a resourceVersion that cannot be compared
// with the one of the store, because the API server of the kind uses another
// format. Use [Informer.Live] instead.
var ErrIncomparable = errors.New("the resourceVersion cannot be compared")

// NotListableError is returned for a kind that the API server serves without
// list, so that there can be no informer of it.
type NotListableError struct{ Kind abi.Kind }

func (e *NotListableError) Error() string {
	return fmt.Sprintf("%s cannot be listed: its API has no verb \"list\"; do not name it in For, Owns, Reads or Watches of a controller", e.Kind)
}
