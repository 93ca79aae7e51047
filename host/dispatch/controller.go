package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
)

// Config configures a [Controller].
type Config struct {
	Plugin  string
	Name    string // of the controller
	Workers int    // runs at once, until [Controller.SetWorkers] changes it
	Cache   Cache
	Metrics Metrics
	Events  events.Observer
	Logger  hclog.Logger
	// Lease is that of the plugin; nil: this is the only replica of the host. No key is taken
	// from the queue while another replica leads.
	Lease Lease
	Hooks []Hooks // of capabilities
	// LogLines bounds the log of the plugin, shared by its controllers; nil:
	// unlimited.
	LogLines Allowance
	// Grace is how long runs may continue after the context of
	// [Controller.Run] has ended; default 10 s.
	Grace time.Duration
}

// Lease states whether this replica of the host leads the plugin: it is a part of what a runner has
// of that.
type Lease interface {
	// Leading returns a channel that is closed while the replica leads, and another one after
	// it has ceased to.
	Leading() <-chan struct{}
	// Leads reports whether the replica leads and may write. That may end before there is
	// another channel.
	Leads() bool
	// BeginWrite is called before something is sent that must not be sent by two replicas, and
	// end when it was answered: the Lease is not given up in between. The error is why nothing
	// may be sent.
	BeginWrite() (end func(), err error)
}

// Queue is implemented by [queue.Queue].
type Queue interface {
	Next() (item queue.Item, shutdown bool)
	Add(key object.Key, why queue.Cause)
	Done(key object.Key, next outcome.Next)
	PutBack(item queue.Item)
	Hold(item queue.Item, group string) (held bool)
	ReleaseFirst(group string) (object.Key, bool)
	ReleaseAll()
	Forget(key object.Key)
	OutageEnded()
	ShutDown()
}

// Cache gives one controller access to the cache. What the plugin has written is
// visible at once.
type Cache interface {
	// Get returns the primary.
	Get(key object.Key) (*object.Object, bool)
	// Shown returns the primary as the informer shows it: the next event has it as the old
	// object.
	Shown(key object.Key) (*object.Object, bool)
	// LastKnown returns the last state of a primary that does not exist any more: the plugin's
	// own write, if that is newer than what the informer has shown until then.
	LastKnown(shown *object.Object) *object.Object
	// Exists reports whether the API server has the primary with that uid. It sends a request.
	Exists(ctx context.Context, key object.Key, uid object.Hash) (bool, error)
	// Wrote makes a write of a run of the key visible.
	Wrote(key object.Key, write effect.Write)
	// Full reports whether no more writes can be made visible before the informers
	// have passed some.
	Full() bool
	// Refresh reads an object from the API server for a run of the key and makes
	// that state visible.
	Refresh(ctx context.Context, key object.Key, ref abi.Ref) error
	// Begin starts to record what one run of the key reads, with a revision that
	// follows that much. It keeps the strings of the key.
	Begin(key object.Key, follows map[abi.Kind]scope.Reads) Reads
	// BeginUnrecorded is Begin for an [ExportCall], of which any number may read at once: nothing of
	// what it reads is remembered.
	BeginUnrecorded(key object.Key, follows map[abi.Kind]scope.Reads) Reads
	// Namespaced reports whether the objects of a kind that the plugin follows live in
	// namespaces.
	Namespaced(kind abi.Kind) (bool, error)
	// PrimariesBy returns the keys of the primaries of a namespace, "" for all, that have
	// a value of a field.
	PrimariesBy(namespace string, field fieldpath.Path, value string) []object.Key
	// Forget drops the record of what the runs of the key have read.
	Forget(key object.Key)
}

// Reads performs the reads of one run; [cache.Run] implements it.
type Reads interface {
	Get(kind abi.Kind, key object.Key, part fieldpath.Set) (*object.Object, error) // nil if there is none
	List(cache.Reading) (cache.List, error)
	// Close frees what is kept for reads, when no more follow.
	Close()
	// Commit ends a run that returned a result: what it read replaces what the
	// previous run read. Abandon ends any other run and keeps both.
	Commit()
	Abandon()
}

// Guest is a loaded plugin; [sandbox.Guest] implements it.
type Guest interface {
	Reconcile(ctx context.Context, call sandbox.Call) (sandbox.Return, error)
	// Call calls another export, which the manifest has made the host require.
	Call(ctx context.Context, export string, call sandbox.Call) (sandbox.Return, error)
}

// Effects writes to the API server; [effect.Performer] implements it.
type Effects interface {
	HasFinalizer(t effect.Target) bool
	EnsureFinalizer(ctx context.Context, t effect.Target) (effect.Report, *effect.Failure)
	RemoveFinalizer(ctx context.Context, t effect.Target) (effect.Report, *effect.Failure)
	PerformIntents(ctx context.Context, t effect.Target, result *abi.Result) (effect.Report, *effect.Failure)
	WriteStatus(ctx context.Context, t effect.Target, want effect.Status) (effect.Report, *effect.Failure)
	// Annotate sets an annotation of the primary; "" removes it.
	Annotate(ctx context.Context, t effect.Target, name, value string) (effect.Report, *effect.Failure)
	// Release and ReleaseGone give up the primary's fields of objects that it
	// does not own.
	Release(ctx context.Context, t effect.Target, all bool) (effect.Report, *effect.Failure)
	ReleaseGone(ctx context.Context, c *abi.Controller, primary object.Key) (effect.Report, *effect.Failure)
	// Live reads an object, nil if there is none.
	Live(ctx context.Context, kind abi.Kind, key object.Key) (*object.Object, error)
	EmitEvent(t effect.Target, event *abi.Event)
	Forget(uid object.Hash)
}

// Allowance limits what is logged; [telemetry.PluginLog] implements it.
type Allowance interface {
	// Allow reports whether a line with texts of that many bytes may be logged.
	Allow(bytes int) bool
}

// Metrics counts the runs of one controller.
type Metrics interface {
	Started() (ended func(d outcome.Decision, seconds float64))
	Wrote(verb string)
	Looped()                          // a run of a key that is in a write loop
	Dropped()                         // a log line of the guest beyond its allowance
	Limited(limit string)             // a result that was refused because of a limit
	Vanished(end outcome.LateCleanup) // an object that was deleted in spite of the finalizer
}

// Revision is a plugin at one digest and under one policy, as a controller runs
// it.
type Revision struct {
	Number     int
	Digest     string // of the code: revisions that have the same differ in their policy alone
	Guest      Guest
	Effects    Effects             // under the policy of the revision
	Access     Access              // what its service account may read; nil: it acts as the host
	Breaker    *Breaker            // shared by the plugin's controllers; nil: always closed
	Comparison *RevisionComparison // shared by the plugin's controllers; nil: not on probation
	Controller abi.Controller      // from the manifest
	Scopes     scope.Controller    // what it follows
	// MemoVersion states what memos mean: they are kept by a revision that has
	// the same, and the same Account.
	MemoVersion string
	Account     string                    // that the plugin acts as; what another one has read is not kept
	Reads       map[abi.Kind]rights.Reads // where it may read what it follows
	MaxIntents  int                       // in one result; 0: [abi.MaxIntents]
	Kept        []any                     // what capabilities keep for the revision, in the order of [Config.Hooks]
	Config      []byte                    // JSON, the administrator's configuration; nil: none
}

// Controller reconciles the objects of one primary kind.
type Controller struct {
	Config
	queue    Queue
	revision atomic.Pointer[Revision] // replaced with mu held
	taking   chan struct{}            // capacity 1; held by the worker that takes the next key

	resized chan struct{} // capacity 1: workers has changed

	states     comparedStates
	unanswered unanswered
	slowUntil  atomic.Int64 // Unix nanoseconds until which no run asks what the account may do

	mu          sync.Mutex
	keys        map[object.Key]*keyState
	goneObjects goneList
	// created has the objects whose creation the informer has shown, before their first run.
	// cleanedUp has those that are about to go after their cleanup, in their order: one may be
	// cleaned up before the informer shows that the last one of its name went. Both are by the
	// hash of the uid.
	created   map[object.Key]object.Hash
	cleanedUp map[object.Key][]object.Hash
	// objectTurns are the turns of objects, by their keys in the queue.
	objectTurns map[object.Key]*objectTurn
	// turns are those of the running revision, by their keys. turnRound is how often they have begun anew: with
	// each revision and each term.
	turns     map[string]pendingTurn
	turnRound int
	term      <-chan struct{} // in which the replica has led last; see [Lease]

	restores int // calls of [Controller.Restored]
	workers  int // how many there are to be
	started  int // how many there are; more than workers until the next keys come

	parkedBytes int // of the results of parked runs
	signalBytes int // of the signals that wait
}

// New returns a controller that runs the given revision once [Controller.Run]
// is called. Nothing else may add keys to the queue.
func New(config Config, q Queue, revision *Revision) *Controller {
	config.Grace = cmp.Or(config.Grace, 10*time.Second)
	if config.Events == nil {
		config.Events = events.Observers()
	}
	c := &Controller{
		Config: config, queue: q, keys: map[object.Key]*keyState{}, workers: config.Workers,
		goneObjects: goneList{byKey: map[object.Key][]*goneObject{}},
		created:     map[object.Key]object.Hash{}, cleanedUp: map[object.Key][]object.Hash{},
		taking: make(chan struct{}, 1), resized: make(chan struct{}, 1),
		unanswered: unanswered{due: make(chan struct{}, 1)},
	}
	c.revision.Store(revision)
	c.setTurns(c.turnsOf(revision))
	c.lead()
	return c
}

// Revision returns the revision that new runs use.
func (c *Controller) Revision() *Revision { return c.revision.Load() }

// Swap makes new runs use another revision; runs in progress end on the revision
// that they began with. Keys keep their place in the queue and their edges. When they run
// next with other code, their tries are dropped. Every key of keys, which are in order, is added to the queue, spread over time, and then every key
// that is known beside them: its object may not be followed any more, which no event
// shows, or is gone. Swap must not be called concurrently.
func (c *Controller) Swap(revision *Revision, keys []object.Key) {
	before := c.revision.Load()
	healthy := before.Comparison.Healthy()
	turns := c.turnsOf(revision)
	c.mu.Lock()
	// With mu held, so that no run takes state of the old revision for its own.
	c.revision.Store(revision)
	var others []object.Key
	for key, state := range c.keys {
		state.revisionReplaced(healthy, before, revision)
		if _, found := slices.BinarySearchFunc(keys, key, object.Key.Compare); !found {
			others = append(others, key)
		}
	}
	if before.Scopes.For.String() != revision.Scopes.For.String() { // no event shows what is not followed any more
		c.forgetRuns()
	}
	others = append(others, c.goneReplaced(healthy, before, revision)...)
	c.callReplaced(before, revision)
	ended := c.turns
	c.setTurns(turns)
	c.mu.Unlock()
	before.Breaker.retire()
	c.stopTurns(context.Background(), before)
	c.addTurns(ended, turns)
	c.due(swapped, slices.Concat(keys, others)...)
}

// Run reconciles until ctx is done and every run has ended. Runs in progress at
// that time continue for the grace period; then they are cut off. They are cut off at once if
// the replica does not lead any more: they can write nothing.
func (c *Controller) Run(ctx context.Context) {
	runs, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	defer context.AfterFunc(ctx, func() {
		c.queue.ShutDown()
		if !c.leads() {
			abort()
		}
		grace := time.AfterFunc(c.Grace, abort)
		context.AfterFunc(runs, func() { grace.Stop() })
	})()
	var workers sync.WaitGroup
	for {
		for c.startsWorker() {
			workers.Go(func() { c.work(ctx, runs) })
		}
		select {
		case <-c.resized:
		case <-c.unanswered.due:
			workers.Go(func() { c.answer(ctx) })
		case <-ctx.Done():
			workers.Wait()
			c.stopTurns(context.WithoutCancel(ctx), c.revision.Load())
			c.mu.Lock()
			c.loseHeld()
			c.mu.Unlock()
			return
		}
	}
}

// SetWorkers changes how many runs there may be at once. Runs in progress are not
// ended, but none begins while there are as many.
func (c *Controller) SetWorkers(n int) {
	c.mu.Lock()
	c.workers = n
	c.mu.Unlock()
	select {
	case c.resized <- struct{}{}:
	default:
	}
}

// startsWorker reports whether a worker is missing, and counts it as started.
func (c *Controller) startsWorker() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	missing := c.started < c.workers
	if missing {
		c.started++
	}
	return missing
}

// endsWorker reports whether there is a worker too many, and counts it as ended.
func (c *Controller) endsWorker() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	surplus := c.started > c.workers
	if surplus {
		c.started--
	}
	return surplus
}
