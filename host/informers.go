package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/catalog"
)

// informers are the informers that a plugin's running generation needs.
type informers struct {
	mu     sync.RWMutex
	byKind map[abi.Kind]*cache.Informer
}

func (i *informers) get(kind abi.Kind) *cache.Informer {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.byKind[kind]
}

// replace puts a new set in place and releases the one before. A kind in both
// keeps running: it was acquired twice for a moment.
func (i *informers) replace(byKind map[abi.Kind]*cache.Informer) {
	i.mu.Lock()
	before := i.byKind
	i.byKind = byKind
	i.mu.Unlock()
	release(before)
}

func release(byKind map[abi.Kind]*cache.Informer) {
	for _, informer := range byKind {
		informer.Release()
	}
}

// kindsOf lists the kinds that the controllers of a manifest read: what they
// are for, own, and name in reads.
func kindsOf(m *abi.Manifest) []abi.Kind {
	var kinds []abi.Kind
	for _, c := range m.Controllers {
		kinds = append(kinds, c.For)
		kinds = append(append(kinds, c.Owns...), c.Reads...)
	}
	slices.SortFunc(kinds, func(a, b abi.Kind) int {
		return slices.Compare([]string{a.APIVersion, a.Kind}, []string{b.APIVersion, b.Kind})
	})
	return slices.Compact(kinds)
}

// acquire gets an informer for each kind and waits until all have synced.
func acquire(ctx context.Context, c *cache.Cache, kinds []abi.Kind) (map[abi.Kind]*cache.Informer, error) {
	byKind := map[abi.Kind]*cache.Informer{}
	for _, kind := range kinds {
		informer, err := c.Acquire(ctx, kind)
		if err != nil {
			release(byKind)
			return nil, waiting(ctx, err)
		}
		byKind[kind] = informer
	}
	for kind, informer := range byKind {
		if err := informer.WaitForSync(ctx); err != nil {
			release(byKind)
			return nil, waiting(ctx, fmt.Errorf("read %s: %w", kind, err))
		}
	}
	return byKind, nil
}

// waiting makes of an error one that the catalog tries again, unless trying
// again cannot help.
func waiting(ctx context.Context, err error) error {
	var notWatchable *cache.NotWatchableError
	if ctx.Err() != nil || errors.As(err, &notWatchable) {
		return err
	}
	return &catalog.WaitError{Reason: err.Error()}
}
