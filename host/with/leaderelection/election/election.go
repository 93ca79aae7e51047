package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/kube"
)

// Config configures an [Election].
type Config struct {
	Client    kube.Leases // of the namespace
	Namespace string
	Name      string // the Leases are NAME-shard-0 and so on, and NAME-plugin-PLUGIN
	Identity  string // of the replica; it must be unique
	Shards    int

	// As those of kube-controller-manager: an unrenewed Lease is taken over after LeaseDuration;
	// who cannot renew it for RenewDeadline gives up; it is renewed every RetryPeriod.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration

	// Changed is called when the replica has begun or ceased to lead a Lease, and Annotated when an
	// annotation of one has changed, of which this replica need not take part. They must not block.
	Changed   func(*Lease)
	Annotated func(key string)
	// Rejected reports whether what runs of a plugin here was rolled back by another replica, so
	// that it must not be led yet, and Ready whether it runs what its leader runs. Each may be nil.
	Rejected, Ready func(plugin string) bool
	Logger          hclog.Logger
}

func (c *Config) validate() error {
	switch {
	case c.Identity == "":
		return errors.New("a replica must have an identity")
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
	store   *store
	kicked  chan struct{} // capacity 1: something has changed
	retired atomic.Bool
	asked   time.Time // when another replica was asked for a Lease last; of the goroutine of maintain

	mu       sync.Mutex
	leases   map[string]*Lease // by name
	plugins  map[place]*Plugin
	listErr  error           // why the Leases cannot be listed, nil if they can
	watchErr error           // the same of watching them
	ctx      context.Context //nolint:containedctx // of Run, for Leases that are joined later
	running  sync.WaitGroup
}

// New returns an election that begins with [Election.Run].
func New(c Config) (*Election, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	e := &Election{Config: c, kicked: make(chan struct{}, 1), leases: map[string]*Lease{}, plugins: map[place]*Plugin{}}
	e.store = newStore(e.observe)
	return e, nil
}

// Run takes part in the election until ctx is done; then it gives up all Leases, which must
// not be done before the last write was sent.
func (e *Election) Run(ctx context.Context) {
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var watching sync.WaitGroup
	watching.Go(func() { newReflector(e).RunWithContext(reading) })
	defer watching.Wait()
	defer stop()
	e.mu.Lock()
	e.ctx = ctx
	for _, l := range e.leases {
		e.running.Go(func() { l.run(ctx) })
	}
	e.mu.Unlock()
	e.maintain(ctx)
	e.mu.Lock()
	e.ctx = nil // no Lease is joined any more
	e.mu.Unlock()
	e.running.Wait()
}

// Retire lets the replica take nothing over any more. What it leads it leads until Run ends.
func (e *Election) Retire() {
	e.retired.Store(true)
	e.kick()
}

// requestTimeout leaves time for a second attempt before the renew deadline.
func (e *Election) requestTimeout() time.Duration { return e.RenewDeadline / 2 }

// join takes part in the election of a Lease from now on. e.mu is held.
func (e *Election) join(name string) *Lease {
	if l := e.leases[name]; l != nil {
		return l
	}
	l := newLease(e, name)
	e.leases[name] = l
	if e.ctx != nil {
		ctx := e.ctx
		e.running.Go(func() { l.run(ctx) })
	}
	return l
}

// observe looks at what has changed of a Lease, of which one version is nil if it was added or
// deleted.
func (e *Election) observe(before, after *coordinationv1.Lease) {
	e.mu.Lock()
	l := e.leases[cmp.Or(after, before).Name]
	e.mu.Unlock()
	if l != nil && !sameTerm(before, after) {
		l.wake(after)
	}
	if e.Annotated != nil {
		for _, key := range differing(annotationsOf(before), annotationsOf(after)) {
			e.Annotated(key)
		}
	}
	e.kick()
}

// sameTerm reports whether a Lease was neither renewed nor has another leader.
func sameTerm(a, b *coordinationv1.Lease) bool {
	return a != nil && b != nil && a.UID == b.UID && apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// differing returns the keys of which two maps do not have the same, in order.
func differing(a, b map[string]string) (keys []string) {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		before, had := a[key]
		if after, has := b[key]; had != has || before != after {
			keys = append(keys, key)
		}
	}
	return keys
}

func annotationsOf(lease *coordinationv1.Lease) map[string]string {
	if lease == nil {
		return nil
	}
	return lease.Annotations
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
	if !e.store.synced.Load() {
		return fmt.Errorf("the Leases in %s are being read", e.Namespace)
	}
	return nil
}

// Leases returns those that the replica takes part in, by name.
func (e *Election) Leases() (all []*Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(e.leases)) {
		if l := e.leases[name]; l.isWanted() {
			all = append(all, l)
		}
	}
	return all
}

// seen returns a Lease as the watch shows it, nil if it shows none. known is false before
// the first list.
func (e *Election) seen(name string) (lease *coordinationv1.Lease, known bool) {
	known = e.store.synced.Load()
	o, exists, err := e.store.GetByKey(e.Namespace + "/" + name)
	if err == nil && exists {
		lease, _ = o.(*coordinationv1.Lease)
	}
	return lease, known
}

// all returns the Leases of this election as the watch shows them, by name.
func (e *Election) all() map[string]*coordinationv1.Lease {
	all := map[string]*coordinationv1.Lease{}
	for _, o := range e.store.List() {
		lease, ok := o.(*coordinationv1.Lease)
		if ok && (strings.HasPrefix(lease.Name, e.Name+shardInfix) || strings.HasPrefix(lease.Name, e.Name+pluginInfix)) {
			all[lease.Name] = lease
		}
	}
	return all
}

// Annotation returns the values of an annotation of the Leases, by their names.
func (e *Election) Annotation(key string) (values []string) {
	all := e.all()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if value, is := all[name].Annotations[key]; is {
			values = append(values, value)
		}
	}
	return values
}
