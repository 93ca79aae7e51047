package dispatch

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// Queue hands out the keys that are due.
type Queue interface {
	// Next waits for a key; ok is false when there will be none any more.
	Next() (due Due, ok bool)
	Trigger(key object.Key, reason abi.Reason)
	Settle(key object.Key, next outcome.Next)
	Return(due Due) // puts a key back as if it had not been handed out
	Forget(key object.Key)
	ShutDown()
}

// Due is a key that was handed out.
type Due struct {
	Key     object.Key
	Reasons []abi.Reason
	Reset   bool // the tries before do not count any more
}

// Guest is a loaded plugin.
type Guest interface {
	// Reconcile runs one reconcile. An error is or wraps a [*Fault] if the
	// guest is to blame; it is [ErrClosed] if the guest was closed before the
	// call began. Usage holds in every case in which the guest ran.
	Reconcile(ctx context.Context, call Call) (Return, error)
}

// ErrClosed says that the guest was replaced before the call began.
var ErrClosed = errors.New("the generation was replaced")

// Call is one call of a guest.
type Call struct {
	Request []byte
	Now     time.Time
	Seed    [32]byte
	Timeout time.Duration // 0: the plugin's limit
	Host    HostCalls
	// Then is for what the guest returned. A guest that has to share the
	// processor calls it while it is still its turn; others need not.
	Then func(Return)
}

// Return is what a guest returned.
type Return struct {
	Code   abi.Code
	Output []byte
	Usage
}

// Usage is what a call took.
type Usage struct {
	Time        time.Duration `json:"-"`           // in the guest
	Fuel        int64         `json:"fuel"`        // instructions
	MemoryBytes uint64        `json:"memoryBytes"` // of the instance, at its largest
}

// HostCalls answers what a guest asks for during a call (SPEC.md,
// "Capability calls").
type HostCalls interface {
	Get(ctx context.Context, call []byte) (reply []byte, code int64)
	List(ctx context.Context, call []byte) (reply []byte, code int64)
	Log(level int32, message []byte)
}

// Cache answers reads of one controller.
type Cache interface {
	Get(key object.Key) (*object.Object, bool)                                  // the primary
	Live(ctx context.Context, key object.Key) (obj *object.Object, err error)   // the primary, nil if not there
	CaughtUp(ctx context.Context, write Write) error                            // waits until the cache shows a write
	Begin(key object.Key) Reads                                                 // records what one run reads
	Namespaced(ctx context.Context, kind abi.Kind) (namespaced bool, err error) // whether a kind lives in namespaces
	Forget(key object.Key)                                                      // drops what the key has read
}

// Reads answers the reads of one run and remembers them as edges.
type Reads interface {
	// Get and List return [ErrNotSynced] before the kind's informer has
	// synced.
	Get(ctx context.Context, kind abi.Kind, key object.Key) (obj *object.Object, ok bool, err error)
	List(ctx context.Context, kind abi.Kind, namespace string, selector labels.Selector) ([]*object.Object, error)
	Commit()  // the run returned: its reads replace those of the run before
	Abandon() // it did not: both stay
}

// ErrNotSynced says that a kind cannot be read yet.
var ErrNotSynced = errors.New("the informer has not synced yet")

// Effects writes to the API server on behalf of one controller. Objects that
// it returns are the server's replies.
type Effects interface {
	HasFinalizer(primary *object.Object, c *abi.Controller) bool
	// EnsureFinalizer returns the primary with the finalizer; wrote is false
	// if it was there.
	EnsureFinalizer(ctx context.Context, primary *object.Object, c *abi.Controller) (reply *object.Object, wrote bool, err *Failure)
	// RemoveFinalizer returns nil if the primary is gone with it.
	RemoveFinalizer(ctx context.Context, primary *object.Object, c *abi.Controller) (reply *object.Object, err *Failure)
	// Intents performs patch, apply, delete and events of result in this
	// order and stops at the first that fails.
	Intents(ctx context.Context, primary *object.Object, c *abi.Controller, result *abi.Result) (Performed, *Failure)
	// Status writes one status patch; wrote is false if nothing would change.
	Status(ctx context.Context, primary *object.Object, c *abi.Controller, change StatusChange) (reply *object.Object, wrote bool, err *Failure)
	// Event emits the event of a run, nil if it has none: an identical one of
	// consecutive runs is emitted once.
	Event(primary *object.Object, c *abi.Controller, event *abi.Event)
	Forget(uid types.UID)
}

// Performed is what Intents has done, also when it failed half-way.
type Performed struct {
	Writes  []Write
	Primary *object.Object // the patched primary; nil if it was not patched
}

// Write is one write to the API server.
type Write struct {
	Verb            string // of the effect: finalizer, patch, apply, delete, status
	Kind            abi.Kind
	Key             object.Key
	ResourceVersion string // that the write led to; "" if unknown
}

// Failure is an effect that failed.
type Failure struct {
	abi.EffectFailure
	Conflict bool // with a newer version of the object (409)
}

// StatusChange is what is to become of the primary's status.
type StatusChange struct {
	Patch              []byte // RFC 7386, by the guest; nil: none
	Set                []outcome.Condition
	Remove             []string // types of conditions
	ObservedGeneration *int64   // nil leaves it
	HandledRequest     string   // of RequestedAt, which this run has answered; "" leaves it
}

// Allowance says whether one more may be had now; a rate.Limiter is one.
type Allowance interface{ Allow() bool }

// Metrics counts the runs of one controller.
type Metrics interface {
	Started() func(result string, class abi.Class, seconds float64)
	Wrote(verb string)
	Looped()  // a run of a key in a write loop
	Dropped() // a guest line beyond the allowance
	// Limited counts a result that was refused for a limit: intents.
	Limited(limit string)
}
