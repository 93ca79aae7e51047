package election

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/thole-dev/thole/host/internal/explain"
)

// Config configures an [Election].
type Config struct {
	Client    kubernetes.Interface
	Namespace string // of the Leases
	Name      string // the Leases are NAME-shard-0 and so on, and NAME-plugin-PLUGIN
	Identity  string // of the replica; it must be unique
	Shards    int    // the same for all replicas

	// As those of kube-controller-manager: an unrenewed Lease is taken over after LeaseDuration;
	// who cannot renew it for RenewDeadline gives up; it is renewed every RetryPeriod.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration

	// Changed is called when the replica has begun or ceased to lead a Lease, and Annotated
	// when the annotations of one have changed. They must not block.
	Changed, Annotated func(*Lease)
	Logger             hclog.Logger
}

func (c *Config) validate() error {
	switch {
	case c.Shards < 1:
		return errors.New("there must be at least one shard")
	case len(validation.IsDNS1123Subdomain(c.Name)) > 0 || len(c.Name) > maxName:
		return fmt.Errorf("%q must be a DNS subdomain of at most %d characters", c.Name, maxName)
	case c.RetryPeriod <= 0 || c.LeaseDuration%time.Second != 0:
		return errors.New("the lease duration must be whole seconds, and the retry period positive")
	case c.RenewDeadline >= c.LeaseDuration || c.RenewDeadline <= c.RetryPeriod*6/5:
		return fmt.Errorf("the renew deadline must be less than the lease duration, and more than 1.2 retry periods: have %s, %s and %s", c.RenewDeadline, c.LeaseDuration, c.RetryPeriod)
	}
	return nil
}

// maxName leaves room for a plugin's name in that of its Lease.
const maxName = 100

// Election is the part of one replica in the election of leaders.
type Election struct {
	Config
	store cache.SharedIndexInformer

	mu       sync.Mutex
	leases   map[string]*Lease // by name
	listErr  error             // why the Leases cannot be listed, nil if they can
	watchErr error             // the same of watching them
	ctx      context.Context   //nolint:containedctx // of Run, for Leases that are joined later
	running  sync.WaitGroup
}

// New returns an election that begins with [Election.Run].
func New(c Config) (*Election, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	e := &Election{Config: c, leases: map[string]*Lease{}}
	e.store = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(e.listWatch(), c.Client), &coordinationv1.Lease{}, 0, cache.Indexers{})
	_, err := e.store.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { e.observe(nil, o) },
		UpdateFunc: func(before, o any) { e.observe(before, o) },
		DeleteFunc: func(o any) { e.observe(nil, o) },
	})
	return e, err
}

// listWatch reads the Leases, and notes whether that can be done.
func (e *Election) listWatch() *cache.ListWatch {
	leases := e.Client.CoordinationV1().Leases(e.Namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := leases.List(ctx, options)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.listErr = err
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := leases.Watch(ctx, options)
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.watchErr = err; err == nil {
				e.listErr = nil // it may have been a list that is streamed
			}
			return w, err
		},
	}
}

// Run takes part in the election until ctx is done; then it gives up all Leases, which must
// not be done before the last write was sent.
func (e *Election) Run(ctx context.Context) {
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var watching sync.WaitGroup
	watching.Go(func() { e.store.RunWithContext(reading) })
	defer watching.Wait()
	defer stop()
	e.mu.Lock()
	e.ctx = ctx
	for _, l := range e.leases {
		e.running.Go(func() { l.run(ctx) })
	}
	e.mu.Unlock()
	<-ctx.Done()
	e.mu.Lock()
	e.ctx = nil // no Lease is joined any more
	e.mu.Unlock()
	e.running.Wait()
}

// requestTimeout leaves time for a second attempt before the renew deadline.
func (e *Election) requestTimeout() time.Duration { return e.RenewDeadline / 2 }

// Of returns the Lease of a plugin, which is that of its shard or, with own, one of its own. The
// replica takes part in its election from now on.
func (e *Election) Of(plugin string, own bool) (*Lease, error) {
	name := e.Name + "-plugin-" + plugin
	if !own {
		hash := fnv.New32a()
		hash.Write([]byte(plugin))
		name = fmt.Sprintf("%s-shard-%d", e.Name, hash.Sum32()%uint32(e.Shards))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.leases[name]; l != nil {
		return l, nil
	}
	l, err := newLease(e, name)
	if err != nil {
		return nil, err
	}
	e.leases[name] = l
	if e.ctx != nil {
		ctx := e.ctx
		e.running.Go(func() { l.run(ctx) })
	}
	return l, nil
}

// observe wakes what waits for a Lease that has changed.
func (e *Election) observe(before, o any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
	if err != nil {
		return
	}
	_, name, _ := cache.SplitMetaNamespaceKey(key)
	e.mu.Lock()
	l := e.leases[name]
	e.mu.Unlock()
	if l == nil {
		return
	}
	l.wake()
	if e.Annotated != nil && !maps.Equal(annotationsOf(before), annotationsOf(o)) {
		e.Annotated(l)
	}
}

func annotationsOf(o any) map[string]string {
	if lease, ok := o.(*coordinationv1.Lease); ok {
		return lease.Annotations
	}
	return nil
}

// Err returns why it is not known who leads, nil if it is.
func (e *Election) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, err := range []error{e.listErr, e.watchErr} {
		if err != nil {
			return fmt.Errorf("the Leases in %s cannot be read: %w", e.Namespace, explain.Forbidden(err, "list", "watch"))
		}
	}
	if !e.store.HasSynced() {
		return fmt.Errorf("the Leases in %s are being read", e.Namespace)
	}
	return nil
}

// Leases returns those that the replica takes part in, by name.
func (e *Election) Leases() []*Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.SortedFunc(maps.Values(e.leases), func(a, b *Lease) int { return strings.Compare(a.Name, b.Name) })
}

// seen returns a Lease as the watch shows it, nil if it shows none. known is false before
// the first list.
func (e *Election) seen(name string) (lease *coordinationv1.Lease, known bool) {
	known = e.store.HasSynced()
	o, exists, err := e.store.GetStore().GetByKey(e.Namespace + "/" + name)
	if err == nil && exists {
		lease, _ = o.(*coordinationv1.Lease)
	}
	return lease, known
}
