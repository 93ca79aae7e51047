package index

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
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// Guest calls the function; [sandbox.Guest] implements it.
type Guest interface {
	Index(ctx context.Context, call sandbox.Call) (sandbox.Return, error)
}

// Config configures an [Index].
type Config struct {
	Plugin string
	Name   string
	Guest  Guest
	Config []byte // JSON, the administrator's configuration of the plugin; nil: none
	// Objects are those that get keys: what the plugin follows of the kind. It must have
	// synced, and not be released before the index has been stopped or replaced.
	Objects *cache.Informer
	// Allowed returns nil if the plugin may read an object, and denied if it may not; any
	// other error is temporary. nil allows all.
	Allowed func(ctx context.Context, o *object.Object) (denied bool, err error)
	// Failed is called for each object for which the function has failed.
	Failed func(o *object.Object, err error)
	Logger hclog.Logger
}

// Index keeps the keys that a function gives to objects.
type Index struct {
	Config
	entries *cache.Derived
	dirty   *workqueue.Typed[object.Key] // objects that have changed
	unwatch func()
	cancel  context.CancelFunc
	done    sync.WaitGroup
	failed  int // calls in a row
}

// Start starts an index in place of another one, which is halted; before may be nil. Where the
// function fails for an object, what the index before gave to it stays.
func Start(c *cache.Cache, config Config, before *Index) (*Index, error) {
	entries, err := c.Derive(Kind(config.Plugin, config.Name), config.Objects.Namespaced())
	if err != nil {
		return nil, fmt.Errorf("index %q: %w", config.Name, err)
	}
	x := &Index{Config: config, entries: entries, dirty: workqueue.NewTyped[object.Key]()}
	x.unwatch = config.Objects.AddChangeHandler(func(old, updated *object.Object) {
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

// Informer returns what the index has, of the kind [Kind].
func (x *Index) Informer() *cache.Informer { return x.entries.Informer() }

// Refresh calls the function again for every object, because the plugin may read more than
// before.
func (x *Index) Refresh() {
	for _, key := range x.allKeys() {
		x.dirty.Add(key)
	}
}

func (x *Index) allKeys() []object.Key {
	return x.Objects.Keys(func(object.Key) bool { return true })
}

// Stop ends the index, and frees what it has.
func (x *Index) Stop() {
	x.halt()
	x.entries.Stop()
}

// halt ends the calls of the function. What the index has can still be read.
func (x *Index) halt() {
	x.unwatch()
	x.cancel()
	x.dirty.ShutDown()
	x.done.Wait()
}

// run gives keys to all objects, and then to those that change. What changes meanwhile waits.
func (x *Index) run(ctx context.Context, before *Index) {
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
func (x *Index) build(ctx context.Context, before *Index) {
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
func (x *Index) update(ctx context.Context, key object.Key, before *Index) {
	o, exists := x.Objects.Get(key)
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
		x.failed = 0
		x.entries.Remove(key)
	default:
		x.failed = 0
		x.put(o, result)
	}
}

func (x *Index) put(o *object.Object, result *abi.IndexResult) {
	entries, err := entriesOf(x.entries.Informer().Kind(), o, result)
	if err != nil { // cannot happen for what was decoded
		x.Logger.Error("keys are lost", "index", x.Name, "object", o.Key().String(), "error", err)
		return
	}
	x.entries.Put(entries)
}

// keep keeps what the index before gave to an object.
func (x *Index) keep(key object.Key, before *Index) {
	if before == nil {
		return
	}
	if o, exists := before.Informer().Get(key); exists {
		x.entries.Put(o)
	}
}

var errDenied = errors.New("the plugin may not read the object")

// call calls the function for an object. It blocks while it is not known whether the plugin
// may read the object.
func (x *Index) call(ctx context.Context, o *object.Object) (*abi.IndexResult, error) {
	for x.Allowed != nil {
		denied, err := x.Allowed(ctx, o)
		if denied {
			return nil, errDenied
		}
		if err == nil {
			break
		}
		if !elapse(ctx, unknownPause) {
			return nil, ctx.Err()
		}
	}
	returned, err := x.Guest.Index(ctx, sandbox.Call{
		Request:   abi.EncodeIndexRequestParts(&abi.IndexRequest{Index: x.Name, Object: o.Raw, Config: x.Config.Config}),
		Namespace: o.Namespace,
	})
	switch {
	case err != nil:
		return nil, err
	case len(returned.Output) == 0: // with another code than 0
		return nil, fmt.Errorf("it returned %d, not 0", returned.Code)
	}
	result, err := abi.DecodeIndexResult(returned.Output)
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
func (x *Index) failedFor(ctx context.Context, o *object.Object, err error) {
	x.Failed(o, err)
	pause := min(minPause<<min(x.failed, 20), maxPause)
	x.failed++
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
