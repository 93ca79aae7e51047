// Package effect performs what a run has decided. It is the only stage that
// writes to the API server.
//
// A [Performer] acts for one plugin with a client of its own: its own
// User-Agent, limit of writes, account and records, so that no plugin can use up
// what belongs to another. It never waits before a request: what the limit or the API
// server (429) postpones ends the call with [Failure.Later]. Objects are handled as
// bytes; nothing is decoded into maps.
//
// # Order and failure
//
// The caller (host/dispatch/perform.go) performs the effects of one run
// in the order finalizer, patch, release, apply, delete, events, status:
// [Performer.EnsureFinalizer], [Performer.PerformIntents], [Performer.Release],
// [Performer.WriteStatus], [Performer.RemoveFinalizer]. Every intent is checked
// before the first one is performed. The first effect that fails ends the call; its
// [Report] holds what was written until then. An intent of a group that fails ends only
// the group (groups.go), and is in the report.
//
// # Nothing is written twice
//
// An effect that would change nothing sends no write. Whether it would is
// decided by the server, which sets defaults, normalises quantities, calls
// webhooks and prunes fields. Therefore the performer records, per primary,
// what it asked for and what the server made of it; as long as both are the
// same, nothing has to be sent (records.go). These records are lost when the
// host restarts. noopapply.go describes how an apply is then found to be a
// no-op without a write.
//
// # Files
//
//	effect.go     the Performer and its configuration
//	plan.go       the Planner: what is sent, decided without a client
//	requests.go   all that would be sent for a run
//	client.go     requests to the API server
//	guard.go      no write of a replica that does not lead its plugin
//	apierrors.go  classification of errors, and their messages
//	report.go     what was written, or would have been in a dry run
//	finalizer.go  adding and removing a finalizer
//	primary.go    updates of the primary
//	annotate.go   an annotation of the primary that is the host's own
//	intents.go    patch, apply, delete and events of one result, in order
//	delete.go     deletes
//	deleting.go   what is not done while only others hold the primary
//	groups.go     groups of intents, which fail alone
//	scope.go      which objects a controller may change
//	apply.go      server-side apply: whether and how it is sent
//	applybody.go  server-side apply: what an intent becomes
//	adopt.go      making the primary the controller of an object that has none
//	disown.go     ending that the primary is the controller of an object
//	owners.go     the patch of owner references of these two
//	create.go     applies that only create an object
//	replace.go    applies that delete an object and create it anew if it cannot be changed
//	shared.go     objects that several primaries apply fields of
//	turns.go      one after the other
//	prune.go      deleting what a controller has created and does not name any more
//	release.go    giving up the fields of a primary on such an object
//	handover.go   handing the fields of a manager over to another one
//	label.go      labelling what a plugin has owned since before it was managed
//	noopapply.go  whether an apply would change nothing
//	fieldset.go   which fields of a value, and of an object, a set of fields has
//	live.go       reads for guests of what is not in the cache
//	status.go     the one patch of status, with status.conditions
//	quota.go      how many bytes the plugin may store
//	statusschema.go  what of it the schema of the kind has a place for
//	statusowner.go  the whole status, of a guest that owns it
//	pruned.go     fields of status that the server pruned
//	records.go    what is recorded of a primary, so that nothing is written twice
//	digest.go     digests of JSON values
package effect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// Store gives access to what the host holds of the cluster, without a request.
type Store interface {
	// Resource returns where a kind is served. The error is an
	// [*object.UnknownKindError] for a kind that is not served.
	Resource(ctx context.Context, kind abi.Kind) (object.Resource, error)
	// Get returns an object from the cache, as the plugin itself has left it. It has
	// only metadata if nothing else is kept of it.
	Get(kind abi.Kind, key object.Key) (obj *object.Object, shown Presence)
	// All yields all objects of a kind from the cache, none if it does not hold the
	// kind.
	All(kind abi.Kind) iter.Seq[*object.Object]
	// OwnedBy returns the objects of a kind in a namespace, "" for all, whose controller has that uid, as the
	// informers show them. ok is false if they do not show all of them yet.
	OwnedBy(kind abi.Kind, namespace string, owner types.UID) (all []*object.Object, ok bool)
	// StatusSchema returns the schema of the status of a kind, as it was read at most maxAge ago, and the same
	// pointer as long as it is the same; nil if it is not known. The error is why it cannot be read now.
	StatusSchema(ctx context.Context, kind abi.Kind, maxAge time.Duration) (*object.Schema, error)
}

// Presence is what the cache shows of whether an object of some name exists.
type Presence int

const (
	// Unknown means that the cache does not hold the kind in the namespace of the
	// object, or does not hold it yet.
	Unknown Presence = iota
	// Unselected means that the cache holds only some objects of the kind, by a
	// selector, and none of that name. There may be one that is not selected: then its
	// metadata is returned, if the plugin writes the kind.
	Unselected
	// Absent means that the cache holds the kind, and no object of that name.
	Absent
	// Present means that the cache holds the object.
	Present
)

// Recorder emits Kubernetes Events. record.EventRecorder implements it.
type Recorder interface {
	Event(about runtime.Object, eventType, reason, message string)
}

// Config configures a [Performer].
type Config struct {
	Planner
	// REST is how the API server is reached. Its rate limits, content types,
	// warning handler and User-Agent are replaced by those of the plugin.
	REST    *rest.Config
	Version string // of the host; part of the User-Agent
	Digest  string // of the module in hex; part of the User-Agent
	// Account is the service account that the plugin acts as. The zero value
	// leaves the account of REST.
	Account rights.Account
	// MayGet, if it is set, reports whether the account may get an object. Of any other
	// the cache decides nothing: what becomes of a write would tell what is there.
	MayGet func(ctx context.Context, r object.Resource, key object.Key) bool

	Recorder Recorder // the host's: Events are always emitted as the host

	QPS     float32       // writes per second; 0: unlimited
	Burst   int           // writes at once after a pause; default: those of a second
	Timeout time.Duration // of one request; default 30 s
	// ObserveWait, if it is set, is called with how long each write is postponed
	// because of QPS and Burst.
	ObserveWait func(time.Duration)

	// StoredBytes and ChurnBytes bound what the plugin stores: at any time, and in
	// [ChurnPeriod]; 0: unlimited.
	StoredBytes, ChurnBytes int64
	// CountBytes returns how many bytes the field managers have stored whose names begin
	// with a prefix, and whether these are all: see [object.Object.BytesBy]. nil: what was
	// stored before is not counted.
	CountBytes func(prefix string) (size int, all bool)
	// ObserveLimit, if it is set, is called with stored or churn when a write is refused
	// because of that limit.
	ObserveLimit func(limit string)

	// AdoptsPrimaries is set if a controller of the plugin owns a kind that one of them is for. Two
	// adoptions at once could make objects own each other: they are made one after the other.
	AdoptsPrimaries bool

	// Lease is that of the plugin; nil: this is the only replica of the host. A write that it
	// refuses is postponed ([Failure.Later]), and an Event is not emitted.
	Lease Lease

	// DryRun lets the API server check every write without storing it. What
	// would have changed is logged.
	DryRun bool
}

// validate checks that the configuration is complete, and sets the defaults.
func (c *Config) validate() error {
	switch {
	case c.REST == nil, c.Store == nil, c.Recorder == nil:
		return errors.New("REST, Store and Recorder are required")
	case !abi.ValidName(c.Plugin):
		return errors.New("the name is not a DNS label (lower case letters, digits, '-')")
	}
	c.Version = cmp.Or(c.Version, "unknown")
	c.Burst = cmp.Or(c.Burst, int(c.QPS)+1)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// Performer writes to the API server on behalf of one plugin. Its methods may
// be called concurrently, but not for the same primary and controller.
type Performer struct {
	Config
	client    client
	writes    *rate.Limiter // nil: unlimited
	liveReads *rate.Limiter
	*recorded // may be shared with a performer of another revision, as may be the limits
}

// recorded is what a performer remembers of the cluster.
type recorded struct {
	memory    memory
	shares    shares
	turns     turns // to write to shared objects
	pruned    prunedFields
	labelling labelling
	quota     quota
	adopting  chan struct{} // is full while an object is adopted, see [Config.AdoptsPrimaries]
}

// New returns a performer. It sends no request yet.
func New(config Config) (*Performer, error) {
	err := config.validate()
	p := &Performer{Config: config, recorded: &recorded{adopting: make(chan struct{}, 1)}, liveReads: rate.NewLimiter(liveReadsPerSecond, liveReadsBurst)}
	if config.QPS > 0 {
		p.writes = rate.NewLimiter(rate.Limit(config.QPS), config.Burst)
	}
	if err == nil {
		p.client, err = newClient(&config)
	}
	if err != nil {
		return nil, fmt.Errorf("plugin %q: make client: %w", config.Plugin, err)
	}
	return p, nil
}

// Inherit makes the performer share what another one has recorded, nil for none, and
// what that has left of the limits of reads and writes. It must be called before the
// first run. What was asked for in a dry run is not in the cluster, so that a performer
// that writes and one that does not share no records.
func (p *Performer) Inherit(from *Performer) {
	if from != nil {
		p.inheritLimits(from)
	}
	if from != nil && from.DryRun == p.DryRun {
		p.recorded = from.recorded
	}
	if !p.Managed {
		p.EndLabelling()
	}
}

// inheritLimits keeps a plugin from getting the burst again with each revision. Other rates
// hold for both performers at once, of which only one is of the policy that holds now.
func (p *Performer) inheritLimits(from *Performer) {
	p.liveReads = from.liveReads
	if p.writes == nil || from.writes == nil {
		return
	}
	now := p.Now()
	from.writes.SetLimitAt(now, p.writes.Limit())
	from.writes.SetBurstAt(now, p.writes.Burst())
	p.writes = from.writes
}

// mayWrite returns a failure with [Failure.Later] if the limit of writes is reached.
// A place under the limit is then reserved for the next write for the target, which
// has to wait for its time, whichever run it is of.
func (p *Performer) mayWrite(t Target) error {
	if p.writes == nil {
		return nil
	}
	r, now := p.memory.of(t, true), p.Now()
	reserved := r.read().reserved
	if reserved.IsZero() {
		reserved = now.Add(p.writes.ReserveN(now, 1).DelayFrom(now))
		if p.ObserveWait != nil {
			p.ObserveWait(reserved.Sub(now))
		}
	}
	wait := reserved.Sub(now)
	if wait <= 0 {
		reserved = time.Time{}
	}
	if r.extra != nil || wait > 0 {
		r.extras().reserved = reserved
		r.tidy()
	}
	if wait <= 0 {
		return nil
	}
	f := newFailure(abi.ClassRetry, reasonWriteLimit, "limits.writesPerSecond of the plugin is reached")
	f.Later = wait
	return f
}

// Forget drops what is recorded of a primary that does not exist any more.
func (p *Performer) Forget(uid object.Hash) { p.memory.forget(uid) }

// ForgetAll drops what is recorded of every primary, because the API server may
// have lost what was written, as after a restore of etcd. The next run of each
// primary compares with what is there, as after a restart of the host.
func (p *Performer) ForgetAll() {
	p.memory.forgetAll()
	p.quota.forgetStored()
}

// ForgetSchema drops what is recorded of the schema of a kind, which may have
// changed. Fields of status that the server pruned are sent again with the
// next status, instead of after [prunedFor].
func (p *Performer) ForgetSchema(kind abi.Kind) { p.pruned.reset(kind) }
