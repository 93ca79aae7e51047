package functionindexes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/util/workqueue"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
)

// guest calls the function; [sandbox.Guest] implements it.
type guest interface {
	Call(ctx context.Context, export string, call sandbox.Call) (sandbox.Return, error)
}

// config configures an [index].
type config struct {
	plugin string
	name   string
	guest  guest
	config []byte // JSON, the administrator's configuration of the plugin; nil: none
	// objects are those that get keys: what the plugin follows of the kind. It must have
	// synced, and not be released before the index has been stopped or replaced.
	objects *cache.Informer
	access  dispatch.Access // what the plugin may read; nil: everything
	// failed is called for each object for which the function has failed.
	failed func(o *object.Object, err error)
	logger hclog.Logger
}

// index keeps the keys that a function gives to objects.
type index struct {
	config
	entries *cache.Derived
	dirty   *workqueue.Typed[object.Key] // objects that have changed
	unwatch func()
	cancel  context.CancelFunc
	done    sync.WaitGroup
	inARow  int // calls that have failed
}

// start starts an index in place of another one, which is halted; before may be nil. Where the
// function fails for an object, what the index before gave to it stays.
func start(c config, before *index) (*index, error) {
	entries, err := c.objects.Derive(c.plugin + "/" + c.name)
	if err != nil {
		return nil, fmt.Errorf("index %q: %w", c.name, err)
	}
	x := &index{config: c, entries: entries, dirty: workqueue.NewTyped[object.Key]()}
	x.unwatch = c.objects.AddChangeHandler(func(old, updated *object.Object) {
		for _, o := range []*object.Object{old, updated} {
			if o != nil {
				x.dirty.Add(o.Key())
			}
		}
	})
	if before != nil {
		before.halt()
	}
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel = cancel
	x.done.Go(func() { x.run(ctx, before) })
	return x, nil
}

// refresh calls the function again for every object, because the plugin may read more than
// before.
func (x *index) refresh() {
	for _, key := range x.allKeys() {
		x.dirty.Add(key)
	}
}

func (x *index) allKeys() []object.Key {
	return x.objects.Keys(func(object.Key) bool { return true })
}

// stop ends the index, and frees what it has.
func (x *index) stop() {
	x.halt()
	x.entries.Stop()
}

// halt ends the calls of the function. What the index has can still be read.
func (x *index) halt() {
	x.unwatch()
	x.cancel()
	x.dirty.ShutDown()
	x.done.Wait()
}

// run gives keys to all objects, and then to those that change. What changes meanwhile waits.
func (x *index) run(ctx context.Context, before *index) {
	x.build(ctx, before)
	for ctx.Err() == nil {
		key, shutdown := x.dirty.Get()
		if shutdown {
			return
		}
		x.update(ctx, key, nil)
		x.dirty.Done(key)
	}
}

// build gives keys to all objects that there are.
func (x *index) build(ctx context.Context, before *index) {
	if before != nil {
		defer before.entries.Stop()
	}
	for _, key := range x.allKeys() {
		if x.update(ctx, key, before); ctx.Err() != nil {
			return
		}
	}
	x.entries.Complete()
}

// update calls the function for an object, and keeps what it returns.
func (x *index) update(ctx context.Context, key object.Key, before *index) {
	o, exists := x.objects.Get(key)
	if !exists {
		x.entries.Remove(key)
		return
	}
	result, err := x.call(ctx, o)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errDenied):
		x.entries.Remove(key)
	case err != nil:
		x.keep(key, before)
		x.failedFor(ctx, o, err)
	case len(result.Entries) == 0:
		x.inARow = 0
		x.entries.Remove(key)
	default:
		x.inARow = 0
		x.put(o, result)
	}
}

func (x *index) put(o *object.Object, result *contract.Result) {
	entries, err := entriesOf(x.entries.Informer().Kind(), o, result)
	if err != nil { // cannot happen for what was decoded
		x.logger.Error("keys are lost", "index", x.name, "object", o.Key().String(), "error", err)
		return
	}
	x.entries.Put(entries)
}

// keep keeps what the index before gave to an object.
func (x *index) keep(key object.Key, before *index) {
	if before == nil {
		return
	}
	if o, exists := before.entries.Informer().Get(key); exists {
		x.entries.Put(o)
	}
}

var errDenied = errors.New("the plugin may not read the object")

// call calls the function for an object. It blocks while it is not known whether the plugin
// may read the object.
func (x *index) call(ctx context.Context, o *object.Object) (*contract.Result, error) {
	for x.access != nil {
		err := x.access.May(ctx, rights.List, o.Kind, object.Key{Namespace: o.Namespace}) // what it may list
		if access.Denied(err) {
			return nil, errDenied
		}
		if err == nil {
			break
		}
		if !elapse(ctx, unknownPause) {
			return nil, ctx.Err()
		}
	}
	returned, err := x.guest.Call(ctx, contract.Export, sandbox.Call{
		Request:   contract.EncodeRequestParts(&contract.Request{Index: x.name, Object: o.Raw, Config: x.config.config}),
		Namespace: o.Namespace,
	})
	switch {
	case err != nil:
		return nil, err
	case len(returned.Output) == 0: // with another code than 0
		return nil, fmt.Errorf("it returned %d, not 0", returned.Code)
	}
	result, err := contract.DecodeResult(returned.Output)
	switch {
	case err != nil:
		return nil, fmt.Errorf("what it wrote cannot be used: %w", err)
	case returned.Code != abi.CodeOK:
		return nil, fmt.Errorf("it returned %d, not 0: %s", returned.Code, cmp.Or(result.Message, "no message"))
	}
	return result, nil
}

const (
	// unknownPause is how long the index waits for what the plugin may read.
	unknownPause = time.Second
	// minPause and maxPause bound how long the index waits after calls that fail in a row:
	// each costs an instance.
	minPause = 10 * time.Millisecond
	maxPause = 5 * time.Second
)

// failedFor reports a call that has failed, and waits.
func (x *index) failedFor(ctx context.Context, o *object.Object, err error) {
	x.failed(o, err)
	pause := min(minPause<<min(x.inARow, 20), maxPause)
	x.inARow++
	elapse(ctx, pause)
}

// elapse waits, and reports whether ctx is not done.
func elapse(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
